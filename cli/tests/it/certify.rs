//! `turnkeep certify`: what is asked, what is written, what is removed, and how it ends.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::kit::{Home, PATIENCE, Ran, Running};

/// Runs it with its own folder for temporary files, and looks that nothing is left there.
fn certify(home: &Home, args: &[&str]) -> Ran {
    let ran = Running::start(command(home, args)).end();
    assert_eq!(left(&home.path("tmp")), Vec::<String>::new(), "{args:?} left files behind");
    ran
}

fn command(home: &Home, args: &[&str]) -> std::process::Command {
    fs::create_dir_all(home.path("tmp")).unwrap();
    let mut command = home.command(&[&["certify"], args].concat());
    command.env("TMPDIR", home.path("tmp"));
    command
}

fn left(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().display().to_string()).collect()
}

fn report(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap()
}

fn verdict(report: &Value, id: &str) -> String {
    let clauses = report["clauses"].as_array().unwrap();
    let clause = clauses.iter().find(|clause| clause["id"] == id).unwrap();
    clause["verdict"].as_str().unwrap().to_owned()
}

#[test]
fn listing_and_explaining_name_every_clause_and_open_nothing() {
    let home = Home::new();
    let ran = certify(&home, &["list"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let clauses = ran.out.lines().filter(|line| line.starts_with("  ")).count();
    assert!(clauses > 100, "{clauses}");
    assert!(ran.out.starts_with("ID  Identity\n  ID-001  MUST"), "{}", ran.out);

    let ran = certify(&home, &["list", "ord"]);
    assert!(ran.out.lines().skip(1).all(|line| line.starts_with("  ORD-")), "{}", ran.out);

    let ran = certify(&home, &["explain", "ord-001"]);
    assert_eq!(ran.code, 0);
    for part in ["ORD-001  Order", "level    MUST", "why      ", "catches  a ", "case-01"] {
        assert!(ran.out.contains(part), "{part} is missing in {}", ran.out);
    }
    let data = home.json(&["certify", "list", "CAP"]);
    assert_eq!(data["clauses"][0]["id"], "CAP-001");
    assert_eq!(home.json(&["certify", "explain", "CAP-001"])["clause"]["level"], "must");
    for made in [home.path("state"), home.project().join(".turnkeep")] {
        assert!(!made.exists(), "{} was made", made.display());
    }
}

#[test]
fn what_does_not_exist_is_refused_before_anything_is_asked() {
    let home = Home::new();
    certify(&home, &["explain", "ORD-999"]).refused(3, "ORD-999");
    certify(&home, &[]).refused(2, "certify needs a backend");
    certify(&home, &["postgres:"]).refused(2, "postgres: names no backend");
    certify(&home, &["sqlite"]).refused(2, "sqlite names no backend");
    certify(&home, &["sqlite:/nowhere/at/all"]).refused(2, "is no folder");
    certify(&home, &["verify", "nowhere"]).refused(3, "holds no certificate");
    for (args, word) in [
        (&["memory:", "--only", "NONE"][..], "NONE"),
        (&["memory:", "--tier", "fast"], "smoke, full or soak"),
        (&["memory:", "--budget", "soon"], "soon"),
        (&["memory:", "--waive", "ORD-001"], "reason"),
        (&["list", "nothing"], "nothing"),
    ] {
        let ran = certify(&home, args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(word), "{args:?}: {}", ran.err);
    }
    assert!(!home.project().join("turnkeep-report").exists());
}

#[test]
fn a_part_that_passes_ends_well_and_says_that_it_is_no_certificate() {
    let home = Home::new();
    for backend in ["memory", "sqlite", "redb"] {
        let ran = certify(&home, &[&format!("{backend}:"), "--only", "ID", "--seed", "5"]);
        assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
        assert!(
            ran.out.contains("NO CERTIFICATE") && ran.out.contains("only a part of the clauses was asked")
        );
        assert!(ran.out.contains("certificate  none"), "{}", ran.out);
        assert!(ran.err.contains("pass         ID-001"), "{}", ran.err);
        let folder = home.project().join("turnkeep-report").join(backend);
        for file in ["report.json", "report.html", "junit.xml"] {
            assert!(folder.join(file).is_file(), "{file}");
        }
        assert!(!folder.join("certificate.json").exists());
        let report = report(&folder);
        assert_eq!(
            (verdict(&report, "ID-001"), verdict(&report, "ORD-001")),
            ("pass".into(), "not_run".into())
        );
        assert_eq!(report["backend"]["name"], backend);
        assert!(report["backend"]["store"]["engine"].is_string());
        assert_eq!(
            report["run"]["command"],
            format!("turnkeep certify {backend}: --tier full --seed 5 --only ID")
        );
    }
}

#[test]
fn a_clause_that_needs_other_processes_or_a_process_of_its_own_gets_them() {
    let home = Home::new();
    let args = ["sqlite:", "--only", "CON-008", "--only", "RES-006", "--only", "CAP-001", "--report", "out"];
    let ran = certify(&home, &args);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    let report = report(&home.project().join("out"));
    assert_eq!((verdict(&report, "CON-008"), verdict(&report, "RES-006")), ("pass".into(), "pass".into()));
}

#[test]
fn a_waived_clause_is_named_and_costs_the_certificate() {
    let home = Home::new();
    let ran = certify(&home, &["memory:", "--only", "ID", "--waive", "ID-002=we like small letters"]);
    assert_eq!(ran.code, 17, "{}", ran.out);
    assert!(ran.out.contains("waived  ID-002") && ran.out.contains("we like small letters"), "{}", ran.out);
}

#[test]
fn a_budget_that_is_used_up_leaves_clauses_that_were_not_run() {
    let home = Home::new();
    let ran = certify(&home, &["memory:", "--budget", "1s", "--jobs", "1", "--report", "out"]);
    assert_eq!(ran.code, 17, "{}", ran.out);
    let report = report(&home.project().join("out"));
    let clauses = report["clauses"].as_array().unwrap();
    let unrun: Vec<_> = clauses.iter().filter(|clause| clause["verdict"] == "not_run").collect();
    assert!(!unrun.is_empty(), "all of it within a second");
    assert!(unrun.iter().all(|clause| clause["detail"].as_str().unwrap().starts_with("the budget ran out")));
    assert!(!clauses.iter().any(|clause| clause["verdict"] == "error"));
}

#[test]
fn ctrl_c_ends_everything_and_removes_what_was_made() {
    let home = Home::new();
    for signal in [Signal::INT, Signal::TERM] {
        let work = home.path("work");
        fs::create_dir_all(&work).unwrap();
        let url = format!("sqlite:{}", work.display());
        let running = Running::start(command(&home, &[&url, "--report", "out"]));
        running.wait_for("certifying sqlite");
        while left(&work).is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        running.signal(signal);
        let ran = running.end();
        assert_eq!(ran.code, 130, "{}\n{}", ran.out, ran.err);
        assert_eq!(left(&work), Vec::<String>::new());
        let report = report(&home.project().join("out"));
        assert_eq!(verdict(&report, "CAP-003"), "not_run");
        assert!(!home.project().join("out/certificate.json").exists());
    }
}

/// Processes whose command line has this text.
#[cfg(target_os = "linux")]
fn processes_with(text: &str) -> usize {
    let running =
        fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    running.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn no_process_outlives_a_killed_certification() {
    let home = Home::new();
    let work = home.path("work");
    fs::create_dir_all(&work).unwrap();
    let url = format!("sqlite:{}", work.display());
    let running = Running::start(command(&home, &[&url, "--report", "out"]));
    let begun = std::time::Instant::now();
    // This one, and at least one that it started.
    while processes_with(&url) < 2 {
        assert!(begun.elapsed() < PATIENCE, "no clause was asked");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(running.kill().code, 137);
    let killed = std::time::Instant::now();
    while processes_with(&url) > 0 {
        assert!(killed.elapsed() < PATIENCE, "a process of a clause goes on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_backend_that_keeps_its_promises_earns_a_certificate_that_holds() {
    let home = Home::new();
    let ran = certify(&home, &["memory:", "--report", "out"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert!(ran.out.contains("CERTIFIED: memory") && ran.out.contains("out/certificate.json"), "{}", ran.out);
    let folder = home.project().join("out");
    let certificate = fs::read_to_string(folder.join("certificate.json")).unwrap();
    let certificate: Value = serde_json::from_str(&certificate).unwrap();
    assert_eq!((&certificate["run"]["tier"], &certificate["counts"]["fail"]), (&"full".into(), &0.into()));
    let held = certify(&home, &["verify", "out"]);
    assert_eq!(held.code, 0, "{}", held.out);
    assert!(held.out.starts_with("holds: memory"), "{}", held.out);

    let path = folder.join("report.json");
    let touched = fs::read_to_string(&path).unwrap().replacen(
        "\"verdict\": \"unsupported\"",
        "\"verdict\": \"pass\"",
        1,
    );
    fs::write(&path, touched).unwrap();
    let refused = certify(&home, &["verify", "out"]);
    assert_eq!(refused.code, 17);
    assert!(refused.out.contains("issued for another report"), "{}", refused.out);
    // A smaller report takes the certificate of the larger one away.
    let ran = certify(&home, &["memory:", "--only", "ID-001", "--report", "out"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!folder.join("certificate.json").exists(), "a certificate stands beside a part");
}

#[test]
fn a_report_is_made_anew_and_a_touched_certificate_does_not_hold() {
    let home = Home::new();
    let ran = certify(&home, &["memory:", "--only", "ID-001", "--report", "out"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let folder = home.project().join("out");
    let page = fs::read(folder.join("report.html")).unwrap();
    fs::remove_file(folder.join("report.html")).unwrap();
    let ran = certify(&home, &["report", "out", "--to", "again"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(fs::read(home.project().join("again/report.html")).unwrap(), page);
    let answer = home.json(&["certify", "report", "out"]);
    assert_eq!(answer["report"]["certified"], false);

    // A certificate that somebody wrote by hand.
    fs::write(folder.join("certificate.json"), b"{}").unwrap();
    let ran = certify(&home, &["verify", "out"]);
    assert_eq!(ran.code, 17);
    assert!(ran.out.contains("does not hold"), "{}", ran.out);

    fs::create_dir(home.path("empty")).unwrap();
    let empty = home.path("empty").display().to_string();
    certify(&home, &["report", &empty]).refused(15, "holds no fragments");
}

#[test]
fn scripts_get_the_same_as_data() {
    let home = Home::new();
    let answer = home.json(&["certify", "memory:", "--only", "ORD-001"]);
    let certify = &answer["certify"];
    assert_eq!((&certify["certified"], &certify["passed"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(certify["counts"]["pass"], 1);
    assert!(certify["files"]["page"].as_str().unwrap().ends_with("report.html"));
    assert!(certify["shortfalls"][0].as_str().unwrap().contains("only a part"));
}
