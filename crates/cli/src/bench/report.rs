//! What was measured, while the load runs and at its end.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
use pole_api::commands::{BenchResult, Measured};
use tokio::time::{Instant, sleep_until};

use super::mix::Kind;
use crate::args::BenchArgs;
use crate::paint::{Paint, Table};
use crate::print_error;

/// Counts answers. The load runs on one thread.
#[derive(Default)]
pub(crate) struct Meter(RefCell<State>);

struct State {
    /// In the order of [`Kind::ALL`].
    kinds: [Latencies; 3],
    /// Since the last line of progress.
    recent: Latencies,
    last_error: Option<String>,
    /// When the last request was answered, and the longest time between two answers.
    last_answer: Option<Instant>,
    longest_gap: Duration,
}

impl Default for State {
    fn default() -> Self {
        let kinds = [Latencies::new(), Latencies::new(), Latencies::new()];
        Self { kinds, recent: Latencies::new(), last_error: None, last_answer: None, longest_gap: Duration::ZERO }
    }
}

struct Latencies {
    /// In microseconds.
    histogram: Histogram<u64>,
    errors: u64,
}

impl Latencies {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are in order");
        Self { histogram, errors: 0 }
    }

    fn record(&mut self, took: Duration, failed: bool) {
        match failed {
            true => self.errors += 1,
            false => {
                let us = u64::try_from(took.as_micros()).unwrap_or(LATENCY_US_MAX).clamp(1, LATENCY_US_MAX);
                self.histogram.record(us).expect("it is within the bounds");
            }
        }
    }

    fn ms(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1_000.0
    }

    fn measured(&self, kind: &str, seconds: f64) -> Measured {
        let requests = self.histogram.len();
        Measured {
            kind: kind.to_owned(),
            requests,
            errors: self.errors,
            per_second: requests as f64 / seconds,
            p50_ms: self.ms(0.5),
            p90_ms: self.ms(0.9),
            p99_ms: self.ms(0.99),
            p999_ms: self.ms(0.999),
            max_ms: self.histogram.max() as f64 / 1_000.0,
        }
    }
}

impl Meter {
    /// Records the answer to a request that was due at `asked`.
    pub(super) fn record(&self, kind: Kind, asked: Instant, error: Option<String>) {
        let (mut state, now) = (self.0.borrow_mut(), Instant::now());
        state.kinds[kind as usize].record(now - asked, error.is_some());
        state.recent.record(now - asked, error.is_some());
        if error.is_none() {
            let gap = state.last_answer.map_or(Duration::ZERO, |last| now - last);
            state.longest_gap = state.longest_gap.max(gap);
            state.last_answer = Some(now);
        }
        state.last_error = error.or(state.last_error.take());
    }

    pub(super) fn last_error(&self) -> String {
        self.0.borrow().last_error.clone().unwrap_or_else(|| "none was sent".to_owned())
    }

    pub(super) fn result(&self, args: &BenchArgs) -> BenchResult {
        let state = self.0.borrow();
        let seconds = args.seconds as f64;
        let kinds = Kind::ALL.iter().zip(&state.kinds).filter(|(_, of)| of.histogram.len() + of.errors > 0);
        let kinds: Vec<Measured> = kinds.map(|(kind, of)| of.measured(kind.name(), seconds)).collect();
        BenchResult {
            servers: args.server.split(',').map(str::to_owned).collect(),
            clients: args.clients,
            outstanding: args.outstanding(),
            rate: args.rate,
            size_bytes: args.size as usize,
            mix: args.mix.to_string(),
            seconds: args.seconds,
            requests: kinds.iter().map(|of| of.requests).sum(),
            errors: kinds.iter().map(|of| of.errors).sum(),
            last_error: state.last_error.clone(),
            per_second: kinds.iter().map(|of| of.per_second).sum(),
            longest_gap_ms: state.longest_gap.as_secs_f64() * 1_000.0,
            kinds,
        }
    }

    /// A line about the time since the last one.
    fn line(&self) -> String {
        let mut state = self.0.borrow_mut();
        let recent = std::mem::replace(&mut state.recent, Latencies::new());
        let errors = match recent.errors {
            0 => String::new(),
            count => format!(", {count} errors"),
        };
        format!("{}/s, p50 {:.2} ms, p99 {:.2} ms{errors}", recent.histogram.len(), recent.ms(0.5), recent.ms(0.99))
    }
}

/// Prints a line every second.
pub(super) async fn progress(meter: Rc<Meter>, begin: Instant, seconds: u64) {
    for second in 1..=seconds {
        sleep_until(begin + Duration::from_secs(second)).await;
        print_error(&format!("{second:>4} s  {}\n", meter.line()));
    }
}

pub(super) fn text(result: &BenchResult) -> String {
    let paint = Paint::new(crate::args::Color::Never);
    let headings =
        ["kind", ">requests", ">errors", ">per second", ">p50 ms", ">p90 ms", ">p99 ms", ">p99.9 ms", ">max ms"];
    let mut table = Table::new(&headings, paint);
    for of in &result.kinds {
        let times = [of.p50_ms, of.p90_ms, of.p99_ms, of.p999_ms, of.max_ms].map(|ms| format!("{ms:.2}"));
        let counts = [of.kind.clone(), of.requests.to_string(), of.errors.to_string(), format!("{:.0}", of.per_second)];
        table.row(counts.into_iter().chain(times), str::to_owned);
    }
    let errors = match &result.last_error {
        Some(error) => format!(" The last error was: {error}."),
        None => String::new(),
    };
    format!(
        "\n{}\n{} client{}, nodes of {} bytes, {} s: {:.0} requests a second. The longest time without an answer was {:.1} \
         ms.{errors}\n",
        table.text(),
        result.clients,
        if result.clients == 1 { "" } else { "s" },
        result.size_bytes,
        result.seconds,
        result.per_second,
        result.longest_gap_ms,
    )
}

/// A minute; a request that takes longer has failed.
const LATENCY_US_MAX: u64 = 60_000_000;
