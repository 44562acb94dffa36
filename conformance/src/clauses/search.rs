//! Search: literal words, exact at any moment, ranked as the contract says.

use std::time::Duration;

use turnkeep_core::limits::COLUMN_BYTES;
use turnkeep_core::model::{Audience, Profile, Visibility, VisibilitySet};
use turnkeep_core::query::{AudienceFilter, Needle, SearchHit, SearchQuery};
use turnkeep_core::{ErrorKind, Op, SessionRef};

use crate::clause::Need;
use crate::context::Context;
use crate::kit::{Kit, name, no, user};
use crate::verdict::{Outcome, Stop};

clauses! { ($) search_tests;
    "SEA-001" sea_001_the_text_of_a_search_is_literal {
        title: "The text of a search is literal: each term between white space, signs and quotes included, must be there in either case from the beginning of a word on; no text is an error of syntax, white space alone finds nothing, and a text over the limit is TooLarge.",
        needs: &[Need::Search],
        why: "People search for C++, for \"quoted words\" and for pieces of commands.",
        catches: "a backend that hands the text to its engine's query language",
    }
    "SEA-002" sea_002_a_search_is_exact_at_any_moment {
        title: "A search finds exactly the acknowledged entries that fit, at once and at any later moment, through every handle, after reopening, and in forks.",
        needs: &[Need::Search],
        why: "An index that lags behind hides the very words that were said last.",
        catches: "a backend that searches its index alone, or loses what was indexed twice",
    }
    "SEA-003" sea_003_what_is_deleted_is_found_no_more_case_52 {
        title: "A deleted session has no hit from the commit on that deletes it, nor has a session created again under its id, and after the purge no table keeps a row of it.",
        needs: &[Need::Search],
        why: "Words that were deleted must not come up in a search.",
        links: &["NousResearch/hermes-agent#87928"],
        catches: "a backend whose index outlives its rows",
        cases: &["case-52"],
    }
    "SEA-004" sea_004_a_search_stays_within_its_scope {
        title: "A search sees its workspace alone, and within it what session, audience, kinds, roles and visibility say: by default sessions for people, and no partial text; an unknown session is NotFound.",
        needs: &[Need::Search],
        why: "A hit of another project is a leak, and hits of a hundred sub-agents bury the one that is meant.",
        catches: "a backend with one index for everybody",
    }
    "SEA-005" sea_005_hits_are_ranked_and_paged_without_gap {
        title: "Hits come in the order of the contract: phrases, then whole words, then beginnings, each the newest session and the newest entry first; pages of any size give the same list, a cursor of another query is Invalid, and a snippet marks where the terms are.",
        needs: &[Need::Search],
        why: "The best hit on the second page is not found.",
        catches: "a backend that ranks within a page, or by what its engine likes best",
    }
}

fn looking_for(kit: &Kit, text: &str) -> SearchQuery {
    SearchQuery::new(kit.workspace.clone(), text)
}

/// Session ids and numbers of the hits on all pages.
async fn hits(kit: &Kit, mut query: SearchQuery) -> Outcome<Vec<(String, u32)>> {
    let mut all = Vec::new();
    loop {
        let page = kit.store.search(&query).await?;
        ensure!(page.items.len() <= query.limit as usize, "a page of more than {} hits", query.limit);
        ensure!(page.next.is_none() || !page.items.is_empty(), "an empty page that says more follows");
        all.extend(page.items.iter().map(|hit| (hit.session.id.as_str().to_owned(), hit.entry.get())));
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(all),
        }
    }
}

