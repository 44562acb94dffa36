//! The one error type. Match on [`Error::kind`]; show the message; log the code.

mod kind;

use std::fmt;
use std::io;
use std::path::Path;

pub use kind::{ErrorKind, ForkReason};

/// A result with the one error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What went wrong, on which ids, and what to do. Never the words of a conversation, never a secret.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: Option<&'static str>,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Source>,
}

impl Error {
    /// An error of a kind with a sentence for a person. For backends and hosts that write one.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            operation: None,
            message: message.into(),
            context: Vec::new(),
            source: None,
        }))
    }

    /// The answer of a store to an operation it does not have.
    #[must_use]
    pub fn unsupported(operation: &'static str) -> Self {
        Self::new(ErrorKind::Unsupported, format!("this store does not support {operation}"))
            .with_operation(operation)
    }

    /// An error of the file system, with what was tried and where.
    #[must_use]
    pub fn io(message: impl Into<String>, path: &Path, error: io::Error) -> Self {
        Self::new(ErrorKind::of_io(&error), message).with("path", path.display()).with_source(error)
    }

    /// The answer of a handle that was closed.
    #[must_use]
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "this handle of the store was closed; open another")
    }

    /// Adds an id or a number that helps to find the place. Never message text or a secret.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((name, value.to_string()));
        self
    }

    /// Names the operation that failed, unless a deeper layer already did.
    #[must_use]
    pub fn with_operation(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Keeps the error beneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error for one more caller; the error beneath is kept as text.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let mut copy = Self::new(self.0.kind, self.0.message.clone());
        copy.0.operation = self.0.operation;
        copy.0.context.clone_from(&self.0.context);
        copy.0.source = self.0.source.as_ref().map(|source| source.to_string().into());
        copy
    }

    /// The decision this asks for.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable code, `TK-…`; its page is `docs/errors/<code>.md`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// Whether the same call can succeed later without changing it.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable()
    }

    /// The operation that failed, where known.
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The message without code and context.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Ids and numbers, by name.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (at, (name, value)) in self.0.context.iter().enumerate() {
            write!(f, "{}{name} {}", if at == 0 { " (" } else { ", " }, value.escape_debug())?;
        }
        if !self.0.context.is_empty() {
            f.write_str(")")?;
        }
        write!(f, " [{}]", self.code())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.0.kind)
            .field("operation", &self.0.operation)
            .field("message", &self.0.message);
        out.field("context", &self.0.context).field("source", &self.0.source).finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_says_what_on_which_ids_and_the_code() {
        let error = Error::new(ErrorKind::NotFound, "no such session").with("session", "a\nb");
        assert_eq!(error.to_string(), "no such session (session a\\nb) [TK-NOT-FOUND]");
    }

    #[test]
    fn codes_are_unique() {
        let mut codes = ErrorKind::CODES.to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ErrorKind::CODES.len());
    }
}
