//! What requests to models consumed.

use turnkeep_core::model::Usage;
use turnkeep_core::{ErrorKind, Order};
use turnkeep_sessions::Message;
use turnkeep_sessions::state::ModelRequest;

use crate::site::{Site, on_each};

on_each!(
    a_request_is_an_event_and_counted_for_run_and_session_in_one_commit,
    usage_that_comes_with_an_answer_is_in_the_same_commit,
    requests_are_listed_with_a_cursor_and_by_run,
    the_counters_are_the_sum_of_the_list_also_after_many_at_once,
    usage_without_a_model_is_a_request_too,
    usage_is_summed_per_model,
    a_stranger_records_nothing_while_somebody_runs,
);

fn request(model: &str, input: u64, output: u64) -> ModelRequest {
    let usage = Usage { input_tokens: input, output_tokens: output, duration_ms: 40, ..Usage::default() };
    ModelRequest::new(model, usage).provider("acme").protocol("responses")
}

async fn a_request_is_an_event_and_counted_for_run_and_session_in_one_commit(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("work")).await.unwrap();
    run.append([Message::assistant("thinking")]).await.unwrap();
    let before = session.info().await.unwrap().revision;
    run.add_usage(request("m1", 10, 3)).await.unwrap();
    assert_eq!(session.info().await.unwrap().revision, before + 1, "one commit");
    let sum = Usage {
        requests: 1,
        input_tokens: 10,
        output_tokens: 3,
        total_tokens: 13,
        duration_ms: 40,
        ..Usage::default()
    };
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    assert_eq!(other.usage().total().await.unwrap(), sum);
    assert_eq!(other.usage().total_of(run.id()).await.unwrap(), sum);
    let listed = other.usage().list().await.unwrap().items;
    assert_eq!(listed.len(), 1);
    let record = &listed[0];
    assert_eq!((record.number, record.run.as_ref()), (1, Some(run.id())));
    assert_eq!(record.request, ModelRequest { usage: sum, ..request("m1", 0, 0) });
    assert_eq!(record.request.provider.as_deref(), Some("acme"));
    assert_eq!(record.request.protocol.as_deref(), Some("responses"));
    // The handle that executes the run need not name it.
    session.usage().record(request("m1", 1, 1)).await.unwrap();
    assert_eq!(other.usage().total_of(run.id()).await.unwrap().requests, 2);
    run.complete([Message::assistant("done")]).await.unwrap();
    // Outside of a run it counts for the session alone.
    session.usage().record(request("m2", 5, 5)).await.unwrap();
    assert_eq!(other.usage().total_of(run.id()).await.unwrap().requests, 2);
    assert_eq!(other.usage().total().await.unwrap().requests, 3);
}

async fn usage_that_comes_with_an_answer_is_in_the_same_commit(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("work")).await.unwrap();
    let before = session.info().await.unwrap().revision;
    run.append([Message::assistant("step")]).usage(request("m1", 7, 2)).await.unwrap();
    run.complete([Message::assistant("done")]).usage(request("m1", 9, 4)).await.unwrap();
    let row = session.info().await.unwrap();
    assert_eq!(row.revision, before + 2);
    assert_eq!((row.usage.requests, row.usage.total_tokens), (2, 22));
    let listed = session.usage().list().await.unwrap().items;
    assert_eq!(listed.iter().map(|record| record.request.usage.total_tokens).collect::<Vec<_>>(), [9, 13]);
    assert!(listed.iter().all(|record| record.run.as_ref() == Some(run.id())));
}