async fn sea_001_the_text_of_a_search_is_literal(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let texts = [
        "I write C++ and c# at night",
        "I write C and Rust",
        "she said \"stop it\" twice",
        "she said stop it twice",
        "ONE and TWO, one OR two",
        "one two",
        "call NEAR(a b) with * and ^ and -x",
        "drop'); DROP TABLE entries; --",
        "Grüße aus KÖLN, naïve café",
        "全文検索の例です",
        "a crab 🦀 walks",
        "commit_is_undoable in src/error.rs:42",
        "parser of parsers",
        "",
        // Their words stand side by side, and what is searched for stands elsewhere.
        "f code, then code in f++",
        "under view and then under-viewer",
    ];
    // More words than an index need be asked for, of which the last stands first.
    let words: Vec<String> = (0..20).map(|at| format!("q{at}")).collect();
    let turned = format!("{} {}", words[19], words[..19].join(" "));
    let texts = texts.into_iter().chain([turned.as_str()]);
    kit.append(&session, texts.map(user).collect()).await?;
    let asked = [
        ("C++", &[1][..]),
        ("f++ code", &[15]),
        ("under-view", &[16]),
        (&words.join(" "), &[17]),
        ("c", &[2, 1]),
        ("c#", &[1]),
        ("\"stop it\"", &[3]),
        ("stop it", &[4, 3]),
        ("one AND two", &[5]),
        ("one OR two", &[5]),
        ("NOT one", &[]),
        ("NEAR(a b)", &[7]),
        ("*", &[7]),
        ("^", &[7]),
        ("-x", &[7]),
        ("pars*", &[]),
        ("pars", &[13]),
        ("arser", &[]),
        ("pa", &[]),
        ("text:one", &[]),
        ("drop');", &[8]),
        ("DROP TABLE entries; --", &[8]),
        ("grüße köln", &[9]),
        ("naïve CAFÉ", &[9]),
        ("検索", &[10]),
        ("検例", &[]),
        ("🦀", &[11]),
        ("error.rs:42", &[12]),
        ("undoable", &[12]),
        ("commit_is", &[12]),
        ("write night", &[1]),
        ("\"", &[3]),
        ("'", &[8]),
        ("%", &[]),
        ("_", &[12]),
        ("\\", &[]),
        ("\u{0}", &[]),
        ("", &[]),
        (" \t\r\n\u{a0} ", &[]),
    ];
    // Once before it is indexed, once probably after.
    for wait in [0, 600] {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        for (text, found) in asked {
            let numbers: Vec<u32> =
                hits(&kit, looking_for(&kit, text)).await?.iter().map(|(_, no)| *no).collect();
            ensure_eq!(numbers, found, "entries that a search for {text:?} finds");
        }
    }
    let most = "stop ".repeat(COLUMN_BYTES / 5);
    ensure_eq!(hits(&kit, looking_for(&kit, &most)).await?.len(), 2, "hits of a very long text");
    let many: String = (0..400).map(|at| format!("w{at}\" ")).collect();
    ensure_eq!(hits(&kit, looking_for(&kit, &many)).await?.len(), 0, "hits of many terms");
    let over = "x".repeat(COLUMN_BYTES + 1);
    ensure_refused!(
        kit.store.search(&looking_for(&kit, &over)).await,
        ErrorKind::TooLarge,
        "a text over the limit"
    );
    let nothing = SearchQuery { limit: 0, ..looking_for(&kit, "one") };
    ensure_refused!(kit.store.search(&nothing).await, ErrorKind::Invalid, "a limit of 0");
    Ok(())
}

/// What a search must find, by the rule itself, in the order of the contract. `sessions` are in the order they were
/// made in.
async fn expected(kit: &Kit, sessions: &[SessionRef], text: &str) -> Outcome<Vec<(String, u32)>> {
    let needle = Needle::new(text)?;
    let mut all = Vec::new();
    for (birth, session) in sessions.iter().enumerate() {
        for entry in kit.entries(session).await? {
            if let Some(found) = entry.text.as_deref().and_then(|text| needle.look(text)) {
                all.push((
                    (found.fit, birth, entry.number),
                    (session.id.as_str().to_owned(), entry.number.get()),
                ));
            }
        }
    }
    all.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    Ok(all.into_iter().map(|(_, hit)| hit).collect())
}

const WORDS: &[&str] = &[
    "commit",
    "commits",
    "committer",
    "group",
    "grouped",
    "lease",
    "leases",
    "C++",
    "c",
    "an",
    "and",
    "parse",
    "parser",
    "parsing",
    "src/lib.rs",
    "lib",
    "Grün",
    "grüner",
    "検索",
    "索",
    "--wait",
    "wait",
    "fork's",
    "fork",
    "x=1",
    "42",
    "4",
];

const SEARCHES: &[&str] = &[
    "commit",
    "commit group",
    "comm",
    "c++",
    "c",
    "lease fork",
    "fork's",
    "parse",
    "pars grou",
    "src/lib.rs",
    "lib",
    "grün",
    "検索",
    "索",
    "--wait",
    "=",
    "an",
    "and commit",
    "42 4",
    "group commit lease parse",
    "nothing",
];

