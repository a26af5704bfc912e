//! The copy on disk: what it has after a restart, and who may open it.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use pole_jute::{CreateSessionTxn, CreateTxn, OpCode, Record, Txn, TxnEntry, TxnHeader};
use pole_migrate::{CopyError, Effect, Replica, copy_history};
use pole_storage::{Config, OpenError, is_following, mark_following, open, unmark_following};
use pole_tree::{Changes, Rules, Tree};
use pole_types::{Cxid, Epoch, SessionId, Zxid};
use pole_zab::{Entry, Origin};

/// An empty directory, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn config(&self) -> Config {
        Config { preallocate_bytes: 4_096, ..Config::in_dir(&self.0) }
    }

    fn replica(&self) -> Replica {
        Replica::open(self.config()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}

fn entry(zxid: Zxid, op: OpCode, txn: Txn) -> Entry {
    let header = TxnHeader { client_id: 7, cxid: 1, zxid: zxid.0.cast_signed(), time: 1_000, op: op.number() };
    let body = TxnEntry { header, txn, digest: None }.encode();
    Entry { zxid, origin: Origin { session: SessionId(7), cxid: Cxid(1) }, body }
}

/// Creates `/nEPOCH-COUNTER`.
fn create(at: Zxid) -> Entry {
    let path = format!("/n{}-{}", at.epoch(), at.counter());
    let (data, acl) = (
        Some(Bytes::from_static(b"data")),
        vec![pole_jute::Acl {
            perms: pole_jute::Perms::ALL,
            id: pole_jute::Id { scheme: "world".into(), id: "anyone".into() },
        }],
    );
    let txn = CreateTxn { path, data, acl, ephemeral: false, parent_cversion: -1 };
    entry(at, OpCode::Create, Txn::Create(txn))
}

fn session(at: Zxid) -> Entry {
    entry(at, OpCode::CreateSession, Txn::CreateSession(CreateSessionTxn { timeout: 4_000 }))
}

fn adopt(epoch: u32) -> Effect {
    Effect::Adopt { epoch: Epoch(epoch), members: [].into() }
}

fn perform(replica: &mut Replica, effects: Vec<Effect>) {
    effects.into_iter().for_each(|effect| replica.perform(effect).unwrap());
    replica.flush().unwrap();
}

/// A state that already contains what comes after its zxid, as those of Apache do.
fn fuzzy(last: Zxid, more: Entry) -> Box<Tree> {
    let mut tree = Tree::new(Rules::default());
    for entry in [create(last), more] {
        tree.apply(&TxnEntry::decode(entry.body).unwrap(), false, &mut Changes::new());
    }
    Box::new(tree.with_last_zxid(last.0.cast_signed()))
}

#[test]
fn a_copy_has_everything_after_a_restart() {
    let scratch = Scratch::new("restart");
    let mut replica = scratch.replica();
    let effects = vec![
        Effect::Accept(Epoch(2)),
        Effect::Restore(zxid(2, 5), fuzzy(zxid(2, 5), create(zxid(2, 6)))),
        Effect::Reapply(create(zxid(2, 5))),
        Effect::Commit(create(zxid(2, 6))),
        adopt(2),
        Effect::Commit(session(zxid(2, 7))),
        Effect::Commit(create(zxid(2, 8))),
    ];
    perform(&mut replica, effects);
    let (digest, nodes) = (replica.tree().digest(), replica.tree().node_count());
    assert_eq!((replica.tree().session_count(), replica.close().unwrap()), (1, zxid(2, 8)));
    let mut names: Vec<_> = fs::read_dir(scratch.0.join("version-2"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["acceptedEpoch", "currentEpoch", "lock", "log.200000007", "snapshot.200000006"]);

    let replica = scratch.replica();
    assert_eq!((replica.last(), replica.epochs()), (zxid(2, 8), (Epoch(2), Epoch(2))));
    assert_eq!((replica.tree().digest(), replica.tree().node_count()), (digest, nodes));
}

#[test]
fn a_state_that_was_not_adopted_is_not_on_disk() {
    let scratch = Scratch::new("not-adopted");
    let mut replica = scratch.replica();
    perform(&mut replica, vec![Effect::Accept(Epoch(1)), adopt(1), Effect::Commit(create(zxid(1, 1)))]);
    perform(
        &mut replica,
        vec![Effect::Restore(zxid(3, 5), fuzzy(zxid(3, 5), create(zxid(3, 6)))), Effect::Commit(create(zxid(3, 6)))],
    );
    drop(replica);
    let mut replica = scratch.replica();
    assert_eq!(replica.last(), zxid(1, 1), "it goes on from what is durable");
    let restore = Effect::Restore(zxid(3, 5), fuzzy(zxid(3, 5), create(zxid(3, 6))));
    perform(&mut replica, vec![Effect::Accept(Epoch(3)), restore, Effect::Commit(create(zxid(3, 6))), adopt(3)]);
    drop(replica);
    let replica = scratch.replica();
    assert_eq!((replica.last(), replica.epochs()), (zxid(3, 6), (Epoch(3), Epoch(3))));
    assert!(replica.tree().stat("/n1-1").is_none(), "the state of the leader replaces what was there");
}

#[test]
fn a_truncation_takes_back_what_was_applied() {
    let scratch = Scratch::new("truncate");
    let mut replica = scratch.replica();
    perform(&mut replica, vec![Effect::Accept(Epoch(1)), adopt(1), Effect::Commit(create(zxid(1, 1)))]);
    let digest = replica.tree().digest();
    perform(&mut replica, vec![Effect::Commit(create(zxid(1, 2))), Effect::Commit(create(zxid(1, 3)))]);
    perform(&mut replica, vec![Effect::Truncate(zxid(1, 1)), Effect::Commit(create(zxid(1, 2)))]);
    assert_eq!(replica.last(), zxid(1, 2));
    perform(&mut replica, vec![Effect::Truncate(zxid(1, 1))]);
    assert_eq!((replica.last(), replica.tree().digest()), (zxid(1, 1), digest));
}

#[test]
fn a_truncation_to_what_the_copy_never_had_is_refused() {
    let scratch = Scratch::new("truncate-other");
    let mut replica = scratch.replica();
    let first = vec![
        Effect::Accept(Epoch(2)),
        adopt(2),
        Effect::Commit(create(zxid(1, 1))),
        Effect::Commit(create(zxid(2, 1))),
    ];
    perform(&mut replica, first);
    let error = replica.perform(Effect::Truncate(zxid(1, 7))).unwrap_err();
    assert!(error.to_string().contains("remove the copy"), "{error}");
}

#[test]
fn bytes_that_are_no_transaction_are_refused() {
    let scratch = Scratch::new("no-transaction");
    let mut damaged = create(zxid(1, 1));
    damaged.body = damaged.body.slice(..damaged.body.len() - 3);
    let error = scratch.replica().perform(Effect::Commit(damaged)).unwrap_err();
    assert!(error.to_string().contains("1.1 cannot be read"), "{error}");
}

#[test]
fn no_server_opens_a_directory_that_follows() {
    let scratch = Scratch::new("following");
    mark_following(&scratch.0).unwrap();
    drop(scratch.replica());
    let refused = open(scratch.config()).unwrap_err();
    assert!(matches!(refused, OpenError::Following { .. }), "{refused}");
    assert!(refused.to_string().contains("pole migrate take-over"), "{refused}");
    unmark_following(&scratch.0).unwrap();
    open(scratch.config()).unwrap();
}

#[test]
fn a_history_is_copied_whole_and_never_over_another() {
    let (from, to) = (Scratch::new("copy-from"), Scratch::new("copy-to"));
    let mut replica = from.replica();
    perform(&mut replica, vec![Effect::Accept(Epoch(1)), adopt(1), Effect::Commit(create(zxid(1, 1)))]);
    replica.close().unwrap();
    let copy = || copy_history((&from.0, &from.0), (&to.0, &to.0));
    // An interrupted copy is begun again.
    mark_following(&to.0).unwrap();
    fs::create_dir_all(to.0.join("version-2")).unwrap();
    fs::write(to.0.join("version-2/log.5"), "half of it").unwrap();
    assert!(copy().unwrap() > 0);
    assert!(!is_following(&to.0).unwrap());
    let (_, recovered, _) = open(to.config()).unwrap();
    assert_eq!(recovered.standing().last_zxid, zxid(1, 1));
    assert!(matches!(copy().unwrap_err(), CopyError::Occupied(_)));
}
