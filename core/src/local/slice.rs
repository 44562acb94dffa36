//! How much of a chore is done at a time.

use crate::limits::{SLICE_BYTES, SLICE_ROWS};

/// What one slice of a chore may still touch: rows, and bytes, because large rows take longer. It is full when either
/// has run out; the row that takes the last byte may take more than there was.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    rows: u32,
    bytes: usize,
}

impl Default for Slice {
    fn default() -> Self {
        Self::of_bytes(SLICE_BYTES)
    }
}

impl Slice {
    /// A slice that ends early after so many bytes instead of the usual ones.
    #[must_use]
    pub fn of_bytes(bytes: usize) -> Self {
        Self { rows: SLICE_ROWS, bytes }
    }

    /// A slice of rows whose bytes do not count.
    #[must_use]
    pub fn of_rows() -> Self {
        Self::of_bytes(usize::MAX)
    }

    /// Takes one row, if there is room. Once the answer was `false`, it always is.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = !self.is_full();
        if fits {
            self.took(1);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        fits
    }

    /// Rows were taken together, at most [`Slice::room`].
    pub fn took(&mut self, rows: usize) {
        self.rows = self.rows.saturating_sub(u32::try_from(rows).unwrap_or(u32::MAX));
    }

    /// How many more rows may be taken.
    #[must_use]
    pub fn room(&self) -> u32 {
        if self.bytes == 0 { 0 } else { self.rows }
    }

    /// Whether there is no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// How many rows were taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        u64::from(SLICE_ROWS - self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_full_after_its_rows() {
        let mut slice = Slice::of_rows();
        for taken in 0..SLICE_ROWS {
            assert_eq!((slice.room(), slice.taken()), (SLICE_ROWS - taken, taken.into()));
            assert!(!slice.is_full());
            assert!(slice.take(1 << 40));
        }
        assert!(slice.is_full());
        assert!(!slice.take(0));
        assert_eq!((slice.room(), slice.taken()), (0, SLICE_ROWS.into()), "what did not fit was not taken");
    }

    #[test]
    fn a_slice_usually_ends_after_two_mebibytes() {
        let mut slice = Slice::default();
        assert!(slice.take((2 << 20) - 1) && slice.take(1));
        assert!(slice.is_full());
    }

    #[test]
    fn a_slice_is_full_after_its_bytes_and_its_last_row_may_be_too_large() {
        for last in [1, 5] {
            let mut slice = Slice::of_bytes(10);
            assert!(slice.take(4) && slice.take(0) && slice.take(5));
            assert!(!slice.is_full(), "a byte is left");
            assert_eq!(slice.room(), SLICE_ROWS - 3);
            assert!(slice.take(last));
            assert!(slice.is_full() && !slice.take(0));
            assert_eq!((slice.room(), slice.taken()), (0, 4));
        }
    }

    #[test]
    fn rows_that_went_together_count_as_so_many() {
        let mut slice = Slice::of_rows();
        slice.took(0);
        slice.took(400);
        assert_eq!((slice.room(), slice.taken()), (SLICE_ROWS - 400, 400));
        slice.took((SLICE_ROWS - 400) as usize);
        assert!(slice.is_full());
        slice.took(usize::MAX);
        assert_eq!(slice.taken(), u64::from(SLICE_ROWS));
    }
}
