//! `turnkeep usage`.

use serde_json::Value;
use turnkeep::model::Usage;
use turnkeep::state::ModelRequest;
use turnkeep::{Message, OpenOptions, SessionId};

use crate::kit::Home;

/// Two sessions whose runs asked two models.
fn home_with_usage() -> Home {
    let home = Home::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let workspace = OpenOptions::new().state_root(home.path("state")).open(home.project()).await.unwrap();
        for (id, requests) in [("one", vec![("small", 10), ("large", 300)]), ("two", vec![("small", 90)])] {
            let create =
                workspace.sessions().create().id(SessionId::new(id).unwrap()).title(format!("title {id}"));
            let session = create.await.unwrap();
            for (model, tokens) in requests {
                let run = session.begin_run(Message::user("work")).await.unwrap();
                let usage = Usage { input_tokens: tokens, output_tokens: tokens / 10, ..Usage::default() };
                run.add_usage(ModelRequest::new(model, usage).provider("acme")).await.unwrap();
                run.complete([Message::assistant("done")]).await.unwrap();
            }
        }
        workspace.sessions().create().title("consumed nothing").await.unwrap();
        workspace.close().await.unwrap();
    });
    home
}

fn totals(answer: &Value) -> Vec<(String, u64)> {
    let rows = answer["rows"].as_array().unwrap();
    let of = |row: &Value| {
        (row["id"].as_str().unwrap_or("-").to_owned(), row["usage"]["total_tokens"].as_u64().unwrap())
    };
    rows.iter().map(of).collect()
}

#[test]
fn usage_is_shown_per_session_run_and_model() {
    let home = home_with_usage();
    let sessions = home.json(&["usage"]);
    assert_eq!(totals(&sessions), [("one".into(), 341), ("two".into(), 99)]);
    assert_eq!(sessions["total"]["total_tokens"], 440);
    assert_eq!(sessions["total"]["requests"], 3);
    let models = home.json(&["usage", "--by", "model"]);
    assert_eq!(totals(&models), [("large".into(), 330), ("small".into(), 110)]);
    assert_eq!(models["rows"][0]["name"], "acme");
    let runs = home.json(&["usage", "one"]);
    assert_eq!(totals(&runs).iter().map(|(_, tokens)| *tokens).collect::<Vec<_>>(), [330, 11]);
    let of_one = home.json(&["usage", "one", "--by", "model"]);
    assert_eq!(totals(&of_one), [("large".into(), 330), ("small".into(), 11)]);
    home.run(&["usage", "--by", "run"]).refused(2, "runs belong to a session");
}

#[test]
fn usage_is_a_table_with_a_chart_that_fits_the_terminal() {
    let home = home_with_usage();
    let shown = home.ok(&["usage"]);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 4, "a head, two sessions and the sum: {shown}");
    assert!(lines[1].contains("341") && lines[1].contains(&"█".repeat(16)), "{shown}");
    assert!(lines[1].ends_with("title one"), "{shown}");
    let bar = |line: &str| line.chars().filter(|c| ('▏'..='▉').contains(c) || *c == '█').count();
    assert!(bar(lines[2]) < bar(lines[1]) && bar(lines[2]) > 0, "{shown}");
    assert!(lines[3].starts_with("all") && lines[3].contains("440"), "{shown}");
    let mut narrow = home.command(&["usage"]);
    narrow.env("COLUMNS", "40");
    let narrow = crate::kit::Running::start(narrow).end().out;
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    assert!(narrow.contains("341"), "{narrow}");
}

#[test]
fn without_usage_it_says_so() {
    let home = Home::new();
    assert_eq!(home.ok(&["usage"]).trim(), "no usage was recorded");
    assert_eq!(home.json(&["usage"])["rows"], Value::Array(Vec::new()));
    home.run(&["usage", "nobody"]).refused(3, "no session has this id or title");
}

#[test]
fn the_offline_echo_counts_its_requests_and_no_tokens() {
    let home = Home::new();
    home.ok(&["chat", "--say", "one", "--say", "two"]);
    let models = home.json(&["usage", "--by", "model"]);
    assert_eq!(totals(&models), [("echo".into(), 0)]);
    assert_eq!(models["total"]["requests"], 2);
    let shown = home.ok(&["usage"]);
    assert_eq!(shown.lines().count(), 2, "a head and one session: {shown}");
}
