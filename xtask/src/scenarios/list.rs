//! The known problems, each with a number that never changes, one sentence, and the tickets that report it.

#[derive(Debug)]
pub(super) struct Scenario {
    /// The number by which scripts refer to it.
    pub(super) number: u32,
    /// The heading in the page.
    pub(super) part: &'static str,
    /// What goes wrong, in a sentence.
    pub(super) title: &'static str,
    /// The tickets that report it.
    pub(super) tickets: &'static [&'static str],
    /// Tests outside the simulator that cover the rest of it; empty if there is no rest.
    pub(super) elsewhere: &'static str,
}

/// A scenario that is covered by scripts alone.
const fn by_scripts(
    number: u32,
    part: &'static str,
    title: &'static str,
    tickets: &'static [&'static str],
) -> Scenario {
    Scenario { number, part, title, tickets, elsewhere: "" }
}

const RECOVERY: &str = "Recovery and synchronisation";
const MACHINE: &str = "State machine and snapshots under load";
const ELECTION: &str = "Election";
const SCORES: &str = "Scores";
const BORROWED: &str = "Met by others";
const REVIEW: &str = "Found in review";

/// All scenarios, sorted by number.
#[rustfmt::skip]
pub(super) const SCENARIOS: &[Scenario] = &[
    by_scripts(1, RECOVERY, "A follower acknowledges the new leader before its difference is durable, then a quorum crashes", &["ZK-3911", "ZK-4646"]),
    by_scripts(2, RECOVERY, "The current epoch is durable before the transactions, so a server looks newer than it is", &["ZK-4643"]),
    by_scripts(3, RECOVERY, "Proposals and commits arrive between the difference and NewLeader", &["ZK-4394"]),
    by_scripts(4, RECOVERY, "A follower bounces in the middle of a difference", &["ZK-4785"]),
    by_scripts(5, RECOVERY, "A hole in the log in memory after synchronisation spreads once that follower leads", &["ZK-4925"]),
    by_scripts(6, RECOVERY, "A passing disk error leaves a commit in memory that is not on disk", &["ZK-4882"]),
    by_scripts(7, RECOVERY, "A truncation is interrupted before NewLeader; memory is ahead of disk and the next synchronisation skips", &["ZK-5094"]),
    by_scripts(8, RECOVERY, "A difference on top of half a snapshot; an interrupted snapshot that looks whole", &["ZK-3642", "ZK-2872"]),
    by_scripts(9, RECOVERY, "Uncommitted transactions stay in the tree across elections and reach a snapshot", &["ZK-2845", "ZK-1549"]),
    by_scripts(10, RECOVERY, "NewLeader is queued before the snapshot is whole; a difference skips entries at the border of two log files", &["ZK-3104", "ZK-2418"]),
    by_scripts(11, RECOVERY, "The longest log is absent and returns: truncated too little, too much, or damaged by the next append", &["ZK-1154", "ZK-1156", "ZK-1489"]),
    by_scripts(12, RECOVERY, "Transactions between the end of a snapshot and UpToDate are dropped", &["ZK-962", "ZK-1551"]),
    by_scripts(13, RECOVERY, "The two epochs are written in the wrong order, or only one of them", &["ZK-1282", "ZK-1291", "ZK-1343", "ZK-2307", "ZK-1387", "ZK-4269"]),
    by_scripts(14, RECOVERY, "A wiped server votes as if it had history; only invalid snapshots are kept", &["ZK-261", "ZK-2325", "ZK-3644", "ZK-3231"]),
    by_scripts(15, RECOVERY, "A snapshot newer than the point of truncation brings dead entries back", &["ZK-4837"]),
    by_scripts(16, RECOVERY, "Where Zab's text is ambiguous: who receives proposals, duplicates, what the establishing commit carries", &[]),
    by_scripts(17, MACHINE, "A snapshot taken while writes go on: half a multi, lost ACL references, ephemerals of dead sessions, counter overflow",
        &["ZK-3144", "ZK-3145", "ZK-3249", "ZK-3125", "ZK-3127", "ZK-1090", "ZK-3306", "ZK-2355", "ZK-1367", "ZK-1208", "ZK-1496", "ZK-1277"]),
    by_scripts(18, ELECTION, "A voter changes its mind after it was counted; elections that never settle; a joiner that ignores the round or cannot match votes",
        &["ZK-3109", "ZK-1419", "ZK-1514", "ZK-1732", "ZK-1817", "ZK-1818", "ZK-3537"]),
    Scenario {
        number: 19,
        part: ELECTION,
        title: "Strange bytes on the election port; a peer that cannot be reached delays all; addresses change; rolling restart",
        tickets: &["ZK-3769", "ZK-2186", "ZK-4787", "ZK-3756", "ZK-3320", "ZK-4708", "ZK-3829"],
        elsewhere: "bytes, peers out of reach and addresses: the tests `strangers`, `links` and `codec` of `crates/server/src/peer`",
    },
    by_scripts(20, ELECTION, "Messages during the final wait are lost, or chatter makes the final wait longer and longer", &[]),
    by_scripts(21, SCORES, "The server with the best score can vote but cannot lead", &[]),
    by_scripts(22, SCORES, "A follower is ahead of the leader that the scores prefer", &[]),
    by_scripts(23, SCORES, "A server that must never lead is the only one with the latest log", &[]),
    by_scripts(24, SCORES, "An isolated server with nothing measured looks like the best", &[]),
    by_scripts(25, SCORES, "Scores that jitter around the border of a class", &[]),
    by_scripts(26, SCORES, "Equal scores, different views of who is alive", &[]),
    by_scripts(27, SCORES, "Scores that are no number, overflow or are negative", &[]),
    by_scripts(28, SCORES, "An oracle that never answers", &[]),
    by_scripts(29, SCORES, "A proposal of an older round is counted in this one", &[]),
    by_scripts(30, SCORES, "A restarted server proposes another score in the same round", &[]),
    by_scripts(31, SCORES, "Two versions of the oracle configuration during a rolling change", &[]),
    by_scripts(32, SCORES, "The target dies during a hand-over; the old leader returns with an uncommitted tail; all scores fall and everyone resigns", &[]),
    by_scripts(33, BORROWED, "A bridge server alone still hears the old leader", &["openraft#2080"]),
    by_scripts(34, BORROWED, "The disk hangs while the network is fine", &["etcd#13527"]),
    by_scripts(35, BORROWED, "A process pauses for 30 s, then writes as if nothing had been", &["etcd#20418"]),
    by_scripts(36, BORROWED, "A session is being created while the leader changes", &["ClickHouse#114401"]),
    by_scripts(37, BORROWED, "A session is resumed on another server with its ephemerals intact", &[]),
    by_scripts(38, REVIEW, "The write of an old epoch's entry ends after the promise of a new epoch was acknowledged", &[]),
    by_scripts(39, REVIEW, "A follower links anew to the same leader while a request is unread on the old link", &[]),
    by_scripts(40, REVIEW, "A failing create and a delete are under way together when the leader dies", &[]),
    by_scripts(41, REVIEW, "A session moves; the server it left was cut off and returns after a leader change with its old request", &[]),
    by_scripts(42, REVIEW, "A server with watches and held requests is synchronised by snapshot; a crash at each step of the installation, an old log tail above it", &[]),
    by_scripts(43, REVIEW, "Two candidates pick the same epoch; a leader crashes before its own promise is durable", &[]),
    by_scripts(44, REVIEW, "A server that promised a higher epoch to a failed candidate comes back to the leader", &[]),
    by_scripts(45, REVIEW, "Three voters with different fingerprints; a best candidate that only some see failing", &[]),
    by_scripts(46, REVIEW, "A lock holder on a minority server; a leader paused beyond all session timeouts", &[]),
    by_scripts(47, REVIEW, "A hand-over reaches half of the servers, and the target dies after one of them took the new epoch over", &[]),
];
