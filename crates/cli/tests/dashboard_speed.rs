//! What the dashboard costs, and how soon it shows something. Both are figures of a quiet machine, so they are measured on
//! request only:
//!
//! ```sh
//! cargo test --release -p pole-cli --test dashboard_speed -- --ignored --nocapture --test-threads 1
//! ```

mod common;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use common::browser::{Browser, installed};
use common::{LIMIT, Running, free_base_port, run};

/// A load of writes for a few seconds, without viewers and with ten of them, in turn.
#[test]
#[ignore = "measures; needs a quiet machine"]
fn ten_dashboards_cost_at_most_a_twentieth_of_the_writes() {
    let base = free_base_port();
    let up = Running::reading_stdout(&["up", "--topology", "zones", "--base-port", &base.to_string()]);
    up.until("Ctrl-C stops all");
    let servers = (1..=5).map(|id| format!("127.0.0.1:{}", base + id)).collect::<Vec<_>>().join(",");
    let writes = || {
        let load = ["bench", "--server", &servers, "--clients", "30", "--outstanding", "16", "--mix", "write=1"];
        let (code, said, complaint) = run(&[&load[..], &["--seconds", "5", "--json"]].concat());
        assert_eq!(code, 0, "{complaint}");
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        said["per_second"].as_f64().unwrap()
    };
    writes(); // a warm-up
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    for round in 1..=5 {
        let without = writes();
        let viewers = Viewers::open(base, 10);
        let with = writes();
        let reports = viewers.close();
        println!(
            "round {round}: {without:.0} writes/s without, {with:.0} with ten dashboards ({reports} reports read)"
        );
        assert!(reports >= 10 * 5, "the dashboards got no reports: {reports}");
        alone.push(without);
        watched.push(with);
    }
    let ratio = median(&mut watched) / median(&mut alone);
    println!("median with ten dashboards: {:.1} % of that without", ratio * 100.0);
    assert!(ratio >= 0.95, "{ratio}");
}

/// From the request to the first text, on an idle ensemble, with an empty cache.
#[test]
#[ignore = "measures; needs a quiet machine"]
fn the_first_paint_comes_within_three_tenths_of_a_second() {
    let Some(program) = installed() else {
        eprintln!("skipped: no chromium in the PATH");
        return;
    };
    let base = free_base_port();
    let up = Running::reading_stdout(&["up", "--base-port", &base.to_string()]);
    up.until("Ctrl-C stops all");
    let mut browser = Browser::start(&program);
    browser.resize(1400, 1000);
    browser.call("Network.setCacheDisabled", serde_json::json!({"cacheDisabled": true}));
    let mut paints = Vec::new();
    for page in [base, base + 301] {
        for round in 1..=10 {
            browser.open("about:blank");
            browser.open(&format!("http://127.0.0.1:{page}/"));
            browser.until("document.querySelectorAll('#servers tbody tr').length === 5");
            let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
            browser.until(paint);
            let ms = browser.eval(paint).as_f64().unwrap();
            println!("port {page}, round {round}: first contentful paint after {ms:.0} ms");
            paints.push(ms);
        }
    }
    let (middle, worst) = (median(&mut paints), paints.last().copied().unwrap_or_default());
    println!("median {middle:.0} ms, worst {worst:.0} ms");
    assert!(middle < 300.0, "{paints:?}");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Streams of the page of `pole up`, each of which has one at every server.
struct Viewers {
    threads: Vec<JoinHandle<()>>,
    streams: Vec<TcpStream>,
    reports: Arc<AtomicU64>,
}

impl Viewers {
    fn open(base: u16, count: usize) -> Self {
        let reports = Arc::new(AtomicU64::new(0));
        let (mut threads, mut streams) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, base)).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            write!(stream, "GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{base}\r\n\r\n").unwrap();
            streams.push(stream.try_clone().unwrap());
            let reports = Arc::clone(&reports);
            let ready = Arc::new(AtomicBool::new(false));
            let told = Arc::clone(&ready);
            threads.push(std::thread::spawn(move || {
                let mut bytes = [0; 65_536];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    let found = bytes[..length].windows(15).filter(|part| part == b"event: snapshot");
                    reports.fetch_add(found.count() as u64, Ordering::Relaxed);
                    told.store(true, Ordering::Release);
                }
            }));
            while !ready.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        Self { threads, streams, reports }
    }

    /// Returns the number of reports that all of them read.
    fn close(self) -> u64 {
        self.streams.iter().for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.reports.load(Ordering::Relaxed)
    }
}
