//! Clauses on group commit: commits that share one durable write stand or fall each for itself.

clauses! { ($) group_tests; }