fn sentence(cx: &Context, kind: &str, at: u64) -> String {
    let words = 1 + cx.pick(kind, at * 100, 12);
    let word = |place: u64| WORDS[cx.pick(kind, at * 100 + place, WORDS.len() as u64) as usize];
    (1..=words).map(word).collect::<Vec<_>>().join(if at.is_multiple_of(3) { ", " } else { " " })
}

async fn sea_002_a_search_is_exact_at_any_moment(cx: &Context) -> Outcome {
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let mut sessions = Vec::new();
    for at in 0..4 {
        sessions.push(kit.create(&format!("s{at}")).await?);
    }
    let mut said = 0;
    // The store has time to index in some rounds and none in others.
    for round in 0..4_u64 {
        // The oldest session keeps silent until the others have been indexed.
        for session in &sessions[usize::from(round < 2)..] {
            let texts = (0..5).map(|_| {
                said += 1;
                user(&sentence(cx, "sentence", said))
            });
            kit.append(session, texts.collect()).await?;
        }
        if round == 1 {
            let second = sessions[1].clone();
            sessions.push(kit.fork(&second, "child", no(7)).await?);
        }
        for look in 0..2 {
            for text in SEARCHES {
                let wanted = expected(&kit, &sessions, text).await?;
                for (kit, handle) in [(&kit, "the handle that wrote"), (&other, "another handle")] {
                    let found = hits(kit, looking_for(kit, text)).await?;
                    ensure_eq!(found, wanted, "a search for {text:?} in round {round} through {handle}");
                }
            }
            if look == 0 && round % 2 == 1 {
                tokio::time::sleep(Duration::from_millis(600)).await;
            }
        }
    }
    let wanted = expected(&kit, &sessions, "commit").await?;
    ensure!(!wanted.is_empty(), "there is nothing to find");
    if cx.manifest.capabilities.persistent {
        kit.store.close().await?;
        other.store.close().await?;
        let again = cx.kit().await?;
        ensure_eq!(hits(&again, looking_for(&again, "commit")).await?, wanted, "hits after reopening");
    }
    Ok(())
}

async fn sea_003_what_is_deleted_is_found_no_more_case_52(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let kept = kit.create("kept").await?;
    kit.say(&kept, "a needle that stays").await?;
    let count = || async {
        let rows = cx.harness.residue(&cx.site).await;
        rows.map_err(|error| Stop::error(format!("counting rows failed: {error}")))
    };
    for wait in [Duration::ZERO, Duration::from_millis(600)] {
        let before = count().await?;
        let doomed = kit.create("doomed").await?;
        kit.append(&doomed, (0..40).map(|at| user(&format!("needle {at}"))).collect()).await?;
        let younger = kit.create("younger").await?;
        kit.say(&younger, "a needle that stays as well").await?;
        // Once before it is indexed, once probably after.
        tokio::time::sleep(wait).await;
        ensure_eq!(hits(&kit, looking_for(&kit, "needle")).await?.len(), 42, "hits before the deletion");
        kit.delete(&doomed).await?;
        let left = hits(&kit, looking_for(&kit, "needle")).await?;
        let kept = [("younger".to_owned(), 1), ("kept".to_owned(), 1)];
        ensure_eq!(left, kept, "hits after the deletion");
        let gone = SearchQuery { session: Some(doomed.clone()), ..looking_for(&kit, "needle") };
        ensure_refused!(kit.store.search(&gone).await, ErrorKind::NotFound, "searching a deleted session");
        let again = kit.create("doomed").await?;
        kit.say(&again, "only hay").await?;
        ensure_eq!(
            hits(&kit, looking_for(&kit, "needle")).await?.len(),
            2,
            "hits in a session created again"
        );
        if let Some(maintenance) = kit.store.maintenance() {
            maintenance.purge().await?;
        }
        ensure_eq!(hits(&kit, looking_for(&kit, "needle")).await?, kept, "hits after the purge");
        kit.delete(&again).await?;
        kit.delete(&younger).await?;
        if let Some(maintenance) = kit.store.maintenance() {
            maintenance.purge().await?;
            let (before, after) = (before.unwrap_or_default(), count().await?.unwrap_or_default());
            let grown = after.iter().find(|table| {
                // What a store remembers of its requests and workspaces may grow.
                let was = before.iter().find(|old| old.table == table.table).map_or(0, |old| old.rows);
                table.table.contains("search") && table.rows > was
            });
            ensure!(grown.is_none(), "rows of the index after the purge: {grown:?}");
        }
    }
    Ok(())
}

