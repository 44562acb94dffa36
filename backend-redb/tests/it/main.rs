//! What only this backend can get wrong: its file, its tables, its engine. The contract is tested by the conformance
//! suite.

mod conformance;
