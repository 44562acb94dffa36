//! Migration: a format is opened only by who knows it.

use turnkeep_core::ErrorKind;

use crate::clause::Need;
use crate::context::Context;
use crate::harness::Damage;
use crate::kit::user;
use crate::verdict::{Outcome, Stop};

clauses! { ($) migration_tests;
    "MIG-003" mig_003_a_newer_format_is_refused_untouched_case_43 {
        title: "A store of a newer format is refused with NewerFormat, again and again, and not one of its bytes changes.",
        needs: &[Need::Persistent],
        why: "An older program that opens a newer store writes what the newer one cannot read, or shows a blank screen.",
        links: &["openai/codex#16924", "anomalyco/opencode#14970"],
        catches: "a backend that ignores the version, or migrates downwards",
        cases: &["case-43"],
    }
}

async fn mig_003_a_newer_format_is_refused_untouched_case_43(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, vec![user("one"), user("two")]).await?;
    kit.store.close().await?;
    drop(kit);
    let done = cx.harness.damage(&cx.site, Damage::NewerFormat).await;
    if !done.map_err(|error| Stop::error(format!("the version could not be raised: {error}")))? {
        return Err(Stop::not_run("the harness cannot raise the format version"));
    }
    let image = || async {
        let image = cx.harness.image(&cx.site).await;
        image.map_err(|error| Stop::error(format!("the bytes could not be read: {error}")))
    };
    let before = image().await?;
    ensure!(before.is_some(), "a harness that raises the version must also give the image of a store");
    for attempt in 0..3 {
        let opened = cx.try_open().await;
        ensure_refused!(opened, ErrorKind::NewerFormat, "opening a newer format, attempt {attempt}");
        ensure_eq!(image().await?, before, "the bytes of the store after attempt {attempt}");
    }
    Ok(())
}
