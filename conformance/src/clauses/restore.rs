//! Clauses on restoring and purging: a session being built is hidden, a deleted one is gone at once.

clauses! { ($) restore_tests; }
