//! Ranked search: the index where it has come to, and a look at every entry beyond it.
//!
//! The index finds candidates, one class of the ranking after another and each in the order of the ranking, so that
//! reading ends with the page. Whether a candidate fits, and how well, its text decides.

use rusqlite::{Connection, params_from_iter};
use turnkeep_core::id::SessionId;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::Audience;
use turnkeep_core::mutant;
use turnkeep_core::query::{AudienceFilter, BestHits, Fit, HitPlace, Needle, SearchHit, SearchQuery, Term};
use turnkeep_core::{EntryNo, Incarnation, Page, Result, SessionRef};

use crate::columns::{Fields, audience_name, number_of, row_key, visibility_of};
use crate::error::sql;
use crate::read::sql::Sql;
use crate::read::{Snapshot, find, workspace_key};
use crate::statement::Prepare as _;

/// Words of a search that the index is asked for. More would only take longer: what it finds is looked at anyway.
const MOST_WORDS: usize = 16;

pub(crate) fn search(conn: &Connection, query: &SearchQuery, limits: &Limits) -> Result<Page<SearchHit>> {
    let mut best = BestHits::new(query, limits)?;
    let needle = Needle::new(&query.text)?;
    let _snapshot = Snapshot::begin(conn)?;
    let only = match &query.session {
        Some(session) => Some(find(conn, &query.workspace, session)?.skey),
        None => None,
    };
    let Some(wkey) = workspace_key(conn, &query.workspace)? else { return Ok(Page::empty()) };
    if needle.is_empty() {
        return Ok(Page::empty());
    }
    let scope = Scope { query, needle: &needle, wkey, only };
    scope.beyond_the_index(conn, &mut best)?;
    for fit in Fit::BEST_FIRST {
        // Beginnings of frequent words take the index long, so it is not asked for what would not be shown.
        if best.is_full_before(HitPlace { fit, session: u64::MAX, entry: u32::MAX }) {
            break;
        }
        if let Some(words) = index_query(&needle, fit) {
            scope.in_the_index(conn, fit, &words, &mut best)?;
        }
    }
    best.page(query)
}

struct Scope<'a> {
    query: &'a SearchQuery,
    needle: &'a Needle,
    wkey: i64,
    only: Option<i64>,
}

/// The columns of a candidate: entry `e` in session `s`, as [`Scope::offer`] reads them.
const COLUMNS: &str = "e.rid, s.id, s.incarnation, e.kind, e.role, e.visibility, e.at, e.text";

