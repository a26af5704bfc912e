//! 50,000 containers that lose their last child at the same time.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pole_jute::{CreateMode, DeleteRequest, ErrorCode, MultiOp, Request};

use super::bulk::{create, create_node, delete, persistent, run_multis};
use super::{Attack, EnsembleAttack, Findings, Target};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "containers",
    "50,000 empty containers deleted at once",
    EnsembleAttack {
        // Allows all to be deleted by one check.
        config: &["znode.container.checkIntervalMs=5000", "znode.container.maxPerMinute=10000000"],
        ..EnsembleAttack::new(prepare, run)
    },
);

fn prepare(target: &Target) -> io::Result<()> {
    let mut raw = target.session(target.leader)?;
    create_node(&mut raw, PARENT, &Bytes::new())?;
    let pair = |number| {
        let container = create(path(number), &Bytes::new(), CreateMode::Container);
        [MultiOp::CreateContainer(container), persistent(format!("{}/child", path(number)))]
    };
    run_multis(&mut raw, (0..CONTAINERS).flat_map(pair))
}

fn run(target: &Target) -> io::Result<Findings> {
    let mut raw = target.session(target.leader)?;
    let start = Instant::now();
    run_multis(&mut raw, (0..CONTAINERS).map(|number| delete(format!("{}/child", path(number)))))?;
    let emptied = start.elapsed();
    let gone = target.wait_until(LIMIT, |_| {
        let request = Request::Delete(DeleteRequest { path: PARENT.to_owned(), version: -1 });
        matches!(raw.ask(&request), Ok(ErrorCode::Ok | ErrorCode::NoNode))
    });
    let note = format!(
        "{CONTAINERS} emptied in {:.1} s, gone after {:.1} s",
        emptied.as_secs_f64(),
        start.elapsed().as_secs_f64()
    );
    Ok(Findings::note(note).require(gone, || format!("containers are still there {LIMIT:?} after their last child")))
}

fn path(number: usize) -> String {
    format!("{PARENT}/{number}")
}

const PARENT: &str = "/containers";
const CONTAINERS: usize = 50_000;
const LIMIT: Duration = Duration::from_secs(30);
