//! Clauses on leases: one holder at a time, and a former one can no longer write.

clauses! { ($) leases_tests; }
