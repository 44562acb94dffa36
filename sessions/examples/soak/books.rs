//! What was acknowledged, compared with what is there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use turnkeep_core::model::{Entry, RunState, Visibility, VisibilitySet};
use turnkeep_core::{Result, RunId, SessionId};
use turnkeep_sessions::{ClaimState, Workspace};

use super::{Place, session_name, worker};

/// What the workers were told.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// By session and number, the words.
    entries: Vec<(String, u32, String)>,
    runs: Vec<(String, String)>,
    completed: Vec<(String, String)>,
    claims: Vec<String>,
    /// Parent, child and boundary.
    forks: Vec<(String, String, u32)>,
    counted: BTreeMap<u64, u64>,
    /// Session, run and text of a piece.
    streamed: Vec<(String, String, String)>,
    /// Runs and claims that the workers closed for the dead.
    recovered: (u64, u64),
    trouble: Vec<String>,
}

/// What came out.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// What should not be; empty when all is well.
    pub(crate) wrong: Vec<String>,
    /// What happened, and how often.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.counts {
            writeln!(f, "{count:>9}  {what}")?;
        }
        if self.wrong.is_empty() {
            return f
                .write_str("nothing acknowledged is lost, nothing happened twice, nobody dead is at work");
        }
        for wrong in self.wrong.iter().take(50) {
            writeln!(f, "WRONG: {wrong}")?;
        }
        write!(f, "{} things are wrong", self.wrong.len())
    }
}

