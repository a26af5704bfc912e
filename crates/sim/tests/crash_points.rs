//! Every crash point, in every kind of synchronisation, in both roles: after the crash the ensemble recovers and
//! nothing is lost.
//!
//! Each row of a table becomes a script that brings one server into the state that needs the plan, arms the crash,
//! starts the synchronisation, ends all faults and waits for all servers to be level, while the checker of the
//! simulator checks every step. The test also checks that each plan is really used and that all its crash points are
//! hit.

use std::collections::BTreeSet;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use pole_sim::script::play;

fn main() -> ExitCode {
    let cases =
        PLANS.into_iter().flat_map(|plan| [Case { plan, role: Role::Follower }, Case { plan, role: Role::Leader }]);
    let trials = cases.map(|case| Trial::test(case.name(), move || case.run().map_err(Failed::from)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
struct Case {
    plan: Plan,
    role: Role,
}

/// How the server is synchronised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Difference,
    Truncate,
    TruncateAndDifference,
    Snapshot,
}

/// The role in which it crashes: synchronised by a leader, or pulling as a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Follower,
    Leader,
}

impl Case {
    fn name(self) -> String {
        let role = match self.role {
            Role::Follower => "a_follower",
            Role::Leader => "a_leader",
        };
        format!("{role}_dies_at_every_point_of_a_{}", self.plan.name())
    }

    /// Crashes at each point, the first, second and third time that it is reached, with each state of the disk
    /// afterwards.
    fn run(self) -> Result<(), String> {
        let mut reached = BTreeSet::new();
        for (point, passes) in POINTS.into_iter().flat_map(|point| (0..PASSES).map(move |passes| (point, passes))) {
            for left in LEFT {
                let script = self.script(point, passes, left);
                let output = play(&script).map_err(|why| format!("{why}\n{script}"))?;
                if output.contains(&format!("1 crashes {point}")) {
                    reached.insert((point, passes));
                } else if !self.plan.shows(&output) {
                    return Err(format!("this is no {:?}:\n{output}", self.plan));
                }
            }
        }
        let missed: Vec<_> = self.points().into_iter().filter(|point| !reached.contains(point)).collect();
        if missed.is_empty() { Ok(()) } else { Err(format!("points that were not reached: {missed:?}")) }
    }

    /// Server 1 is down, perhaps with log entries that no other server has, while 2 and 3 continue. Then 1 returns,
    /// either to an established leader or to an election that it wins.
    fn script(self, point: &str, passes: u32, left: &str) -> String {
        let Self { plan, role } = self;
        let scores = match role {
            Role::Follower => "1,3,2",
            Role::Leader => "3,2,1",
        };
        let mut text = format!("ensemble servers=3 oracle=preference scores=\"{scores}\" {}\nelect\n", plan.limits());
        if role == Role::Follower {
            text += "resign to=1\n";
        }
        text += "write 1 a 1\n";
        text += plan.tail();
        text += "crash 1\nelect\n";
        text += plan.writes();
        text += "link 1 2 up\nlink 1 3 up\n";
        text += match role {
            Role::Follower => "",
            Role::Leader => "crash 2 3\n",
        };
        text += &format!("disk 1 {left}\ncrash 1 at={point} passes={passes}\n");
        text += match role {
            Role::Follower => "start 1 wait=no\n",
            Role::Leader => "start 1 2 wait=no\n",
        };
        text + "run 600\nheal\ncheck\n---\n"
    }

    /// The points that it must pass: the promise and the take-over, their acknowledgements if it follows, and the
    /// writes of its plan.
    fn points(self) -> Vec<(&'static str, u32)> {
        let mut points = vec![("before-epoch", 0), ("after-epoch", 0), ("before-epoch", 1), ("after-epoch", 1)];
        if self.role == Role::Follower {
            points.extend([("before-ack", 0), ("after-ack", 0), ("before-ack", 1), ("after-ack", 1)]);
        }
        match self.plan {
            Plan::Difference | Plan::TruncateAndDifference => {
                points.extend([("before-append", 0), ("after-append", 0), ("after-fsync", 0)]);
            }
            Plan::Truncate => {}
            Plan::Snapshot => points.extend([("before-rename", 0), ("after-rename", 0)]),
        }
        points
    }
}

impl Plan {
    fn name(self) -> &'static str {
        match self {
            Self::Difference => "difference",
            Self::Truncate => "truncation",
            Self::TruncateAndDifference => "truncation_and_difference",
            Self::Snapshot => "snapshot",
        }
    }

    /// For a snapshot, limits that keep the logs short in memory and on disk.
    fn limits(self) -> &'static str {
        match self {
            Self::Snapshot => "retain=100 snapshot=3",
            Self::Difference | Self::Truncate | Self::TruncateAndDifference => "",
        }
    }

    /// Commands by which only server 1 logs entries.
    fn tail(self) -> &'static str {
        match self {
            Self::Truncate | Self::TruncateAndDifference => {
                "link 1 2 down\nlink 1 3 down\nwrite 1 x 1 wait=no\nwrite 1 y 2 wait=no\nrun 5\n"
            }
            Self::Difference | Self::Snapshot => "",
        }
    }

    /// The writes of the others while it is down.
    fn writes(self) -> &'static str {
        match self {
            Self::Truncate => "",
            Self::Difference | Self::TruncateAndDifference | Self::Snapshot => {
                "write 2 b 2\nwrite 2 c 3\nwrite 2 d 4\nrun 5\n"
            }
        }
    }

    /// Whether server 1 was synchronised by this plan.
    fn shows(self, output: &str) -> bool {
        let cut = output.contains("cuts the log of 1 ");
        let snapshot = output.contains("sends 1 a snapshot");
        let sent =
            |line: &str| line.split_once(" sends 1 ").is_some_and(|(_, what)| what.starts_with(char::is_numeric));
        match self {
            Self::Difference => !cut && output.lines().any(sent),
            Self::Truncate => cut && !output.lines().any(sent),
            Self::TruncateAndDifference => cut && output.lines().any(sent),
            Self::Snapshot => snapshot,
        }
    }
}

const PLANS: [Plan; 4] = [Plan::Difference, Plan::Truncate, Plan::TruncateAndDifference, Plan::Snapshot];

/// `before-fsync` is the same point as `after-append`.
const POINTS: [&str; 9] = [
    "before-append",
    "after-append",
    "after-fsync",
    "before-epoch",
    "after-epoch",
    "before-rename",
    "after-rename",
    "before-ack",
    "after-ack",
];

/// How much of a write in progress survives a crash: nothing, half, all.
const LEFT: [&str; 3] = ["ok", "torn", "kept"];

/// The first epoch write is the promise, the second the take-over; a third one is outside every synchronisation.
const PASSES: u32 = 3;
