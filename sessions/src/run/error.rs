//! Why a run failed, as the host says it.

use std::panic::Location;

use serde::{Deserialize, Serialize};
use turnkeep_core::Payload;
use turnkeep_core::error::Result;

/// Why a run failed: stable words for programs, and a sentence for a person. Never a key, a header or a raw response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// Where it failed: `provider`, `tool`, `host`, `recovery`, …
    pub area: String,
    /// What failed: `timeout`, `rate_limited`, …
    pub code: String,
    /// A sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether trying again may help.
    #[serde(default)]
    pub retryable: bool,
    /// Whatever else the host keeps, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
    #[serde(skip)]
    made: Made,
}

/// Where in the host's code an error was made, for the audit log. It says nothing of what the error is.
#[derive(Clone, Copy, Debug, Default)]
struct Made(Option<&'static Location<'static>>);

impl PartialEq for Made {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Made {}

impl RunError {
    /// An error of an area. The place of the call goes to the audit log, and nowhere else.
    #[must_use]
    #[track_caller]
    pub fn new(area: impl Into<String>, code: impl Into<String>) -> Self {
        Self {
            area: area.into(),
            code: code.into(),
            message: None,
            retryable: false,
            details: None,
            made: Made(Some(Location::caller())),
        }
    }

    /// The provider of the model failed.
    #[must_use]
    #[track_caller]
    pub fn provider(code: impl Into<String>) -> Self {
        Self::new("provider", code)
    }

    /// A tool failed.
    #[must_use]
    #[track_caller]
    pub fn tool(code: impl Into<String>) -> Self {
        Self::new("tool", code)
    }

    /// The host itself failed.
    #[must_use]
    #[track_caller]
    pub fn host(code: impl Into<String>) -> Self {
        Self::new("host", code)
    }

    /// A sentence for a person.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Trying again may help.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Whatever else the host keeps.
    #[must_use]
    pub fn details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }

    /// The error of a stored run.
    ///
    /// # Errors
    /// `Invalid` when the host stored an error of another form; the run has its bytes.
    pub fn from_run(run: &turnkeep_core::model::Run) -> Result<Option<Self>> {
        run.error.as_ref().map(Payload::parse).transpose()
    }

    pub(crate) fn place(&self) -> Option<&'static Location<'static>> {
        self.made.0
    }

    pub(crate) fn payload(&self) -> Result<Payload> {
        Payload::from_value(self)
    }
}
