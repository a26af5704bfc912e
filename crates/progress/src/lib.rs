//! Shows the progress of long work to people who wait for it: a bar on a terminal, a line now and then elsewhere.
//!
//! It goes to standard error, so that standard output contains only results. Without a terminal there is a line for each
//! tenth of the work, which keeps the logs of CI readable. Servers do not use this.
//!
//! ```
//! use pole_progress::Bar;
//!
//! let seeds = 3;
//! let bar = Bar::new("seeds");
//! for done in 1..=seeds {
//!     bar.update(done, seeds, "seed 7 was the last one");
//! }
//! ```

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of one piece of work. Any thread may update it.
#[derive(Debug)]
pub struct Bar {
    /// What is counted, in the plural.
    unit: &'static str,
    /// `None` without a terminal.
    bar: Option<ProgressBar>,
    began: Instant,
    /// The last tenth that was reported, without a terminal.
    tenth: AtomicUsize,
}

impl Bar {
    /// A bar that counts `unit`, a plural. It is shown from the first update on.
    #[must_use]
    pub fn new(unit: &'static str) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE).expect("the template is valid").progress_chars("█░");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(DRAWN_PER_SECOND)).with_style(style)
        });
        Self { unit, bar, began: Instant::now(), tenth: AtomicUsize::new(0) }
    }

    /// Reports that `done` of `total` are done. `what` says what was done last, or is done now.
    pub fn update(&self, done: usize, total: usize, what: &str) {
        let Some(bar) = &self.bar else { return self.print_tenth(done, total) };
        bar.set_length(total as u64);
        bar.set_message(what.chars().take(MESSAGE_MAX).collect::<String>());
        bar.set_position(done as u64);
        if done == total {
            bar.finish();
        }
    }

    /// Prints something else without disturbing the bar.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn print_tenth(&self, done: usize, total: usize) {
        let tenth = 10 * done / total.max(1);
        if self.tenth.fetch_max(tenth, Ordering::Relaxed) < tenth {
            let time_left = time_left(self.began.elapsed(), done, total);
            // An error is ignored: progress is not essential.
            let _ = writeln!(io::stderr(), "{done} of {total} {}, {time_left}", self.unit);
        }
    }
}

fn time_left(elapsed: Duration, done: usize, total: usize) -> String {
    let each = elapsed.as_secs_f64() / done.max(1) as f64;
    match (each * total.saturating_sub(done) as f64).round() as u64 {
        0 => "done".to_owned(),
        seconds @ 1..120 => format!("{seconds} s left"),
        seconds => format!("{} min left", seconds.div_ceil(60)),
    }
}

/// The bar, its numbers, the time left, and what is done.
const TEMPLATE: &str = "{bar:20} {pos} of {len}, {eta} left  {msg}";

const DRAWN_PER_SECOND: u8 = 10;

/// A longer message would not fit beside the bar.
const MESSAGE_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_extrapolated() {
        assert_eq!(time_left(Duration::from_secs(10), 10, 30), "20 s left");
        assert_eq!(time_left(Duration::from_secs(600), 10, 20), "10 min left");
        assert_eq!(time_left(Duration::from_secs(600), 20, 20), "done");
    }

    #[test]
    fn without_a_terminal_each_tenth_is_reported_once() {
        let bar = Bar { unit: "runs", bar: None, began: Instant::now(), tenth: AtomicUsize::new(0) };
        let reported = |done| {
            let before = bar.tenth.load(Ordering::Relaxed);
            bar.update(done, 40, "");
            bar.tenth.load(Ordering::Relaxed) > before
        };
        assert_eq!(
            (0..=40).filter(|done| reported(*done)).collect::<Vec<_>>(),
            (4..=40).step_by(4).collect::<Vec<_>>()
        );
        assert!(!reported(20), "an update that comes late from another thread");
        bar.update(0, 0, "");
    }

    #[test]
    fn the_template_of_the_terminal_is_valid() {
        ProgressStyle::with_template(TEMPLATE).expect("a valid template");
    }
}
