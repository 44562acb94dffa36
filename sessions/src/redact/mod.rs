//! Redaction: what a host wants hidden is hidden before anything is stored.
//!
//! A [`Redactor`] looks at every text on its way into the store: words, payloads, titles, errors, progress, events,
//! records. It is set once, with [`WorkspaceOptions::redactor`](crate::WorkspaceOptions::redactor), and sits in front of
//! the store itself ([`RedactingStore`]), so that no route can pass it by. Requests are recognised by their redacted form.
//!
//! ```
//! # use std::sync::Arc;
//! # use turnkeep_core::{Result, WorkspaceId};
//! # use turnkeep_memory::MemoryStore;
//! use turnkeep_sessions::redact::CommonSecrets;
//! use turnkeep_sessions::{Message, WorkspaceOptions};
//!
//! # async fn example() -> Result<()> {
//! let secrets = CommonSecrets::new()?.also("badge", r"BADGE-\d{6}")?;
//! let options = WorkspaceOptions::default().redactor(secrets);
//! # let ws = options.open(Arc::new(MemoryStore::new()), WorkspaceId::new("demo")?).await?;
//! let session = ws.sessions().create().await?;
//! session.append([Message::user("use BADGE-123456 and password=hunter2")]).await?;
//! let said = session.messages().latest(1).await?.items.remove(0).message.text();
//! assert_eq!(said, "use [redacted:badge] and password=[redacted:password]");
//! # Ok(()) }
//! # turnkeep_sessions::blocking::block_on(example()).unwrap();
//! ```

mod commit;
mod common;
mod json;
mod store;
mod tail;

use std::fmt;
use std::sync::Arc;

pub use common::CommonSecrets;
pub use store::RedactingStore;
pub(crate) use tail::Tail;

/// Hides what must not be stored. Any `Fn(&str) -> Option<String>` is one.
///
/// It is asked for each text by itself: a plain column, or one decoded string or field name of a JSON payload. A string
/// that holds JSON itself is taken apart, too, so that it stays JSON. Numbers, `true`, `false` and `null` are kept, unless
/// [`field`](Self::field) says otherwise; ids, keys and the names of kinds are no text and are never changed.
///
/// Asked again about its own answer, it must find nothing more to hide.
pub trait Redactor: Send + Sync + 'static {
    /// The text to store instead; `None` if there is nothing to hide.
    fn text(&self, text: &str) -> Option<String>;

    /// The text to store instead of a value that its name gives away, such as the one of `"password"`; `None` if the
    /// name says nothing. Asked before [`text`](Self::text), with numbers as they are written.
    fn field(&self, name: &str, value: &str) -> Option<String> {
        let _ = (name, value);
        None
    }

    /// How many bytes of a text that still grows can be stored by now, because nothing that follows can make a secret of
    /// them. The rest is held back in memory, so that a secret split over two pieces of a stream is found. Whole lines
    /// by default.
    fn settled(&self, text: &str) -> usize {
        whole_lines(text)
    }
}

impl<F: Fn(&str) -> Option<String> + Send + Sync + 'static> Redactor for F {
    fn text(&self, text: &str) -> Option<String> {
        self(text)
    }
}

fn whole_lines(text: &str) -> usize {
    text.rfind('\n').map_or(0, |at| at + 1)
}

/// A redactor to be shared.
#[derive(Clone)]
pub struct Redaction(Arc<dyn Redactor>);

impl<R: Redactor> From<R> for Redaction {
    fn from(redactor: R) -> Self {
        Self(Arc::new(redactor))
    }
}

impl Redaction {
    fn redactor(&self) -> &dyn Redactor {
        &*self.0
    }
}

impl fmt::Debug for Redaction {
    /// No more than that there is one: patterns may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redaction")
    }
}