impl Scope<'_> {
    /// Looks at every entry that is not in the index. Without a word to ask the index for, that is every entry.
    fn beyond_the_index(&self, conn: &Connection, best: &mut BestHits) -> Result<()> {
        if mutant::is("sqlite/search-knows-only-its-index") {
            return Ok(());
        }
        let indexed = self.needle.terms().iter().any(|term| !term.words().is_empty());
        let through = if indexed { "coalesce(i.through, 0)" } else { "0" };
        // What an index leaves out by itself has to be left out here too, or it is not used.
        let (index, unused) = match self.only {
            Some(_) => ("", ""),
            None => ("INDEXED BY sessions_by_activity", "AND s.state <> 'deleted' "),
        };
        let mut behind = Sql::new(format!(
            "SELECT s.skey, {through}, s.head FROM sessions s {index} LEFT JOIN indexed i ON i.skey = s.skey "
        ));
        self.sessions(&mut behind);
        behind.push(unused);
        behind.bind_some("AND s.skey = ? ", self.only);
        behind.push(&format!("AND coalesce(s.head, 0) > {through} ORDER BY s.skey DESC"));
        let text = format!(
            "SELECT {COLUMNS} FROM sessions s CROSS JOIN entries e ON e.rid > ?1 AND e.rid <= ?2
             WHERE s.skey = ?3 ORDER BY e.rid DESC"
        );
        let mut behind_rows = conn.prepared(&behind.text).map_err(sql)?;
        let mut behind_rows = behind_rows.query(params_from_iter(&behind.values)).map_err(sql)?;
        while let Some(row) = behind_rows.next().map_err(sql)? {
            let fields = &mut Fields::new("sessions", row);
            let (skey, through, head) = (fields.int()?, fields.u32()?, fields.u32()?);
            let mut entries = conn.prepared(&text).map_err(sql)?;
            let range = [row_key(skey, through), row_key(skey, head), skey];
            let mut entries = entries.query(range).map_err(sql)?;
            while let Some(row) = entries.next().map_err(sql)? {
                if !self.offer(&mut Fields::new("entries", row), None, best)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Looks at what the index finds for one class of the ranking, until the page is full of better hits.
    fn in_the_index(&self, conn: &Connection, fit: Fit, words: &str, best: &mut BestHits) -> Result<()> {
        let text = self.candidates(words);
        let mut statement = conn.prepared(&text.text).map_err(sql)?;
        let mut rows = statement.query(params_from_iter(&text.values)).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            if !self.offer(&mut Fields::new("entries", row), Some(fit), best)? {
                break;
            }
        }
        Ok(())
    }

    fn candidates(&self, words: &str) -> Sql {
        let mut text = Sql::new(format!(
            "SELECT {COLUMNS} FROM search CROSS JOIN entries e ON e.rid = search.rowid
             CROSS JOIN sessions s ON s.skey = e.rid >> 32 "
        ));
        self.sessions(&mut text);
        text.bind("AND search MATCH ? ", words.to_owned());
        if let Some(skey) = self.only {
            text.bind("AND search.rowid > ? ", row_key(skey, 0));
            text.bind("AND search.rowid <= ? ", row_key(skey, u32::MAX));
        }
        text.push("ORDER BY search.rowid DESC");
        text
    }

    /// The sessions that are searched.
    fn sessions(&self, text: &mut Sql) {
        text.push("WHERE s.state = 'active' ");
        if !mutant::is("sqlite/search-in-every-workspace") {
            text.bind("AND s.wkey = ? ", self.wkey);
        }
        let audience = match self.query.audience {
            AudienceFilter::User => Some(Audience::User),
            AudienceFilter::SubAgent => Some(Audience::SubAgent),
            AudienceFilter::Any => None,
        };
        let audience = audience.filter(|_| self.only.is_none());
        text.bind_some("AND s.audience = ? ", audience.map(|audience| audience_name(audience).to_owned()));
    }

    /// Takes a candidate in if it fits, as well as the index says. Answers whether later ones may still be wanted;
    /// they come in the order of the ranking.
    fn offer(&self, fields: &mut Fields<'_>, class: Option<Fit>, best: &mut BestHits) -> Result<bool> {
        let rid = fields.int()?;
        let entry = number_of(rid);
        let place =
            |fit| HitPlace { fit, session: (rid >> crate::columns::NUMBER_BITS).unsigned_abs(), entry };
        if best.is_full_before(place(class.unwrap_or(Fit::Phrase))) {
            return Ok(false);
        }
        if class.is_some_and(|fit| !best.wants(place(fit))) {
            return Ok(true);
        }
        let (id, incarnation): (SessionId, _) = (fields.id()?, fields.bytes()?);
        let (kind, role) = (fields.id()?, fields.maybe_id()?);
        let visibility = fields.named(visibility_of)?;
        let at = fields.time()?;
        let Some(text) = fields.maybe_text()? else { return Ok(true) };
        if !self.query.admits(&kind, role.as_ref(), visibility) {
            return Ok(true);
        }
        let Some(found) = self.needle.look(text) else { return Ok(true) };
        // One that fits better came before, one that fits less comes later.
        if class.is_some_and(|class| class != found.fit) {
            return Ok(true);
        }
        let entry = EntryNo::new(entry).ok_or_else(|| fields.damaged())?;
        best.offer(place(found.fit), || {
            let (snippet, marks) = found.snippet(text);
            let session = SessionRef { id, incarnation: Incarnation::from_bytes(incarnation) };
            SearchHit { session, entry, kind, role, at, score: found.fit.score(), snippet, marks }
        });
        Ok(true)
    }
}

/// What to ask the index for, so that it finds every entry of a class; `None` where no entry can be of it, or where
/// there is no word to ask for. Words are letters and digits alone, so nothing in them means anything to the index.
fn index_query(needle: &Needle, fit: Fit) -> Option<String> {
    let mut left = MOST_WORDS;
    let terms: Vec<&Term> = needle
        .terms()
        .iter()
        .filter(|term| !term.words().is_empty())
        .take_while(|term| {
            let before = left;
            left = left.saturating_sub(term.words().len());
            before > 0
        })
        .collect();
    let all: Vec<&str> = terms.iter().flat_map(|term| term.words()).map(String::as_str).collect();
    if all.is_empty() {
        return None;
    }
    let phrase = format!("\"{}\"", all.join(" "));
    let each = |open: bool| -> Vec<String> {
        let one = |term: &&Term| {
            let beginning = if open && term.is_open() { " *" } else { "" };
            format!("\"{}\"{beginning}", term.words().join(" "))
        };
        terms.iter().map(one).collect()
    };
    let (whole, open) = (each(false).join(" AND "), each(true).join(" AND "));
    // Where the words alone decide, the index leaves out by itself what was found before.
    let exact = needle.is_plain() && terms.len() == needle.terms().len();
    match fit {
        Fit::Phrase => Some(phrase),
        Fit::Words if all.len() == 1 => None,
        Fit::Words if exact => Some(format!("({whole}) NOT {phrase}")),
        Fit::Words => Some(whole),
        Fit::Beginnings if whole == open => None,
        Fit::Beginnings if exact => Some(format!("({open}) NOT ({whole})")),
        Fit::Beginnings => Some(open),
    }
}

#[cfg(test)]
mod tests {
    use turnkeep_core::WorkspaceId;

    use super::*;
    use crate::read::plans::plan;

    #[test]
    fn the_index_is_asked_for_words_whatever_the_text() {
        let ask = |text: &str| {
            let needle = Needle::new(text).unwrap();
            Fit::BEST_FIRST.map(|fit| index_query(&needle, fit))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(ask("c++"), [some("\"c\""), None, None]);
        assert_eq!(ask("++ \" ' ; --"), [None, None, None]);
        assert_eq!(ask("parse"), [some("\"parse\""), None, some("(\"parse\" *) NOT (\"parse\")")]);
        assert_eq!(
            ask("one AND two"),
            [
                some("\"one and two\""),
                some("(\"one\" AND \"and\" AND \"two\") NOT \"one and two\""),
                some("(\"one\" * AND \"and\" * AND \"two\" *) NOT (\"one\" AND \"and\" AND \"two\")"),
            ]
        );
        let long: String = (0..500).map(|at| format!("w{at} ")).collect();
        assert_eq!(ask(&long)[0].as_ref().unwrap().split(' ').count(), MOST_WORDS);
    }

    #[test]
    fn candidates_come_from_the_index_in_the_order_of_the_ranking() {
        let query = SearchQuery::new(WorkspaceId::new("w").unwrap(), "words");
        let needle = Needle::new("words").unwrap();
        for only in [None, Some(7)] {
            let scope = Scope { query: &query, needle: &needle, wkey: 1, only };
            let plan = plan(Ok(scope.candidates("\"words\"")));
            assert!(plan.contains("SCAN search VIRTUAL TABLE INDEX"), "{plan}");
            assert!(plan.contains("SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"), "{plan}");
            assert!(plan.contains("SEARCH s USING INTEGER PRIMARY KEY (rowid=?)"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
