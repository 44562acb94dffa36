//! Progress on standard error, if a person watches.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

fn hidden_unless_watched() -> ProgressBar {
    let target =
        if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    ProgressBar::with_draw_target(None, target)
}

/// A bar for work whose end is known.
pub(crate) fn bar(doing: &'static str) -> ProgressBar {
    let bar = hidden_unless_watched().with_prefix(doing);
    match ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} %  {eta}") {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// A sign of life for work whose end nobody knows.
pub(crate) fn spinner(doing: &'static str) -> ProgressBar {
    let bar = hidden_unless_watched().with_prefix(doing);
    let bar = match ProgressStyle::with_template("{spinner} {prefix}  {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
