//! A runnable program for each user of turnkeep; see `src/bin/`. A person at a terminal has `examples/person.sh`.
