//! What the generated tests call.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::clause::Clause;
use crate::fragment::{self, Fragment};
use crate::harness::Harness;
use crate::peer::{self, PeerCommand};
use crate::runner::Settings;
use crate::{registry, runner, tier};

/// Runs the clause of a generated test. `path` is the test's module path with the crate in front.
///
/// # Panics
/// When the verdict is not acceptable; that is how a test fails.
pub fn run<H: Harness + Default>(name: &str, path: &str) {
    let Some(clause) = registry::by_name(name) else { panic!("no clause has a test named {name}") };
    let harness: Arc<dyn Harness> = Arc::new(H::default());
    let (tier, seed) = match tier::asked() {
        Ok(asked) => asked,
        Err(wrong) => panic!("{wrong}"),
    };
    let settings = Settings { tier, seed, ..Settings::of(clause) };
    if let Some((role, site)) = peer::assigned() {
        if let Err(stop) = runner::run_peer(harness, clause, &role, site, settings) {
            panic!("{} as {role}: {stop}", clause.id);
        }
        return;
    }
    let full_name = path.split_once("::").map_or(path, |(_, within)| within);
    let command = match PeerCommand::of_test(full_name) {
        Ok(command) => command,
        Err(stop) => panic!("{}: {stop}", clause.id),
    };
    if clause.alone && !peer::is_alone() {
        let longest = clause.timeout + Duration::from_secs(60);
        if let Err(stop) = command.start_alone(longest).and_then(peer::Peer::wait) {
            panic!("{} in a process of its own: {stop}", clause.id);
        }
        return;
    }
    let backend = Backend::declared(&harness.manifest());
    let finding = runner::find(harness, clause, Settings { peers: Some(command), ..settings });
    if let Some(folder) = fragment::wanted() {
        let written = Fragment::new(clause, backend, tier, seed, finding.clone()).write(&folder);
        assert!(
            written.is_ok(),
            "{}: the fragment cannot be written to {}: {written:?}",
            clause.id,
            folder.display()
        );
    }
    judge(clause, &finding);
}

fn judge(clause: &Clause, finding: &crate::Finding) {
    let verdict = &finding.verdict;
    if verdict.is_acceptable() {
        if !verdict.detail().is_empty() {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "{} {verdict}", clause.id);
        }
        return;
    }
    let tape = finding.tape.as_ref().map_or(String::new(), |tape| format!("\n  tape: {tape}"));
    panic!("{} {}\n  {verdict}\n  why: {}{tape}", clause.id, clause.title, clause.why);
}

/// Whether the generated tests are exactly the registry; for the test that the macro adds.
///
/// # Panics
/// When they differ.
pub fn assert_complete(tests: &[&str]) {
    let registered: Vec<&str> = registry::all().map(|clause| clause.name).collect();
    for name in &registered {
        assert!(tests.contains(name), "clause {name} has no test: add its group to conformance_tests!");
    }
    assert_eq!(tests.len(), registered.len(), "a test is no clause, or a clause has two tests");
}
