//! Searching what was said.

use turnkeep_core::model::Audience;
use turnkeep_core::query::{AudienceFilter, SearchHit};
use turnkeep_core::{ErrorKind, Page};
use turnkeep_sessions::Message;

use crate::site::{Site, on_each};

on_each!(
    a_search_ranks_what_was_said_and_marks_it,
    a_search_takes_its_text_literally,
    a_search_narrows_and_pages,
    a_lazy_session_is_searched_once_it_is_stored,
);

fn found(page: &Page<SearchHit>) -> Vec<(&str, u32)> {
    page.items.iter().map(|hit| (hit.session.id.as_str(), hit.entry.get())).collect()
}

async fn a_search_ranks_what_was_said_and_marks_it(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().id("one".parse().unwrap()).await.unwrap();
    session.append([Message::user("why does the parser fail on a group commit?")]).await.unwrap();
    session.append([Message::assistant("The commit waits for its group.")]).await.unwrap();
    session.append([Message::user("a grouped committer then")]).await.unwrap();
    let page = ws.search("group commit").await.unwrap();
    assert_eq!(found(&page), [("one", 1), ("one", 2), ("one", 3)]);
    let first = &page.items[0];
    assert_eq!(first.snippet, "why does the parser fail on a group commit?");
    let marks: Vec<&str> = first.marks.iter().map(|mark| &first.snippet[mark.clone()]).collect();
    assert_eq!(marks, ["group", "commit"]);
    assert!(first.score > page.items[1].score && page.items[1].score > page.items[2].score);
    assert_eq!(first.role.as_ref().unwrap().as_str(), "user");
    // Another handle sees it as well, and so does whoever opens the store later.
    assert_eq!(found(&site.workspace().await.search("GROUP").await.unwrap()).len(), 3);
}

async fn a_search_takes_its_text_literally(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    session.append([Message::user("I write C++ and \"quote\" it, NEAR(x) or * or not")]).await.unwrap();
    session.append([Message::user("I write C")]).await.unwrap();
    for (text, hits) in [
        ("C++", 1),
        ("\"quote\"", 1),
        ("NEAR(x)", 1),
        ("*", 1),
        ("write AND it", 1),
        ("write NEAR/2 quote", 0),
        ("wri*", 0),
        ("text:write", 0),
        ("", 0),
    ] {
        assert_eq!(ws.search(text).await.unwrap().items.len(), hits, "{text:?}");
    }
    assert_eq!(ws.search("x".repeat(5_000)).await.unwrap_err().kind(), ErrorKind::TooLarge);
}

async fn a_search_narrows_and_pages(site: Site) {
    let ws = site.workspace().await;
    let helper = ws.sessions().create().audience(Audience::SubAgent).await.unwrap();
    helper.append([Message::user("a needle of a helper")]).await.unwrap();
    let session = ws.sessions().create().await.unwrap();
    for at in 0..5 {
        session
            .append([Message::user(format!("needle {at}")), Message::assistant("a needle, too")])
            .await
            .unwrap();
    }
    assert_eq!(ws.search("needle").await.unwrap().items.len(), 10);
    assert_eq!(ws.search("needle").role("assistant".parse().unwrap()).await.unwrap().items.len(), 5);
    assert_eq!(ws.search("needle").messages_only().await.unwrap().items.len(), 10);
    assert_eq!(ws.search("needle").kind("compaction".parse().unwrap()).await.unwrap().items.len(), 0);
    assert_eq!(ws.search("needle").audience(AudienceFilter::Any).await.unwrap().items.len(), 11);
    assert_eq!(ws.search("needle").session(&helper).await.unwrap().items.len(), 1);
    let first = ws.search("needle").limit(7).await.unwrap();
    let rest = ws.search("needle").limit(7).cursor(first.next.clone().unwrap()).await.unwrap();
    assert_eq!((first.items.len(), rest.items.len(), rest.next.is_none()), (7, 3, true));
    let numbers: Vec<u32> = found(&first).into_iter().chain(found(&rest)).map(|(_, number)| number).collect();
    assert_eq!(numbers, (1..=10).rev().collect::<Vec<u32>>());
    assert!(site.workspace_named("other").await.search("needle").await.unwrap().items.is_empty());
    ws.sessions().delete(session.id().clone()).await.unwrap();
    assert!(ws.search("needle").await.unwrap().items.is_empty());
}

async fn a_lazy_session_is_searched_once_it_is_stored(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().lazy().await.unwrap();
    session.append([Message::user("a needle at once")]).await.unwrap();
    assert_eq!(ws.search("needle").session(&session).await.unwrap().items.len(), 1);
}
