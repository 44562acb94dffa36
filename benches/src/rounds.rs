//! Paired rounds: two ways of doing the same in turn, and the ratio of each pair.

use std::time::{Duration, Instant};

/// A line of the table of ratios.
#[derive(Debug)]
pub struct Line {
    /// What is compared.
    pub what: String,
    /// Ours, as a text with its unit.
    pub ours: String,
    /// What it is held against, as a text with its unit.
    pub against: String,
    /// The median ratio of the rounds.
    pub ratio: f64,
    /// The lowest and the highest ratio.
    pub spread: (f64, f64),
    /// The target.
    pub target: Target,
}

/// What a ratio should be.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// No target; for information.
    None,
}

impl Target {
    /// Whether a ratio meets it.
    #[must_use]
    pub fn met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
            Self::None => true,
        }
    }
}

/// The time that something takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

/// The middle one.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs both in turn, after one round that does not count. Each answers what it measured: a rate or a time.
pub fn paired(
    what: impl Into<String>,
    unit: &str,
    target: Target,
    rounds: usize,
    mut ours: impl FnMut() -> f64,
    mut against: impl FnMut() -> f64,
) -> Line {
    let (mut us, mut them, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        // The order within a pair alternates, so that neither always runs on a warm machine.
        let (a, b) = if round % 2 == 0 {
            let a = ours();
            (a, against())
        } else {
            let b = against();
            (ours(), b)
        };
        if round > 0 {
            us.push(a);
            them.push(b);
            ratios.push(a / b);
        }
    }
    let spread =
        ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    let show = |value: f64| {
        format!("{} {unit}", if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") })
    };
    let line = Line {
        what: what.into(),
        ours: show(median(us)),
        against: show(median(them)),
        ratio: median(ratios),
        spread,
        target,
    };
    println!("{}: {} against {}, ratio {:.2}", line.what, line.ours, line.against, line.ratio);
    line
}

/// Prints the table as Markdown. Answers how many targets are missed.
pub fn print_table(lines: &[Line]) -> usize {
    println!("\n| measured | ours | against | ratio | rounds | target | met |");
    println!("|---|---|---|---|---|---|---|");
    let mut missed = 0;
    for line in lines {
        let target = match line.target {
            Target::AtLeast(least) => format!("at least {least}"),
            Target::AtMost(most) => format!("at most {most}"),
            Target::None => "-".to_owned(),
        };
        let met = line.target.met(line.ratio);
        missed += usize::from(!met);
        println!(
            "| {} | {} | {} | **{:.2}** | {:.2} to {:.2} | {target} | {} |",
            line.what,
            line.ours,
            line.against,
            line.ratio,
            line.spread.0,
            line.spread.1,
            if met { "yes" } else { "no" },
        );
    }
    missed
}
