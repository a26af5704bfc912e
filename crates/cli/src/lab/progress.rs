//! Progress of a long command: a bar on a terminal, plain lines elsewhere.
//!
//! It goes to standard error, so that standard output contains only results.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

pub(crate) struct Bar {
    began: Instant,
    on_terminal: bool,
    /// The last tenth that was reported, without a terminal.
    tenth: usize,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), on_terminal: io::stderr().is_terminal(), tenth: 0 }
    }

    /// Reports that `done` of `total` are done, and that `what` was the last of them.
    pub(crate) fn update(&mut self, done: usize, total: usize, what: &str) {
        let time_left = time_left(self.began.elapsed(), done, total);
        let mut err = io::stderr().lock();
        // Errors are ignored: progress is not essential.
        let _ = if self.on_terminal {
            let cells = WIDTH * done / total.max(1);
            let bar = format!("{}{}", "█".repeat(cells), "░".repeat(WIDTH - cells));
            let what: String = what.chars().take(40).collect();
            let end = if done == total { "\n" } else { "" };
            write!(err, "\r{bar} {done} of {total}, {time_left}  {what}\x1b[K{end}").and_then(|()| err.flush())
        } else if 10 * done / total.max(1) > self.tenth {
            self.tenth = 10 * done / total.max(1);
            writeln!(err, "{done} of {total} runs, {time_left}")
        } else {
            Ok(())
        };
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

const WIDTH: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_extrapolated() {
        assert_eq!(time_left(Duration::from_secs(10), 10, 30), "20 s left");
        assert_eq!(time_left(Duration::from_secs(600), 10, 20), "10 min left");
        assert_eq!(time_left(Duration::from_secs(600), 20, 20), "done");
    }
}
