//! Capabilities with their log, and the tools of a channel.

use serde_json::{Value, json};
use turnkeep_core::{ErrorKind, Payload, RunId};
use turnkeep_sessions::Message;
use turnkeep_sessions::state::ChannelTool;

use crate::site::{Site, on_each};

on_each!(
    a_change_of_capabilities_is_state_and_log_in_one_commit,
    the_log_of_capabilities_goes_on_from_a_cursor,
    capabilities_set_by_many_at_once_are_all_there_and_each_is_logged_once,
    channel_tools_are_replaced_as_a_whole_and_the_generation_goes_up_by_one,
    of_many_sets_at_once_each_gets_a_generation_of_its_own,
);

async fn a_change_of_capabilities_is_state_and_log_in_one_commit(site: Site) {
    let session = site.session().await;
    assert!(session.capabilities().get().await.unwrap().values.is_empty());
    assert_eq!(session.capabilities().latest_change().await.unwrap(), 0);
    let before = session.info().await.unwrap().revision;
    let changes = session
        .capabilities()
        .set("web_search", true)
        .and("mode", "plan")
        .actor("ann")
        .source("command")
        .run(RunId::new("r1").unwrap())
        .data(Payload::new(r#"{"z":1.0,"a":2}"#).unwrap())
        .await
        .unwrap();
    assert_eq!(session.info().await.unwrap().revision, before + 1, "one commit");
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let state = other.capabilities().get().await.unwrap();
    assert_eq!(
        state.values.into_iter().collect::<Vec<_>>(),
        [("mode".to_owned(), json!("plan")), ("web_search".to_owned(), json!(true)),]
    );
    let log = other.capabilities().changes(None, 10).await.unwrap().items;
    assert_eq!(log, changes, "what was answered is what is stored");
    let first = &log[0];
    assert_eq!((first.number, first.capability.as_str()), (1, "web_search"));
    assert_eq!((&first.old, &first.new), (&None, &Some(json!(true))));
    assert_eq!((first.actor.as_deref(), first.source.as_deref()), (Some("ann"), Some("command")));
    assert_eq!(first.run.as_ref().map(RunId::as_str), Some("r1"));
    assert_eq!(first.data.as_ref().unwrap().as_str(), r#"{"z":1.0,"a":2}"#);
    // What is so already is no change.
    assert_eq!(session.capabilities().set("mode", "plan").await.unwrap(), []);
    assert_eq!(session.info().await.unwrap().revision, before + 1);
    let cleared = session.capabilities().clear("mode").await.unwrap();
    assert_eq!((&cleared[0].old, &cleared[0].new), (&Some(json!("plan")), &None));
    assert!(!session.capabilities().get().await.unwrap().values.contains_key("mode"));
    let nameless = session.capabilities().set(" ", 1).await.unwrap_err();
    assert_eq!(nameless.kind(), ErrorKind::Invalid);
}

async fn the_log_of_capabilities_goes_on_from_a_cursor(site: Site) {
    let session = site.session().await;
    // People change what a run may do while it executes.
    let run = session.begin_run(Message::user("work")).await.unwrap();
    let person = site.workspace().await.sessions().open(session.id()).await.unwrap();
    for step in 0..5 {
        person.capabilities().set("step", step).await.unwrap();
    }
    let seen = session.capabilities().changes(None, 2).await.unwrap();
    let last = seen.items.last().unwrap().number;
    let rest = session.capabilities().changes(Some(last), 10).await.unwrap().items;
    assert_eq!(
        rest.iter().map(|change| change.new.clone().unwrap()).collect::<Vec<_>>(),
        [2, 3, 4].map(Value::from)
    );
    assert_eq!(
        rest.iter().map(|change| change.old.clone().unwrap()).collect::<Vec<_>>(),
        [1, 2, 3].map(Value::from)
    );
    assert_eq!(session.capabilities().latest_change().await.unwrap(), 5);
    assert!(session.capabilities().changes(Some(5), 10).await.unwrap().items.is_empty());
    run.complete([Message::assistant("done")]).await.unwrap();
}

async fn capabilities_set_by_many_at_once_are_all_there_and_each_is_logged_once(site: Site) {
    let session = site.session().await;
    let mut writers = Vec::new();
    for writer in 0..6 {
        let ws = site.workspace().await;
        let id = session.id().clone();
        writers.push(tokio::spawn(async move {
            let session = ws.sessions().open(&id).await.unwrap();
            for step in 0..5 {
                session.capabilities().set(format!("own {writer}"), step).await.unwrap();
                session.capabilities().set("common", format!("{writer}/{step}")).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let values = session.capabilities().get().await.unwrap().values;
    assert_eq!(values.len(), 7);
    for writer in 0..6 {
        assert_eq!(values[&format!("own {writer}")], json!(4), "nobody's change was lost");
    }
    let log = session.capabilities().changes(None, 100).await.unwrap().items;
    assert_eq!(log.len(), 60);
    let common: Vec<_> = log.iter().filter(|change| change.capability == "common").collect();
    for pair in common.windows(2) {
        assert_eq!(pair[0].new, pair[1].old, "each change says what it replaced");
    }
    assert_eq!(common.last().unwrap().new.as_ref(), Some(&values["common"]));
}

async fn channel_tools_are_replaced_as_a_whole_and_the_generation_goes_up_by_one(site: Site) {
    let session = site.session().await;
    let none = session.channel_tools().get().await.unwrap();
    assert_eq!((none.generation, none.tools.len()), (0, 0));
    let set = session.channel_tools().set([ChannelTool::enabled("mail"), ChannelTool::disabled("web")]).await;
    assert_eq!(set.unwrap().generation, 1);
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    other.channel_tools().set([ChannelTool::enabled("web")]).await.unwrap();
    let now = session.channel_tools().get().await.unwrap();
    assert_eq!((now.generation, now.tools), (2, vec![ChannelTool::enabled("web")]));
    let same = session.channel_tools().set([ChannelTool::enabled("web")]).await.unwrap();
    assert_eq!(same.generation, 3, "each set counts, the same one too");
}

async fn of_many_sets_at_once_each_gets_a_generation_of_its_own(site: Site) {
    let session = site.session().await;
    let mut writers = Vec::new();
    for writer in 0..6 {
        let ws = site.workspace().await;
        let id = session.id().clone();
        writers.push(tokio::spawn(async move {
            let session = ws.sessions().open(&id).await.unwrap();
            let mut got = Vec::new();
            for _ in 0..5 {
                let tools = [ChannelTool::enabled(format!("tool {writer}"))];
                got.push(session.channel_tools().set(tools).await.unwrap().generation);
            }
            got
        }));
    }
    let mut all = Vec::new();
    for writer in writers {
        all.extend(writer.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (1..=30).collect::<Vec<u64>>());
}
