//! Scripts: scenarios as text files with commands and their expected output, run in the simulator.
//!
//! Running a script of `crates/sim/scripts` prints the same bytes each time. A person can read or change a script, and
//! sees in a diff how a code change affects the ensemble.
//!
//! Nothing is random: links have a delay of 0.1 ms without jitter, an fsync takes 0.5 ms, and only the faults of the
//! script happen. All invariants and client guarantees are checked after every step; a violation fails the script.
//!
//! ```text
//! ensemble servers= oracle= scores= [topology=] [down=]   servers about to start; scores as the oracle shows them: a
//!          [retain=bytes] [snapshot=n] [piece=bytes]      rate, a weight or a probe is better if higher, all others if
//!          [counter=max] [outstanding=n] [resign=on]      lower; or unknown, block, nan, overflow, empty
//!          [window=pieces]                                pieces of a transfer sent ahead of their confirmation
//!          [direct=on]                                    followers count acknowledgements themselves where that saves time
//!          [tree=yes]                                     with the tree of the service, for `connect` and `ask`
//!                                                         topology: a preset or a file
//! elect [within=ms]                    until all running servers serve under one leader
//! start ID... [wait=no]                until they serve
//! crash ID... [at=POINT [passes=n]]    now, or the next time it reaches the point (after n passes); unsynced data is lost
//! unplug ID                            a crash of which the peers are not notified
//! pause ID    resume ID    jump ID ms  the process, its clock
//! resign [to=ID] [wait=no]             the leader hands over
//! link A B up|down|oneway|reset|delay=ms   down: silently; oneway: only from A to B; reset: breaks and is redialled
//! hold A B [kind=NewLeader] [passes=n] holds back messages from A to B, from the first of this kind on (after n of them)
//! release A B                          held messages arrive
//! disk ID ok|fail|hang|torn|kept|sync=ms   torn, kept: the next crash keeps half, or all, of what was not synced
//! wipe ID                              an empty disk for a server that is down
//! oracle ID [name=] [score=] [version=epoch]   another oracle, another score, or a newer configuration
//! attach SESSION ID                    the session of this name connects to the server
//! write|create ID KEY VALUE    delete|read ID KEY    sync ID     by the session named like the server, or by
//!          [session=NAME] [wait=no]                              another; without waiting for the answer
//! connect NAME ID [timeout=ms]           a ZooKeeper client connects, with its session if it has one; it sends pings
//! ask NAME WHAT... [wait=no]           create PATH DATA [ephemeral] [sequential], set PATH DATA, delete PATH, acl PATH IP,
//!                                      get|exists|children PATH [watch], watch PATH [recursive], sync, close,
//!                                      multi CHANGE and CHANGE...
//! leave NAME                           it closes its connection; its session lasts until it reconnects or expires
//! tree ID                              the number of nodes of a server, and its sessions
//! step N    run ms                     runs for N events, or for a time
//! state [ID...]    log ID    why ID    the state of servers; the content of a log; why the leader was elected
//! heal                                 all faults end, all servers start, and all must be level within 25 s
//! check [ID...]                        all running servers hold the same, or do within 1.5 s
//! POINT: {before|after}-{append|fsync|epoch|rename|ack}
//! ```

mod builtin;
mod command;
mod names;
mod runner;
mod sim_clients;
mod state;
mod transcript;
mod watch;

use std::path::Path;

pub use builtin::{BUILT_IN, Find, find};
pub(crate) use transcript::ranges;
pub use watch::{Error, WatchedScript, watch};

/// Runs a script and compares its output with the file; with `UPDATE_GOLDENFILES=1` it rewrites the file.
///
/// # Errors
/// If the script cannot be read, a command is invalid, or an invariant is violated.
///
/// # Panics
/// If the output differs.
pub fn run(path: &Path) -> std::io::Result<()> {
    goldenscript::run(&mut runner::ScriptRunner::default(), path)
}

/// Runs a script and returns it with its output.
///
/// # Errors
/// If a command is invalid or an invariant is violated.
pub fn play(script: &str) -> std::io::Result<String> {
    goldenscript::generate(&mut runner::ScriptRunner::default(), script)
}

#[cfg(test)]
mod tests {
    use super::play;

    #[test]
    fn a_script_tells_what_happened_and_the_same_each_time() {
        let script = "ensemble oracle=request scores=\"10,20,30\" down=3\nelect\n---\n";
        let played = play(script).expect("a script");
        assert!(played.ends_with("2 leads, epoch 1, quorum (1 2), by score\n1 follows 2\n"), "{played}");
        assert_eq!(play(&played).expect("the same script"), played);
    }

    #[test]
    fn a_wrong_command_says_what_is_wrong() {
        for (script, why) in [
            ("elect\n---\n", "begin with `ensemble`"),
            ("ensemble\ncrash 7\n---\n", "there is no server 7"),
            ("ensemble\ncrash 1 at=nowhere\n---\n", "nowhere"),
            ("ensemble scores=\"1,x,3\"\n---\n", "`x` is no score"),
            ("ensemble servers=2 scores=\"1\"\n---\n", "1 scores for 2 servers"),
        ] {
            let error = play(script).expect_err("a wrong command").to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
