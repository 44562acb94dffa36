//! Clauses on branches: the entries of a session are a tree, and a path through it is exact.

clauses! { ($) branches_tests; }
