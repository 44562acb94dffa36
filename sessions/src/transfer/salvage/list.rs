//! Which sessions there are, around those that cannot be read.

use std::collections::BTreeMap;

use turnkeep_core::error::Result;
use turnkeep_core::id::{SessionId, SessionKey, WorkspaceId};
use turnkeep_core::model::SessionRow;
use turnkeep_core::query::{AudienceFilter, SessionOrder, SessionQuery};
use turnkeep_core::store::Store;

use super::{CANNOT, Loss, is_damage};

/// Sessions of one page.
const PAGE: u32 = 200;

/// Every session that can be read, by id. Where a list meets one that cannot, the ids are divided by their next
/// character until that one is alone.
pub(super) async fn sessions(
    store: &dyn Store,
    workspace: &WorkspaceId,
    loss: &mut Loss<'_>,
) -> Result<Vec<SessionRow>> {
    let mut found = BTreeMap::new();
    // Prefixes to look below. The whole list is the one without any.
    let mut open = vec![String::new()];
    while let Some(prefix) = open.pop() {
        if walk(store, workspace, &prefix, &mut found).await? {
            continue;
        }
        let below = open.len();
        let longer = (' '..='~').map(|next| format!("{prefix}{next}"));
        for prefix in longer.filter(|prefix| SessionId::new(prefix.as_str()).is_ok()) {
            if !walk(store, workspace, &prefix, &mut found).await? {
                open.push(prefix);
            }
        }
        let exact = SessionId::new(prefix.as_str());
        let itself = match exact {
            Ok(id) => {
                let key = SessionKey { workspace: workspace.clone(), id: id.clone() };
                match store.session(&key).await {
                    Ok(Some(row)) => {
                        found.insert(id, row);
                        None
                    }
                    Ok(None) => None,
                    Err(error) if is_damage(&error) => Some(id),
                    Err(error) => return Err(error),
                }
            }
            Err(_) => None,
        };
        match itself {
            Some(id) => {
                let mut loss = Loss { workspace, session: Some(&id), left_out: &mut *loss.left_out };
                loss.note("the session", CANNOT);
            }
            // Neither it nor anything longer: ids of other characters lie there.
            None if open.len() == below => {
                loss.note(format!("sessions whose id begins with `{prefix}`"), CANNOT);
            }
            None => {}
        }
    }
    Ok(found.into_values().collect())
}

/// Lists the sessions whose id begins so; `false` when one of them cannot be read.
async fn walk(
    store: &dyn Store,
    workspace: &WorkspaceId,
    prefix: &str,
    found: &mut BTreeMap<SessionId, SessionRow>,
) -> Result<bool> {
    let mut query = query(workspace, prefix, PAGE);
    loop {
        let page = match store.sessions(&query).await {
            Ok(page) => page,
            Err(error) if is_damage(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        found.extend(page.items.into_iter().map(|row| (row.id.clone(), row)));
        query.cursor = page.next;
        if query.cursor.is_none() {
            return Ok(true);
        }
    }
}

fn query(workspace: &WorkspaceId, prefix: &str, limit: u32) -> SessionQuery {
    let mut query = SessionQuery::new(workspace.clone());
    query.audience = AudienceFilter::Any;
    query.order = SessionOrder::Id;
    query.id_prefix = (!prefix.is_empty()).then(|| prefix.to_owned());
    query.limit = limit;
    query
}
