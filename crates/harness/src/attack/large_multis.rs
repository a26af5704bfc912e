//! Multis of thousands of operations, sent by 20 clients without a pause.
//!
//! The leader needs tens of milliseconds for one of a megabyte. Other clients must not wait for all that are queued, and no
//! server may be so busy with them that it misses a heartbeat.

use std::io::{self, Write as _};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use pole_jute::{ErrorCode, MultiOp, MultiRequest, Request, SetDataRequest};

use super::bulk::create_node;
use super::{Attack, EnsembleAttack, Findings, Target};

pub(super) const LARGE: Attack = Attack::on_ensemble(
    "large-multis",
    "20 clients send multis of 1 MB, one after another",
    EnsembleAttack::new(prepare, |target| run(target, 1_000_000)),
);

pub(super) const MEDIUM: Attack = Attack::on_ensemble(
    "medium-multis",
    "20 clients send multis of 60 KB, one after another",
    EnsembleAttack::new(prepare, |target| run(target, 60_000)),
);

fn prepare(target: &Target) -> io::Result<()> {
    create_node(&mut target.session(target.leader)?, NODE, &Bytes::new())
}

fn run(target: &Target, bytes: usize) -> io::Result<Findings> {
    let (answered, refused, ends) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = target.session(number % target.ports.len())?;
        client.set_timeout(REPLY_LIMIT)?;
        clients.push(client);
    }
    thread::scope(|scope| {
        let mut sockets = Vec::new();
        for mut client in clients {
            let request = client.encode_next(&multi(bytes));
            let (mut writer, socket) = (client.stream().try_clone()?, client.stream().try_clone()?);
            let (answered, refused, ends) = (&answered, &refused, &ends);
            // The replies repeat the number of the one request, which nobody matches.
            scope.spawn(move || {
                while let Ok(code) = client.answer() {
                    let count = if code == ErrorCode::Ok { answered } else { refused };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            scope.spawn(move || while !ends.load(Ordering::Relaxed) && writer.write_all(&request).is_ok() {});
            sockets.push(socket);
        }
        thread::sleep(LASTS);
        ends.store(true, Ordering::Relaxed);
        sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
        Ok::<_, io::Error>(())
    })?;
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    let note = format!("{answered} answered, {refused} refused in {} s", LASTS.as_secs());
    Ok(Findings::note(note).require(answered > 0 && refused == 0, || "they were not carried out".to_owned()))
}

/// A multi of about this size, which sets a node again and again.
fn multi(bytes: usize) -> Request {
    let set = SetDataRequest { path: NODE.to_owned(), data: Some(Bytes::from_static(b"x")), version: -1 };
    Request::Multi(MultiRequest { ops: vec![MultiOp::SetData(set); bytes / OP_BYTES] })
}

const NODE: &str = "/set";

/// The size of an operation in a request.
const OP_BYTES: usize = 9 + 4 + NODE.len() + 5 + 4;

const CLIENTS: usize = 20;
const LASTS: Duration = Duration::from_secs(6);

/// Longer than the attack.
const REPLY_LIMIT: Duration = Duration::from_secs(30);
