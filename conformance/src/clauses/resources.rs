//! Clauses on resources: what a store takes of the process, and how cost grows.

clauses! { ($) resources_tests; }