async fn sea_004_a_search_stays_within_its_scope(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let elsewhere = kit.in_workspace("another");
    for kit in [&kit, &elsewhere] {
        let session = kit.create("s").await?;
        kit.say(&session, "a needle").await?;
    }
    let session = kit.there("s").await?;
    let with = |change: fn(&mut turnkeep_core::commit::NewEntry)| {
        let mut entry = user("another needle");
        change(&mut entry);
        entry
    };
    kit.append(
        &session,
        vec![
            with(|entry| entry.role = Some(name("assistant"))),
            with(|entry| entry.kind = name("compaction")),
            with(|entry| entry.visibility = Visibility::Internal),
            with(|entry| (entry.visibility, entry.advance_leaf) = (Visibility::Partial, false)),
            with(|entry| entry.text = None),
        ],
    )
    .await?;
    let helper = kit.life("helper");
    let profile = Profile { audience: Audience::SubAgent, ..Profile::default() };
    let new = turnkeep_core::commit::NewSession { profile, ..kit.new_session(&helper) };
    kit.apply(kit.commit().op(Op::CreateSession(new))).await?;
    kit.say(&helper, "needle of a helper").await?;
    let (hidden, _fence) = kit.begin_restore("being built", Profile::default()).await?;
    // Once before it is indexed, once probably after.
    for wait in [0, 600] {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        stays_within(&kit, &elsewhere, [&session, &helper, &hidden]).await?;
    }
    Ok(())
}

/// Looks through every scope at a session, one of a sub-agent and one being built.
async fn stays_within(kit: &Kit, elsewhere: &Kit, sessions: [&SessionRef; 3]) -> Outcome {
    let [session, helper, hidden] = sessions.map(Clone::clone);
    let needles = || looking_for(kit, "needle");
    let of = |hits: &[(String, u32)], id: &str| -> Vec<u32> {
        hits.iter().filter(|(session, _)| session == id).map(|(_, number)| *number).collect()
    };
    let all = hits(kit, needles()).await?;
    ensure_eq!((of(&all, "s"), all.len()), (vec![4, 3, 2, 1], 4), "hits by default");
    for (what, query, numbers) in [
        ("assistants", SearchQuery { roles: vec![name("assistant")], ..needles() }, &[2][..]),
        ("compactions", SearchQuery { kinds: vec![name("compaction")], ..needles() }, &[3]),
        (
            "internal ones",
            SearchQuery { visibility: VisibilitySet::only(Visibility::Internal), ..needles() },
            &[4],
        ),
        ("everything", SearchQuery { visibility: VisibilitySet::ALL, ..needles() }, &[5, 4, 3, 2, 1]),
        ("one session", SearchQuery { session: Some(session.clone()), ..needles() }, &[4, 3, 2, 1]),
        ("nobody", SearchQuery { roles: vec![name("tool")], ..needles() }, &[]),
    ] {
        let found = hits(kit, query).await?;
        ensure_eq!((of(&found, "s"), found.len()), (numbers.to_vec(), numbers.len()), "hits for {what}");
    }
    for (audience, sessions) in
        [(AudienceFilter::Any, &["helper", "s", "s", "s", "s"][..]), (AudienceFilter::SubAgent, &["helper"])]
    {
        let found = hits(kit, SearchQuery { audience, ..needles() }).await?;
        let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
        ensure_eq!(ids, sessions, "sessions with hits for {audience:?}");
    }
    let named = SearchQuery { session: Some(helper.clone()), ..needles() };
    ensure_eq!(hits(kit, named).await?.len(), 1, "hits in a sub-agent's session that is named");
    ensure_eq!(
        hits(elsewhere, looking_for(elsewhere, "needle")).await?.len(),
        1,
        "hits in another workspace"
    );
    let nowhere = kit.in_workspace("never written");
    ensure_eq!(
        hits(&nowhere, looking_for(&nowhere, "needle")).await?.len(),
        0,
        "hits in an unknown workspace"
    );
    for (what, session) in [("one being built", hidden), ("an unknown one", kit.life("unknown"))] {
        let query = SearchQuery { session: Some(session), ..needles() };
        ensure_refused!(kit.store.search(&query).await, ErrorKind::NotFound, "searching {what}");
    }
    let foreign = SearchQuery { session: Some(session), ..looking_for(elsewhere, "needle") };
    ensure_refused!(kit.store.search(&foreign).await, ErrorKind::NotFound, "a session of another workspace");
    Ok(())
}