impl Books {
    pub(crate) fn read(said: impl Iterator<Item = String>) -> Self {
        let mut books = Self::default();
        for line in said {
            let (what, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let words: Vec<&str> = rest.split(' ').collect();
            match (what, words.as_slice()) {
                ("entry", [session, number, text]) => {
                    books.entries.push(((*session).into(), number.parse().unwrap(), (*text).into()));
                }
                ("run", [session, run]) => books.runs.push(((*session).into(), (*run).into())),
                ("completed", [session, run]) => books.completed.push(((*session).into(), (*run).into())),
                ("claim", _) => books.claims.push(rest.into()),
                ("fork", [parent, child, boundary]) => {
                    books.forks.push(((*parent).into(), (*child).into(), boundary.parse().unwrap()));
                }
                ("counted", [thing]) => *books.counted.entry(thing.parse().unwrap()).or_default() += 1,
                ("recovered", [runs, claims]) => {
                    books.recovered.0 += runs.parse::<u64>().unwrap();
                    books.recovered.1 += claims.parse::<u64>().unwrap();
                }
                ("streamed", [session, run, text]) => {
                    books.streamed.push(((*session).into(), (*run).into(), (*text).into()));
                }
                _ => books.trouble.push(line),
            }
        }
        books
    }

    /// Notes what should not be.
    pub(crate) fn trouble(&mut self, what: String) {
        self.trouble.push(what);
    }

    /// Opens the store as the next process does, and looks.
    pub(crate) async fn compare(
        self,
        place: &Place,
        kills: u64,
        followed: std::result::Result<u64, String>,
    ) -> Result<Findings> {
        let mut found = Findings::default();
        let ws = place.open().await?;
        let report = ws.recovered();
        found.count("runs that the last recovery closed", report.interrupted.len());
        for (session, error) in &report.failed {
            found.wrong(format!("session {session} could not be recovered: {error}"));
        }
        found.wrong.extend(self.trouble.iter().map(|line| format!("a worker had trouble: {line}")));
        match followed {
            Ok(came) => found.count("entries that came while following", came as usize),
            Err(gap) => found.wrong(gap),
        }
        let kept = self.sessions(&ws, place, &mut found).await?;
        self.runs(&ws, &mut found).await?;
        self.streams(&ws, &kept, &mut found).await?;
        self.claims(&ws, place, &mut found).await?;
        for (thing, counted) in &self.counted {
            let value = worker::counter(&ws, *thing).await?;
            // A kill between commit and word leaves one more than was said.
            if value < *counted || value > counted + kills {
                found.wrong(format!("counter {thing} is at {value}, and {counted} were acknowledged"));
            }
        }
        if let Some(maintenance) = ws.store().maintenance() {
            let verified = maintenance.verify().await?;
            found.count("entries verified", verified.entries as usize);
            for damage in verified.damage {
                found.wrong(format!("damage in {}: {}", damage.place, damage.what));
            }
        }
        found.count("runs closed for the dead", self.recovered.0 as usize);
        found.count("claims interrupted for the dead", self.recovered.1 as usize);
        found.count("kills", kills as usize);
        found.count("counted under two leases", self.counted.values().sum::<u64>() as usize);
        ws.close().await?;
        Ok(found)
    }

    /// Every session, read once: each word that was acknowledged is there, under its number, and every child begins with
    /// what its parent holds. Answers the texts that were kept for display, by run.
    async fn sessions(
        &self,
        ws: &Workspace,
        place: &Place,
        found: &mut Findings,
    ) -> Result<HashMap<String, String>> {
        found.count("entries acknowledged", self.entries.len());
        found.count("forks", self.forks.len());
        let mut said: HashMap<&str, Vec<(u32, &str)>> = HashMap::new();
        for (session, number, text) in &self.entries {
            said.entry(session).or_default().push((*number, text));
        }
        let mut children: HashMap<&str, Vec<(&str, u32)>> = HashMap::new();
        for (parent, child, boundary) in &self.forks {
            children.entry(parent).or_default().push((child, *boundary));
        }
        let mut kept: HashMap<String, String> = HashMap::new();
        for name in place.all_sessions().map(session_name) {
            let there = everything(ws, &name).await?;
            found.words(&name, &there, said.remove(name.as_str()).unwrap_or_default());
            for (child, boundary) in children.remove(name.as_str()).unwrap_or_default() {
                let of_child = everything(ws, child).await?;
                let (boundary, parts) = (boundary as usize, [&there, &of_child]);
                if parts.iter().any(|part| part.len() < boundary) || there[..boundary] != of_child[..boundary]
                {
                    found.wrong(format!("fork {child} differs from {name} before {boundary}"));
                }
                found.words(child, &of_child, said.remove(child).unwrap_or_default());
            }
            for entry in there {
                if let (Visibility::Partial, Some(run), Some(text)) =
                    (entry.visibility, entry.run, entry.text)
                {
                    kept.entry(run.to_string()).or_default().push_str(&text);
                }
            }
        }
        for parent in children.into_keys() {
            found.wrong(format!("{parent} was forked, and nobody made it"));
        }
        // What is left was said in forks whose makers were killed before they could tell.
        for (child, said) in said {
            found.words(child, &everything(ws, child).await?, said);
        }
        found.count("unfinished texts kept for display", kept.len());
        Ok(kept)
    }

    /// Every run that was begun is there; no one is at work for somebody dead; what was completed stays so.
    async fn runs(&self, ws: &Workspace, found: &mut Findings) -> Result<()> {
        found.count("runs begun", self.runs.len());
        found.count("runs completed", self.completed.len());
        for (session, run) in &self.runs {
            let session = ws.sessions().open(&SessionId::new(session)?).await?;
            if session.runs().get(&RunId::new(run)?).await.is_err() {
                found.wrong(format!("run {run} was begun and is not there"));
            }
        }
        for (session, run) in &self.completed {
            let session = ws.sessions().open(&SessionId::new(session)?).await?;
            if session.runs().get(&RunId::new(run)?).await?.state != RunState::Completed {
                found.wrong(format!("run {run} was completed and is not any more"));
            }
        }
        let active = ws.runs().active().limit(10_000).await?.items;
        let waiting = active.iter().filter(|run| run.state == RunState::WaitingApproval).count();
        found.count("runs that wait for a person", waiting);
        for run in active.iter().filter(|run| run.state != RunState::WaitingApproval) {
            found.wrong(format!("run {} is {} and everybody is gone", run.id, run.state.as_str()));
        }
        Ok(())
    }

    /// What a run streamed that has no answer is kept for display. One that waits still has its stream.
    async fn streams(
        &self,
        ws: &Workspace,
        kept: &HashMap<String, String>,
        found: &mut Findings,
    ) -> Result<()> {
        found.count("pieces of text streamed", self.streamed.len());
        let mut states: HashMap<&str, RunState> = HashMap::new();
        for (session, run, piece) in &self.streamed {
            if !states.contains_key(run.as_str()) {
                let session = ws.sessions().open(&SessionId::new(session)?).await?;
                states.insert(run, session.runs().get(&RunId::new(run)?).await?.state);
            }
            let over = !matches!(states[run.as_str()], RunState::Completed | RunState::WaitingApproval);
            if over && !kept.get(run.as_str()).is_some_and(|text| text.contains(&format!("{piece} "))) {
                found.wrong(format!("session {session}: {piece} was streamed in run {run}, and is not kept"));
            }
        }
        Ok(())
    }

    /// No effect twice; what was completed stays so; nothing runs for somebody dead.
    async fn claims(&self, ws: &Workspace, place: &Place, found: &mut Findings) -> Result<()> {
        let effects = std::fs::read_to_string(place.world()).unwrap_or_default();
        let mut seen = HashSet::new();
        for effect in effects.lines() {
            if !seen.insert(effect) {
                found.wrong(format!("{effect} was executed twice"));
            }
        }
        found.count("tools executed", seen.len());
        found.count("claims completed", self.claims.len());
        let claims = ws.sessions().open(&session_name(0).parse()?).await?.claims();
        for key in &self.claims {
            match claims.get(key).await? {
                Some(record) if record.state == ClaimState::Completed => {}
                other => found.wrong(format!("claim {key} was completed and is {other:?}")),
            }
            if !seen.contains(key.as_str()) {
                found.wrong(format!("claim {key} was completed and never executed"));
            }
        }
        for at in place.all_sessions() {
            let claims = ws.sessions().open(&session_name(at).parse()?).await?.claims();
            found.count(
                "claims interrupted",
                claims.list().state(ClaimState::Interrupted).limit(10_000).await?.items.len(),
            );
            for left in claims.list().state(ClaimState::Running).await?.items {
                found.wrong(format!("claim {} is said to run and everybody is gone", left.key));
            }
        }
        Ok(())
    }
}

impl Findings {
    fn count(&mut self, what: &'static str, count: usize) {
        *self.counts.entry(what).or_default() += count as u64;
    }

    fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// The entries of a session have no gap, and hold what was said to be there.
    fn words(&mut self, session: &str, there: &[Entry], said: Vec<(u32, &str)>) {
        let gap = there.iter().enumerate().find(|(at, entry)| entry.number.get() as usize != at + 1);
        if let Some((at, entry)) = gap {
            self.wrong(format!("session {session}: entry {} stands at place {}", entry.number, at + 1));
        }
        for (number, text) in said {
            let entry = there.get(number as usize - 1);
            if entry.and_then(|entry| entry.text.as_deref()) != Some(text) {
                self.wrong(format!(
                    "session {session}: entry {number} is not what was acknowledged ({text})"
                ));
            }
        }
    }
}

/// All entries of a session.
async fn everything(ws: &Workspace, name: &str) -> Result<Vec<Entry>> {
    let session = ws.sessions().open(&SessionId::new(name)?).await?;
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let from = cursor.take();
        let page = session
            .entries(|query| {
                query.visibility = VisibilitySet::ALL;
                query.limit = 5_000;
                query.cursor = from;
            })
            .await?;
        all.extend(page.items);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}
