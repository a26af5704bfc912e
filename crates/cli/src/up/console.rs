//! The output of `pole up`.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::paint::{Paint, Table};

use super::plan::Plan;

/// Prints to standard output, with the time since the start.
pub(crate) struct Console {
    paint: Paint,
    began: Instant,
}

/// Id, mode and process of a server.
pub(crate) type Row = (u64, &'static str, Option<u32>);

impl Console {
    pub(crate) fn new(paint: Paint) -> Self {
        Self { paint, began: Instant::now() }
    }

    /// Prints the table of servers when the ensemble serves.
    pub(crate) fn ready(
        &self,
        plan: &Plan,
        dashboard: &Result<(), String>,
        rows: &[Row],
        leader: u64,
        epoch: u64,
        why: &str,
    ) {
        let paint = self.paint;
        let sites = sites(plan);
        let headline = format!("Pole is up: {} servers in {} data centres", rows.len(), sites.len());
        let mut text =
            format!("{}, ready after {:.1} s.\n\n", paint.bold(&headline), self.began.elapsed().as_secs_f64());
        let port = plan.dashboard_port();
        text += &match dashboard {
            Ok(()) => format!("  {}  http://127.0.0.1:{port}\n\n", paint.bold("Dashboard")),
            Err(error) => format!("  No dashboard: port {port}: {error}; choose other ports with --base-port\n\n"),
        };
        let mut table = Table::new(&["server", "site", "clients", "admin", "mode", ">pid"], paint);
        for (id, mode, pid) in rows {
            let ports = plan.ports(*id);
            let cells = [
                id.to_string(),
                plan.site(*id).to_owned(),
                format!("127.0.0.1:{}", ports.client),
                format!("http://127.0.0.1:{}", ports.admin),
                (*mode).to_owned(),
                pid.map_or_else(String::new, |pid| pid.to_string()),
            ];
            table.row(cells, |text| if *id == leader { paint.green(text) } else { text.to_owned() });
        }
        text += &table.text();
        text += &format!("\nRound trips, emulated: {}.\n", round_trips(plan, &sites));
        text +=
            &format!("The oracle is {}. Server {leader} leads epoch {epoch}{}.\n\n", plan.oracle(), reason_suffix(why));
        text += &next_steps(plan, rows, leader);
        self.print(&text);
    }

    /// Prints a step of the tour.
    pub(crate) fn tour(&self, step: u32, of: u32, text: &str) {
        self.print(&format!("\n{} {}\n", self.paint.bold(&format!("{step}/{of}")), fold(text, 100)));
    }

    /// Reports a new leader after the first one.
    pub(crate) fn leads(&self, name: &str, epoch: u64, pause: Option<Duration>, why: &str) {
        let pause = pause.map_or_else(String::new, |pause| format!(" after {} ms without a leader", pause.as_millis()));
        let leads = self.paint.green(&format!("{name} leads"));
        self.event(&format!("{leads} in epoch {epoch}{pause}{}", reason_suffix(why)));
    }

    /// Prints one line, with the seconds since the start.
    pub(crate) fn event(&self, text: &str) {
        let when = self.paint.dim(&format!("{:>7.1} s", self.began.elapsed().as_secs_f64()));
        self.print(&format!("{when}  {text}\n"));
    }

    pub(crate) fn stopping(&self) {
        self.event("stopping all servers");
    }

    /// Errors are ignored: the ensemble does not stop because standard output is closed.
    fn print(&self, text: &str) {
        let _ = crate::print(text);
    }
}

/// Breaks lines at spaces, so that none is longer than `width` unless a word is.
fn fold(text: &str, width: usize) -> String {
    let mut folded = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        if length > 0 && length + 1 + word.chars().count() > width {
            folded += "\n    ";
            length = 0;
        } else if length > 0 {
            folded.push(' ');
            length += 1;
        }
        folded += word;
        length += word.chars().count();
    }
    folded
}

fn reason_suffix(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {why}") }
}

/// Describes how a process exited.
pub(crate) fn describe_exit(status: ExitStatus, last_output: &str) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, Some(0)) => "has stopped".to_owned(),
        (None, Some(code)) => format!("has ended with code {code}: {last_output}"),
        (None, None) => "has ended".to_owned(),
    }
}

fn sites(plan: &Plan) -> BTreeSet<&str> {
    plan.ids().map(|id| plan.site(id)).collect()
}

fn round_trips(plan: &Plan, sites: &BTreeSet<&str>) -> String {
    if !cfg!(feature = "emulation") {
        return "without their delays, because this program was built without the feature `emulation`".to_owned();
    }
    let mut parts = Vec::new();
    for (n, a) in sites.iter().enumerate() {
        for b in sites.iter().skip(n + 1) {
            let rtt_ns = plan.topology().link_of_sites(a, b).map_or(0, |link| link.rtt_ns);
            parts.push(format!("{a} to {b} {:.1} ms", rtt_ns as f64 / 1e6));
        }
    }
    if parts.is_empty() { "all in one place".to_owned() } else { parts.join(", ") }
}

/// The commands that a new user can try next.
fn next_steps(plan: &Plan, rows: &[Row], leader: u64) -> String {
    // As it was typed, because a freshly built program is not in the PATH.
    let pole = std::env::args().next().unwrap_or_else(|| "pole".to_owned());
    let addresses: Vec<String> = plan.ids().map(|id| format!("127.0.0.1:{}", plan.ports(id).client)).collect();
    let admin = format!("--admin http://127.0.0.1:{}", plan.ports(leader).admin);
    let pid = rows.iter().find(|(id, ..)| *id == leader).and_then(|(.., pid)| *pid);
    let links = match cfg!(feature = "emulation") {
        true => format!("  change the links     edit {}\n", plan.topology_file().display()),
        false => String::new(),
    };
    let kept = if plan.is_temporary() { "and go with the ensemble" } else { "and stay there" };
    let kill = pid.map_or_else(String::new, |pid| format!("  lose the leader      kill -9 {pid}\n"));
    format!(
        "  connect a client     {pole} shell --server {}\n\
         \x20                      or any other ZooKeeper client\n\
         \x20 see the servers      {pole} status {admin}\n\
         \x20 ask why it leads     {pole} explain {admin}\n\
         \x20 change the oracle    {pole} oracle set consensus {admin}\n\
         {links}{kill}\n\
         Data and logs are in {} {kept}. Ctrl-C stops all.\n\n",
        addresses.join(","),
        plan.dir().display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_folded_at_spaces() {
        assert_eq!(fold("one two three", 7), "one two\n    three");
        assert_eq!(fold("a-word-that-is-long b", 5), "a-word-that-is-long\n    b");
        assert_eq!(fold("", 5), "");
    }
}
