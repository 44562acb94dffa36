//! What every list is asked for beside what it lists: how many at a time, in which order, and from where.

use turnkeep_core::Cursor;
use turnkeep_core::query::{DEFAULT_LIMIT, Order};

/// The page that is asked for, of a list whose query is made when it is awaited.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) order: Order,
    pub(crate) limit: u32,
    pub(crate) cursor: Option<Cursor>,
}

impl Default for Asked {
    fn default() -> Self {
        Self { order: Order::Ascending, limit: DEFAULT_LIMIT, cursor: None }
    }
}

impl Asked {
    /// Order, limit and cursor, as a query has them.
    pub(crate) fn parts(self) -> (Order, u32, Option<Cursor>) {
        (self.order, self.limit, self.cursor)
    }
}

/// The setters of a list, which keeps what they set in a field: `limit`, `cursor`, and `order` with a type and the words
/// for its default.
macro_rules! paged {
    ($list:ident.$asked:ident $(, $order:ident: $default:literal)?) => {
        impl $list {
            $(
                #[doc = concat!("The order; by default ", $default, ".")]
                pub fn order(mut self, order: $order) -> Self {
                    self.$asked.order = order;
                    self
                }
            )?

            /// At most this many in one page; 100 by default. 0 is refused as `Invalid`, and more than the store puts
            /// into one page, which is 10 000 unless it declares less, is served as that.
            pub fn limit(mut self, limit: u32) -> Self {
                self.$asked.limit = limit;
                self
            }

            /// Goes on where a page before ended: its [`next`](turnkeep_core::Page::next). From the beginning, by
            /// default; the cursor of another list is refused as `Invalid`.
            pub fn cursor(mut self, cursor: turnkeep_core::Cursor) -> Self {
                self.$asked.cursor = Some(cursor);
                self
            }
        }
    };
}

pub(crate) use paged;