async fn requests_are_listed_with_a_cursor_and_by_run(site: Site) {
    let session = site.session().await;
    let mut runs = Vec::new();
    for turn in 0..2 {
        let run = session.begin_run(Message::user("work")).await.unwrap();
        for step in 0..3 {
            run.add_usage(request(&format!("m{turn}"), step, 0)).await.unwrap();
        }
        run.complete([Message::assistant("done")]).await.unwrap();
        runs.push(run.id().clone());
    }
    let first = session.usage().list().limit(4).await.unwrap();
    let rest = session.usage().list().limit(4).cursor(first.next.unwrap()).await.unwrap();
    let numbers = |records: &[turnkeep_sessions::state::UsageRecord]| -> Vec<u64> {
        records.iter().map(|record| record.number).collect()
    };
    assert_eq!((numbers(&first.items), numbers(&rest.items)), (vec![1, 2, 3, 4], vec![5, 6]));
    assert_eq!(numbers(&session.usage().list().after(4).await.unwrap().items), [5, 6]);
    let second = session.usage().list().run(runs[1].clone()).await.unwrap().items;
    assert_eq!(numbers(&second), [4, 5, 6]);
    let newest = session.usage().list().order(Order::Descending).limit(1).await.unwrap().items;
    assert_eq!(numbers(&newest), [6]);
}

async fn the_counters_are_the_sum_of_the_list_also_after_many_at_once(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    let mut writers = Vec::new();
    for writer in 0..5_u64 {
        let ws = site.workspace().await;
        let id = session.id().clone();
        writers.push(tokio::spawn(async move {
            let session = ws.sessions().open(&id).await.unwrap();
            for step in 0..6 {
                session.usage().record(request(&format!("m{writer}"), step, writer)).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let listed = session.usage().list().await.unwrap().items;
    let sum = listed.iter().fold(Usage::default(), |sum, record| sum.plus(&record.request.usage));
    assert_eq!((listed.len(), sum.requests), (30, 30));
    assert_eq!(session.usage().total().await.unwrap(), sum);
}

async fn usage_without_a_model_is_a_request_too(site: Site) {
    let session = site.session().await;
    let usage = Usage { input_tokens: 5, output_tokens: 2, ..Usage::default() };
    session.usage().record(usage).await.unwrap();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.complete([Message::assistant("a")]).usage(usage).await.unwrap();
    let total = session.usage().total().await.unwrap();
    assert_eq!((total.requests, total.input_tokens, total.total_tokens), (2, 10, 14));
    assert_eq!(session.usage().list().await.unwrap().items.len(), 2);
    // Counters stand still where they are full.
    let most = Usage { input_tokens: u64::MAX, ..Usage::default() };
    for _ in 0..2 {
        session.usage().record(most).await.unwrap();
    }
    let total = session.usage().total().await.unwrap();
    assert_eq!((total.requests, total.input_tokens), (4, i64::MAX as u64));
}

async fn usage_is_summed_per_model(site: Site) {
    let session = site.session().await;
    for (model, tokens) in [("small", 1), ("large", 100), ("small", 2), ("large", 200)] {
        session.usage().record(request(model, tokens, tokens)).await.unwrap();
    }
    session.usage().record(request("large", 5, 0).provider("other")).await.unwrap();
    session.usage().record(Usage { requests: 1, total_tokens: 1, ..Usage::default() }).await.unwrap();
    let totals = session.usage().by_model().await.unwrap();
    let shown: Vec<_> = totals
        .iter()
        .map(|total| (total.provider.as_deref(), total.model.as_deref(), total.usage.total_tokens))
        .collect();
    assert_eq!(
        shown,
        [
            (Some("acme"), Some("large"), 600),
            (Some("acme"), Some("small"), 6),
            (Some("other"), Some("large"), 5),
            (None, None, 1),
        ]
    );
    let sum = totals.iter().fold(Usage::default(), |sum, total| sum.plus(&total.usage));
    assert_eq!(session.usage().total().await.unwrap(), sum);
}

async fn a_stranger_records_nothing_while_somebody_runs(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("work")).await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let refused = other.usage().record(request("m", 1, 1)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LeaseHeld);
    assert_eq!(other.usage().list().await.unwrap().items.len(), 0);
    run.complete([Message::assistant("done")]).await.unwrap();
}
