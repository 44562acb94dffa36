//! Which crate of ours may depend on which.

use serde_json::Value;

use super::Report;
use crate::project::{Project, array, text};

/// Which crates of ours may be reached.
enum Reach {
    Any,
    Only(&'static [&'static str]),
}

impl Reach {
    fn allows(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.contains(&name),
        }
    }
}

/// A crate of ours with what it may depend on.
struct Rule {
    name: &'static str,
    /// Normal and build dependencies.
    normal: Reach,
    /// What its tests may use besides.
    tests: Reach,
}

const fn rule(name: &'static str, normal: &'static [&'static str], tests: &'static [&'static str]) -> Rule {
    Rule { name, normal: Reach::Only(normal), tests: Reach::Only(tests) }
}

const CORE: &str = "turnkeep-core";
const MEMORY: &str = "turnkeep-memory";
const SQLITE: &str = "turnkeep-sqlite";
const REDB: &str = "turnkeep-redb";
const SESSIONS: &str = "turnkeep-sessions";
const CONFORMANCE: &str = "turnkeep-conformance";
const TEST_VFS: &str = "turnkeep-test-vfs";
const HARNESSES: &str = "turnkeep-harnesses";
const FACADE: &str = "turnkeep";

/// The feature of the facade that brings in the conformance suite, and nothing else may.
const TESTING: &str = "testing";

const RULES: &[Rule] = &[
    rule(CORE, &[], &[]),
    rule(MEMORY, &[CORE], &[CONFORMANCE, HARNESSES]),
    rule(SQLITE, &[CORE], &[CONFORMANCE, HARNESSES]),
    rule(REDB, &[CORE], &[CONFORMANCE, HARNESSES]),
    rule(SESSIONS, &[CORE], &[MEMORY, SQLITE, REDB]),
    rule(CONFORMANCE, &[CORE, MEMORY], &[]),
    rule(TEST_VFS, &[CONFORMANCE], &[]),
    rule(HARNESSES, &[CORE, MEMORY, SQLITE, REDB, CONFORMANCE, TEST_VFS], &[]),
    rule(FACADE, &[CORE, MEMORY, SQLITE, REDB, SESSIONS, CONFORMANCE], &[]),
    rule("turnkeep-cli", &[FACADE, CONFORMANCE, HARNESSES], &[]),
    rule("turnkeep-toy", &[CORE, MEMORY], &[CONFORMANCE]),
    rule("turnkeep-examples", &[FACADE, CONFORMANCE, HARNESSES], &[]),
    Rule { name: "turnkeep-benches", normal: Reach::Any, tests: Reach::Any },
    rule("turnkeep-mutation", &[], &[]),
    rule("xtask", &[], &[]),
];

pub(super) fn check(project: &Project) -> Report {
    check_members(&project.members)
}

fn check_members(members: &[Value]) -> Report {
    let mut report = Report::default();
    let ours: Vec<&str> = members.iter().map(|member| text(&member["name"])).collect();
    for member in members {
        let name = text(&member["name"]);
        let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
            report.fail(format!(
                "{name}: a crate without a rule; add a line for it to RULES in xtask/src/check/arrows.rs \
                 that says which crates of ours it may depend on"
            ));
            continue;
        };
        for dependency in array(&member["dependencies"]) {
            let target = text(&dependency["name"]);
            if !ours.contains(&target) || target == name {
                continue;
            }
            let in_tests = text(&dependency["kind"]) == "dev";
            let allowed = rule.normal.allows(target) || (in_tests && rule.tests.allows(target));
            if !allowed {
                let section = if in_tests { "dev-dependencies" } else { "dependencies" };
                report.fail(format!(
                    "{name} -> {target}: not an arrow of this house; remove it from [{section}] of {name}, \
                     or move the code to the crate that may use both"
                ));
            } else if name == FACADE && target == CONFORMANCE && !in_tests && dependency["optional"] != true {
                report.fail(format!(
                    "{name} -> {target}: must be optional; write `optional = true` and name it in the \
                     feature `{TESTING}`"
                ));
            }
        }
        if name == FACADE {
            check_testing_feature(&member["features"], &mut report);
        }
    }
    report
}

/// Only the feature `testing` may switch the conformance suite on, and no default feature may lead to it.
fn check_testing_feature(features: &Value, report: &mut Report) {
    let Some(features) = features.as_object() else { return };
    for (feature, enables) in features {
        for enabled in array(enables).iter().map(text) {
            let package = enabled.strip_prefix("dep:").unwrap_or(enabled);
            let package = package.split('/').next().unwrap_or(package);
            if package == CONFORMANCE && feature != TESTING {
                report.fail(format!(
                    "{FACADE}: the feature `{feature}` enables {CONFORMANCE}; only `{TESTING}` may, \
                     so move `{enabled}` there"
                ));
            }
            if enabled == TESTING {
                report.fail(format!(
                    "{FACADE}: the feature `{feature}` enables `{TESTING}`; remove it, because a host asks \
                     for `{TESTING}` by name"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<Value> = dependencies
            .iter()
            .map(|(name, kind)| json!({ "name": name, "kind": kind, "optional": false }))
            .collect();
        json!({ "name": name, "dependencies": dependencies, "features": {} })
    }

    fn failures(members: &[Value]) -> Vec<String> {
        check_members(members).failures
    }

    #[test]
    fn allowed_arrows_and_foreign_crates_pass() {
        let members = [
            member(CORE, &[("serde", None), ("tempfile", Some("dev"))]),
            member(MEMORY, &[(CORE, None), (CONFORMANCE, Some("dev"))]),
            member(CONFORMANCE, &[(CORE, None)]),
            member("turnkeep-benches", &[(CORE, None), (MEMORY, None), (CONFORMANCE, Some("dev"))]),
        ];
        assert_eq!(failures(&members), Vec::<String>::new());
    }

    #[test]
    fn core_uses_no_crate_of_ours_even_in_tests() {
        let members = [member(CORE, &[(MEMORY, Some("dev"))]), member(MEMORY, &[(CORE, None)])];
        let failures = failures(&members);
        assert_eq!(failures.len(), 1);
        assert!(failures[0].starts_with("turnkeep-core -> turnkeep-memory"), "{failures:?}");
    }

    #[test]
    fn a_backend_uses_the_suite_only_in_tests() {
        let members = [member(SQLITE, &[(CONFORMANCE, None)]), member(CONFORMANCE, &[])];
        assert_eq!(failures(&members).len(), 1);
    }

    #[test]
    fn an_unknown_crate_asks_for_a_line() {
        let failures = failures(&[member("turnkeep-new", &[])]);
        assert!(failures[0].contains("add a line"), "{failures:?}");
    }

    #[test]
    fn the_facade_takes_the_suite_only_behind_testing() {
        let plain = member(FACADE, &[(CONFORMANCE, None)]);
        assert!(failures(&[plain.clone(), member(CONFORMANCE, &[])])[0].contains("must be optional"));

        let mut gated = plain;
        gated["dependencies"][0]["optional"] = json!(true);
        gated["features"] = json!({ "testing": ["dep:turnkeep-conformance"], "default": [] });
        assert_eq!(failures(&[gated.clone(), member(CONFORMANCE, &[])]), Vec::<String>::new());

        gated["features"]["default"] = json!(["testing"]);
        assert!(
            failures(&[gated.clone(), member(CONFORMANCE, &[])])[0].contains("`default` enables `testing`")
        );

        gated["features"] = json!({ "sqlite": ["turnkeep-conformance/extra"] });
        assert!(failures(&[gated, member(CONFORMANCE, &[])])[0].contains("only `testing` may"));
    }
}
