//! Clauses on records: small versioned documents, and what a version protects.

clauses! { ($) records_tests; }
