//! What the real Apache server sends, replayed: the observer understands all of it, in pieces of any size.

use std::fs;
use std::path::Path;

use pole_migrate::{Effect, Learner, Limits, Start};
use pole_types::{Epoch, ServerId, Zxid};

fn replay(name: &str, start: Start, piece: usize) -> Vec<Effect> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let (mut learner, _) = Learner::new(start, Limits::default());
    fs::read(path).unwrap().chunks(piece).flat_map(|piece| learner.receive(piece).unwrap()).collect()
}

fn committed(effects: &[Effect]) -> Vec<Zxid> {
    let zxid = |effect: &Effect| if let Effect::Commit(entry) = effect { Some(entry.zxid) } else { None };
    effects.iter().filter_map(zxid).collect()
}

fn range(first: u64, last: u64) -> Vec<Zxid> {
    (first..=last).map(|counter| Zxid(0x1_0000_0000 + counter)).collect()
}

const PIECES: [usize; 4] = [1, 13, 1_000, 1 << 20];

#[test]
fn a_state_and_what_follows_it() {
    let start = Start { id: ServerId(99), accepted: Epoch(0), current: Epoch(0), last: Zxid::ZERO };
    for piece in PIECES {
        let effects = replay("snap", start, piece);
        let restored = effects
            .iter()
            .find_map(|effect| if let Effect::Restore(zxid, tree) = effect { Some((*zxid, tree)) } else { None });
        let (zxid, tree) = restored.expect("a state");
        assert_eq!(zxid, Zxid(0x1_0000_0015));
        assert!(
            ["/a", "/secret", "/c", "/q-0000000002", "/zookeeper/quota/a"].iter().all(|path| tree.stat(path).is_some())
        );
        assert_eq!(tree.acl_schemes()["digest"], 1);
        assert_eq!(committed(&effects), range(0x16, 0x1a));
        let members = effects.iter().find_map(|effect| {
            if let Effect::Adopt { epoch, members } = effect {
                Some((epoch.0, members.iter().map(|id| id.0).collect::<Vec<_>>()))
            } else {
                None
            }
        });
        assert_eq!(members, Some((1, vec![1, 2, 3])));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::UpToDate)));
        let proposed = effects
            .iter()
            .rev()
            .find_map(|effect| if let Effect::Proposed(zxid) = effect { Some(*zxid) } else { None });
        assert_eq!(proposed, Some(Zxid(0x1_0000_001a)), "the last ping names the last proposal");
    }
}

#[test]
fn the_transactions_that_an_observer_lacks() {
    let start = Start { id: ServerId(99), accepted: Epoch(1), current: Epoch(1), last: Zxid(0x1_0000_0005) };
    for piece in PIECES {
        let effects = replay("diff", start, piece);
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Restore(..) | Effect::Truncate(_))));
        assert_eq!(committed(&effects), range(0x6, 0x1f));
    }
}
