//! Showing the upgrade of a store.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use turnkeep::{UpgradeProgress, UpgradeStep};

use super::{note, text};

/// Parts of a bar that one step has.
const PARTS: u64 = 1000;

/// Watches an upgrade, with a bar on standard error if a person looks on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upgrades(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bar: Option<ProgressBar>,
    last: Option<UpgradeProgress>,
}

impl Upgrades {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to hand to whoever opens a store.
    pub(crate) fn watch(&self) -> impl Fn(&UpgradeProgress) + Send + Sync + 'static {
        let upgrades = self.clone();
        move |progress| {
            let mut state = upgrades.state();
            let bar = state.bar.get_or_insert_with(bar);
            bar.set_message(name(progress.step));
            bar.set_position(parts(progress.done));
            state.last = Some(progress.clone());
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = self.state().bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Says beside the answer what was done, if anything was.
    pub(crate) fn tell(&self, as_json: bool) {
        if let Some(UpgradeProgress { from, to, backup, .. }) = self.done() {
            let backup = backup.map(|path| text::line(&path.display().to_string())).unwrap_or_default();
            note(
                as_json,
                &format!(
                    "the store had format {from} and has format {to} now; as it was, it lies in {backup}"
                ),
            );
        }
    }

    /// The upgrade that was done.
    pub(crate) fn done(&self) -> Option<UpgradeProgress> {
        self.state().last.clone().filter(|progress| progress.step == UpgradeStep::Done)
    }
}

fn parts(done: f64) -> u64 {
    (done.clamp(0.0, 1.0) * PARTS as f64) as u64
}

const fn name(step: UpgradeStep) -> &'static str {
    match step {
        UpgradeStep::Backup => "writing a backup",
        UpgradeStep::CheckBackup => "verifying the backup",
        UpgradeStep::Migrate => "upgrading the store",
        UpgradeStep::Verify => "verifying the store",
        _ => "making it durable",
    }
}

fn bar() -> ProgressBar {
    let watched = std::io::stderr().is_terminal();
    let target = if watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(PARTS), target);
    match ProgressStyle::with_template("{msg:<22} {wide_bar} {percent:>3} %") {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}
