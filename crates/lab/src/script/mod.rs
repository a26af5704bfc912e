//! Scripts: scenarios as text, commands and what they print in one file, played in the simulator.
//!
//! In: a script of `crates/lab/scripts`. Out: the same script with what happened, byte for byte the same each time.
//! Why: a person can read one, change one, and see in a diff what a change of the code has changed in the ensemble.
//! Holds: no fault and no chance but what the script says: links of 0.1 ms, an fsync of 0.5 ms, no jitter. All
//! invariants and promises to clients are checked after every step; what breaks one fails the script.
//!
//! ```text
//! ensemble servers= oracle= scores= [topology=] [down=]   servers about to start; scores as the oracle shows them: a
//!          [retain=bytes] [snapshot=n] [piece=bytes]      rate, a weight or a probe is better if higher, all others if
//!          [counter=max] [outstanding=n] [resign=on]      lower; or unknown, block, nan, overflow, empty
//!          [window=pieces]                                of a transfer, sent ahead of their confirmation
//!          [tree=yes]                                     with the service's tree, for `guest` and `ask`
//!                                                         topology: a preset or a file
//! elect [within=ms]                    until all that run serve under one leader
//! start ID... [wait=no]                until they serve
//! crash ID... [at=POINT [passes=n]]    now, or the next time that it gets there (after n times); nothing unsynced is left
//! unplug ID                            a crash that nobody hears of
//! pause ID    resume ID    jump ID ms  the process, its clock
//! resign [to=ID] [wait=no]             the leader hands over
//! link A B up|down|oneway|reset|delay=ms   down: silent; oneway: only from A to B; reset: breaks, and opens again
//! hold A B [kind=NewLeader] [passes=n] keeps messages from A to B back, from the first of this kind on (after n of them)
//! release A B                          they arrive
//! disk ID ok|fail|hang|torn|kept|sync=ms   torn, kept: the next crash leaves half, or all, of what was not synced
//! wipe ID                              an empty disk for a server that is down
//! oracle ID [name=] [score=] [version=epoch]   another oracle, or another opinion, or a newer configuration
//! attach SESSION ID                    the session of this name connects to the server
//! write|create ID KEY VALUE    delete|read ID KEY    sync ID     by the session named like the server, or by
//!          [session=NAME] [wait=no]                              another; without waiting for the answer
//! guest NAME ID [timeout=ms]           a client of the service connects, with its session if it has one; it pings
//! ask NAME WHAT... [wait=no]           create PATH DATA [ephemeral] [sequential], set PATH DATA, delete PATH, acl PATH IP,
//!                                      get|exists|children PATH [watch], watch PATH [recursive], sync, close,
//!                                      multi CHANGE and CHANGE...
//! leave NAME                           it closes its connection; its session goes on until it comes back or is silent too long
//! tree ID                              how many nodes a server has, and its sessions
//! step N    run ms                     time goes on
//! state [ID...]    log ID    why ID    where servers stand; what a log holds; why the leader was elected
//! heal                                 all faults end, all start, and everything must be level within 25 s
//! check [ID...]                        all that run hold the same, or do within 1.5 s
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
pub use watch::{Error, Watched, watch};

/// Plays a script and compares what it prints with what the file says; with `UPDATE_GOLDENFILES=1` it writes the file.
///
/// # Errors
/// If the script cannot be read, or something is wrong: a command, or the ensemble.
///
/// # Panics
/// If the output differs.
pub fn run(path: &Path) -> std::io::Result<()> {
    goldenscript::run(&mut runner::ScriptRunner::default(), path)
}

/// Plays a script and returns it with what it printed.
///
/// # Errors
/// If something is wrong: a command, or the ensemble.
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
