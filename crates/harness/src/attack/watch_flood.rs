//! One client with 200,000 watches that does not read, and another that fires them all.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pole_client::request_frame;
use pole_jute::{Request, SetWatches, Xid};

use super::bulk::{create_node, delete, persistent, run_multis};
use super::{Attack, EnsembleAttack, Findings, Target};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "watch-flood",
    "one client with 200,000 watches that reads nothing, all fired by another",
    EnsembleAttack { memory_mb_max: 512, ..EnsembleAttack::new(prepare, run) },
);

fn prepare(target: &Target) -> io::Result<()> {
    create_node(&mut target.session(target.leader)?, PARENT, &Bytes::new())
}

fn run(target: &Target) -> io::Result<Findings> {
    let mut watcher = target.session(target.follower())?;
    let start = Instant::now();
    let mut set = 0;
    while set < WATCHES {
        let paths = (set..set + WATCHES_PER_REQUEST).map(path).collect();
        let watches =
            SetWatches { relative_zxid: 0, data_watches: Vec::new(), exist_watches: paths, child_watches: Vec::new() };
        watcher.send(&request_frame(Xid::SET_WATCHES, &Request::SetWatches(watches)))?;
        watcher.frame()?;
        set += WATCHES_PER_REQUEST;
    }
    // From now on the watcher reads nothing.
    let mut writer = target.session(target.leader)?;
    let mut fired = 0;
    while fired < WATCHES && start.elapsed() < FIRE_LIMIT {
        run_multis(&mut writer, (fired..fired + BATCH).map(|number| persistent(path(number))))?;
        fired += BATCH;
    }
    let took = start.elapsed();
    run_multis(&mut writer, (0..fired).map(|number| delete(path(number))))?;
    Ok(Findings::note(format!("{set} watches, {fired} fired in {:.1} s", took.as_secs_f64())))
}

fn path(number: usize) -> String {
    format!("{PARENT}/{number}")
}

const PARENT: &str = "/watched";
const WATCHES: usize = 200_000;
const WATCHES_PER_REQUEST: usize = 20_000;
const BATCH: usize = 4000;
const FIRE_LIMIT: Duration = Duration::from_secs(25);
