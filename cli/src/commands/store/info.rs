//! `turnkeep store info`

use serde::Serialize;
use turnkeep::core::limits::Limits;
use turnkeep::core::store::StoreStats;
use turnkeep::{Capabilities, Durability, ErrorKind, Store};

use crate::args::Global;
use crate::exit;
use crate::failure::Outcome;
use crate::open;
use crate::output::words::{self, bytes};
use crate::output::{Out, text};

#[derive(Serialize)]
struct Answer<'a> {
    store: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    backend: &'a str,
    version: &'a str,
    engine: &'a str,
    location: &'a str,
    format: u32,
    durability: Durability,
    promise: &'a str,
    capabilities: Capabilities,
    limits: &'a Limits,
    size: Option<StoreStats>,
}

pub(crate) async fn run(global: &Global, out: &mut Out) -> Outcome<u8> {
    open::named_must_exist(global)?;
    let workspace = open::workspace(global).await?;
    let store = workspace.store().as_ref();
    let info = store.info();
    let stats = stats(store).await?;
    let can = abilities(info.capabilities);
    if out.json {
        out.json(&Answer {
            store: Data {
                backend: info.name,
                version: info.version,
                engine: &info.engine,
                location: &info.location,
                format: info.format,
                durability: info.durability,
                promise: promise(info.durability),
                capabilities: info.capabilities,
                limits: &info.limits,
                size: stats,
            },
        })?;
        return Ok(exit::OK);
    }
    let names = |wanted: bool| {
        let names: Vec<&str> = can.iter().filter(|(_, can)| *can == wanted).map(|(name, _)| *name).collect();
        names.join(", ")
    };
    let limits = &info.limits;
    let mut pairs = vec![
        ("store", format!("{} {} ({})", info.name, info.version, text::line(&info.engine))),
        ("location", text::line(&info.location)),
        ("format", if info.format == 0 { String::new() } else { info.format.to_string() }),
        ("durability", format!("{:?}: {}", info.durability, promise(info.durability))),
        ("can", names(true)),
        ("cannot", names(false)),
        (
            "limits",
            format!(
                "payload {}, commit {}",
                bytes(limits.payload_bytes as u64),
                bytes(limits.commit_bytes as u64)
            ),
        ),
    ];
    if let Some(stats) = stats {
        let purges = match stats.purges {
            0 => String::new(),
            n => format!(", {n} deleted and still to be purged"),
        };
        pairs.push((
            "holds",
            format!(
                "{}, {}, {}{purges}",
                words::count(stats.workspaces, "workspace"),
                words::count(stats.sessions, "session"),
                words::count_of(stats.entries, "entry", "entries")
            ),
        ));
        if stats.bytes > 0 {
            pairs.push(("size", format!("{}, {} of it log", bytes(stats.bytes), bytes(stats.log_bytes))));
        }
        for file in &stats.files {
            pairs.push(("file", text::line(&file.display().to_string())));
        }
    }
    out.pairs(&pairs)?;
    Ok(exit::OK)
}

/// How large it is, where the store can say.
async fn stats(store: &dyn Store) -> Outcome<Option<StoreStats>> {
    let Some(chores) = store.maintenance() else { return Ok(None) };
    match chores.stats().await {
        Ok(stats) => Ok(Some(stats)),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn promise(durability: Durability) -> &'static str {
    match durability {
        Durability::D0 => "nothing survives the end of the program",
        Durability::D1 => "an acknowledged commit survives a killed program",
        Durability::D2 => "after power loss the oldest acknowledged commits are there, without a gap",
        Durability::D3 => "an acknowledged commit survives power loss",
    }
}

fn abilities(can: Capabilities) -> [(&'static str, bool); 6] {
    [
        ("keep data", can.persistent),
        ("serve several processes", can.multi_process),
        ("know dead owners at once", can.owner_liveness),
        ("rank a full-text search", can.search),
        ("back itself up", can.backup),
        ("give space back", can.compact),
    ]
}
