//! Clauses on runs, and on the events and entries written with them.

clauses! { ($) runs_tests; }