async fn sea_005_hits_are_ranked_and_paged_without_gap(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (old, new) = (kit.create("old").await?, kit.create("new").await?);
    let texts = || {
        [
            "the groups committed",
            "commit to the group",
            "a Group, commit!",
            "only one group",
            "group commit again",
        ]
        .map(user)
        .to_vec()
    };
    kit.append(&new, texts()).await?;
    kit.append(&old, texts()).await?;
    let session = |id: &str, numbers: &[u32]| -> Vec<(String, u32)> {
        numbers.iter().map(|number| (id.to_owned(), *number)).collect()
    };
    let ranked: Vec<(String, u32)> = [
        session("new", &[5, 3]),
        session("old", &[5, 3]),
        session("new", &[2]),
        session("old", &[2]),
        session("new", &[1]),
        session("old", &[1]),
    ]
    .concat();
    // Indexed or not, whole or in part, the order is the same.
    for wait in [0, 600] {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        for limit in [1, 2, 3, 7, 8, 9, 1000] {
            let query = SearchQuery { limit, ..looking_for(&kit, "group commit") };
            ensure_eq!(hits(&kit, query).await?, ranked, "ranked hits in pages of {limit}");
        }
        kit.append(&old, vec![user("nothing of it")]).await?;
    }
    let first = kit.store.search(&SearchQuery { limit: 3, ..looking_for(&kit, "group commit") }).await?;
    let Some(next) = first.next.clone() else { return Err(Stop::fail("a page of 3 of 8 hits has no next")) };
    for (what, query) in [
        ("another text", looking_for(&kit, "group")),
        ("another scope", SearchQuery { session: Some(old.clone()), ..looking_for(&kit, "group commit") }),
    ] {
        let query = SearchQuery { cursor: Some(next.clone()), ..query };
        ensure_refused!(kit.store.search(&query).await, ErrorKind::Invalid, "a cursor with {what}");
    }
    // A better hit that comes meanwhile moves no later one, and the cursor outlives the deletion of its hit.
    kit.say(&new, "group commit once more").await?;
    kit.delete(&old).await?;
    let afresh = hits(&kit, looking_for(&kit, "group commit")).await?;
    ensure_eq!(afresh, session("new", &[6, 5, 3, 2, 1]), "hits of a search that begins again");
    let query = SearchQuery { limit: 3, cursor: Some(next), ..looking_for(&kit, "group commit") };
    let rest = hits(&kit, query).await?;
    ensure_eq!(rest, [("new".to_owned(), 2), ("new".to_owned(), 1)], "hits after a cursor whose hit is gone");
    marked(&first.items)?;
    let scores: Vec<f64> = kit
        .store
        .search(&looking_for(&kit, "group commit"))
        .await?
        .items
        .iter()
        .map(|hit| hit.score)
        .collect();
    ensure!(scores.is_sorted_by(|a, b| a >= b), "scores are not descending: {scores:?}");
    let long = format!("{} needle {}", "hay ".repeat(2_000), "straw ".repeat(2_000));
    kit.say(&new, &long).await?;
    let page = kit.store.search(&looking_for(&kit, "needle")).await?;
    let Some(hit) = page.items.first() else {
        return Err(Stop::fail("the needle in the haystack is not found"));
    };
    ensure!(hit.snippet.len() < 1_000, "a snippet of {} bytes", hit.snippet.len());
    ensure_eq!((hit.entry.get(), hit.role.as_ref().map(|role| role.as_str())), (7, Some("user")), "the hit");
    let marks: Vec<_> = hit.marks.iter().map(|mark| hit.snippet.get(mark.clone())).collect();
    ensure_eq!(marks, [Some("needle")], "marks in the snippet {:?}", hit.snippet);
    Ok(())
}

/// Every mark holds a term.
fn marked(hits: &[SearchHit]) -> Outcome {
    for hit in hits {
        let marks: Vec<String> = hit
            .marks
            .iter()
            .filter_map(|mark| hit.snippet.get(mark.clone()))
            .map(str::to_lowercase)
            .collect();
        ensure_eq!(marks, ["group", "commit"], "marks in the snippet {:?}", hit.snippet);
    }
    Ok(())
}
