#!/bin/sh
# You sit at a terminal: what your agents said is yours to list, read, continue, take along and delete.
# Needs the program: `cargo build`, then `PATH="$PWD/target/debug:$PATH" sh examples/person.sh`.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TURNKEEP_STATE_HOME="$work/state"
export TURNKEEP_STATE_HOME
mkdir "$work/project"
cd "$work/project"

echo "# talk, and go on later from another process"
turnkeep chat --title "the bakery" --say "count the loaves"
turnkeep chat --last --say "and the rolls"

echo "# list and read"
turnkeep sessions list
turnkeep sessions show --last
turnkeep sessions list --search "rolls"

echo "# a secret that is never stored"
turnkeep --redact chat --last --say "my password=hunter2 opens the till"
if grep -r "hunter2" "$TURNKEEP_STATE_HOME" >/dev/null; then echo "it is stored"; else echo "it is nowhere"; fi

echo "# what happened, without the words"
turnkeep sessions log --last

echo "# take it along: another store, the same conversation"
id=$(turnkeep sessions list | awk 'NR == 2 { print $1 }')
turnkeep export "$id" --output "$work/bakery.jsonl"
turnkeep --store "sqlite:$work/other.sqlite3" import "$work/bakery.jsonl"
turnkeep --store "sqlite:$work/other.sqlite3" sessions list

echo "# delete it, for good"
turnkeep sessions delete "$id" --yes
turnkeep sessions list
