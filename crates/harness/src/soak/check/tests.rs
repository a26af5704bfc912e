//! Tests with a correct history, and with one violation of each guarantee.

use super::super::history::{Ephemeral, Shown};
use super::*;

/// A write of `value` to key 0 that is answered one unit after the request.
fn write(session: usize, asked: At, value: Value, version: i32, zxid: i64) -> Op {
    let state = State { value, version, zxid };
    Op { session, asked, kind: Kind::Write { key: 0, value }, outcome: Outcome::State { answered: asked + 1, state } }
}

fn unknown(session: usize, asked: At, value: Value) -> Op {
    Op { session, asked, kind: Kind::Write { key: 0, value }, outcome: Outcome::Unknown }
}

fn read(session: usize, asked: At, synced: bool, value: Value, version: i32, zxid: i64) -> Op {
    let state = State { value, version, zxid };
    Op { session, asked, kind: Kind::Read { key: 0, synced }, outcome: Outcome::State { answered: asked + 1, state } }
}

fn append(session: usize, asked: At, value: Value, path: &str, zxid: i64) -> Op {
    let outcome = Outcome::Appended { answered: asked + 1, zxid, path: path.into() };
    Op { session, asked, kind: Kind::Append { value }, outcome }
}

fn check(ops: Vec<Op>) -> Vec<Violation> {
    violations(&History { ops, ..History::default() })
}

#[test]
fn a_correct_history_has_no_violations() {
    let ops = vec![
        write(1, 0, 11, 1, 101),
        read(2, 2, false, 0, 0, 100), // An old value, which a read without a sync may see.
        unknown(2, 3, 12),
        write(1, 5, 13, 3, 103),
        read(3, 7, true, 13, 3, 103),
        unknown(2, 8, 14),
        append(1, 9, 15, "/q/0", 104),
    ];
    let shown = Shown {
        server: 1,
        appended: [("/q/0".to_owned(), 15)].into(),
        ephemerals: [("/e/1".to_owned(), 50)].into(),
        tree: [].into(),
    };
    let ephemerals = vec![
        Ephemeral { path: "/e/1".into(), created: Some(50), lives: true },
        Ephemeral { path: "/e/2".into(), created: Some(51), lives: false },
        Ephemeral { path: "/e/3".into(), created: None, lives: true },
    ];
    let history = History { ops, ephemerals, shown: vec![shown], ..History::default() };
    assert_eq!(violations(&history), []);
}

#[test]
fn an_acknowledged_write_that_a_synced_read_misses_is_lost() {
    let found = check(vec![write(1, 0, 11, 1, 101), read(2, 5, true, 0, 0, 100)]);
    assert_eq!(found, [Violation::Lost { key: 0, acknowledged: 1, seen: 0 }]);
}

#[test]
fn a_write_that_is_overwritten_at_its_own_version_is_a_split() {
    let found = check(vec![write(1, 0, 11, 1, 101), write(2, 0, 12, 1, 102)]);
    assert!(matches!(found[..], [Violation::Split { version: 1, .. }]), "{found:?}");
}

#[test]
fn a_value_at_two_versions_took_effect_twice() {
    let found = check(vec![write(1, 0, 11, 1, 101), unknown(2, 0, 12), read(2, 5, false, 11, 2, 102)]);
    assert!(found.contains(&Violation::Twice { key: 0, value: 11, first: 1, second: 2 }), "{found:?}");
}

#[test]
fn a_version_that_no_write_explains_is_one_too_many() {
    let found = check(vec![write(1, 0, 11, 1, 101), write(1, 2, 12, 3, 103)]);
    assert_eq!(found, [Violation::TooMany { key: 0, version: 3, changes: 1, writes: 0 }]);
}

#[test]
fn a_write_asked_for_later_explains_nothing() {
    let found = check(vec![write(1, 0, 11, 2, 102), unknown(2, 9, 12)]);
    assert_eq!(found, [Violation::TooMany { key: 0, version: 2, changes: 1, writes: 0 }]);
}

#[test]
fn a_value_that_nobody_wrote_is_a_phantom() {
    let found = check(vec![unknown(1, 0, 11), read(2, 5, false, 77, 1, 101)]);
    assert_eq!(found, [Violation::Phantom { key: 0, value: 77 }]);
}

#[test]
fn a_refused_write_is_reported_and_must_not_be_seen() {
    let kind = Kind::Write { key: 0, value: 11 };
    let refused = Op { session: 1, asked: 0, kind, outcome: Outcome::Refused("NoAuth".into()) };
    let found = check(vec![refused, unknown(3, 0, 12), read(2, 5, false, 11, 1, 101)]);
    assert!(found.contains(&Violation::Phantom { key: 0, value: 11 }), "{found:?}");
    assert!(matches!(found[0], Violation::Refused { session: 1, .. }), "{found:?}");
}

#[test]
fn reordered_requests_of_a_session_are_found() {
    let mut early = write(1, 0, 11, 2, 102);
    early.outcome = Outcome::State { answered: 9, state: State { value: 11, version: 2, zxid: 102 } };
    let late = Op { asked: 1, ..write(1, 1, 12, 1, 101) };
    let found = check(vec![early, late]);
    assert!(found.contains(&Violation::SessionOrder { session: 1, earlier: 102, later: 101 }), "{found:?}");
}

#[test]
fn a_write_without_an_answer_keeps_its_place_in_the_session_too() {
    let found = check(vec![unknown(1, 0, 11), write(1, 2, 12, 1, 101), read(2, 9, false, 11, 2, 102)]);
    assert!(found.contains(&Violation::SessionOrder { session: 1, earlier: 102, later: 101 }), "{found:?}");
}

#[test]
fn a_write_before_one_that_was_acknowledged_earlier_is_found() {
    let found = check(vec![write(1, 0, 11, 2, 102), write(2, 5, 12, 1, 101)]);
    assert!(found.contains(&Violation::RealTime { earlier: 102, later: 101 }), "{found:?}");
}

#[test]
fn a_session_that_sees_a_key_go_back_is_found() {
    let found = check(vec![write(1, 0, 11, 1, 101), read(2, 2, false, 11, 1, 101), read(2, 4, false, 0, 0, 100)]);
    assert_eq!(found, [Violation::WentBack { session: 2, key: 0, before: 1, after: 0 }]);
}

#[test]
fn queues_show_lost_doubled_and_strange_nodes() {
    let history = History {
        ops: vec![append(1, 0, 11, "/q/0", 101), append(1, 2, 12, "/q/1", 102)],
        shown: vec![Shown {
            server: 2,
            appended: [("/q/0", 11), ("/q/2", 11), ("/q/3", 99)].map(|(path, value)| (path.to_owned(), value)).into(),
            ephemerals: BTreeMap::new(),
            tree: [].into(),
        }],
        ..History::default()
    };
    let found = violations(&history);
    assert!(found.contains(&Violation::AppendLost { server: 2, path: "/q/1".into() }), "{found:?}");
    let strange = |path: &str, value, why| Violation::AppendStrange { server: 2, path: path.into(), value, why };
    assert!(found.contains(&strange("/q/2", 11, "the request made another node too")), "{found:?}");
    assert!(found.contains(&strange("/q/3", 99, "nobody asked for it")), "{found:?}");
    assert_eq!(found.len(), 3);
}

#[test]
fn ephemerals_of_live_sessions_stay_and_those_of_ended_sessions_go() {
    let history = History {
        ephemerals: vec![
            Ephemeral { path: "/e/gone".into(), created: Some(50), lives: true },
            Ephemeral { path: "/e/made-again".into(), created: Some(51), lives: true },
            Ephemeral { path: "/e/left".into(), created: Some(52), lives: false },
        ],
        shown: vec![Shown {
            server: 3,
            ephemerals: [("/e/made-again".to_owned(), 60), ("/e/left".to_owned(), 52)].into(),
            ..Shown::default()
        }],
        ..History::default()
    };
    let lost = |path: &str, expected, got| Violation::EphemeralLost { server: 3, path: path.into(), expected, got };
    let expected = [
        lost("/e/gone", 50, None),
        lost("/e/made-again", 51, Some(60)),
        Violation::EphemeralLeft { server: 3, path: "/e/left".into() },
    ];
    assert_eq!(violations(&history), expected);
}

#[test]
fn a_session_that_never_stopped_must_not_expire() {
    let history = History { expired: vec![4], ..History::default() };
    assert_eq!(violations(&history), [Violation::Expired { session: 4 }]);
}

#[test]
fn a_watch_that_stays_silent_is_found() {
    let history = History { unwatched: vec![5], ..History::default() };
    assert_eq!(violations(&history), [Violation::Unwatched { session: 5 }]);
}

#[test]
fn servers_that_show_different_trees_are_found() {
    let shown = |server, nodes: &[(&str, &str)]| Shown {
        server,
        tree: nodes.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect(),
        ..Shown::default()
    };
    let same = [("/k/0", "a 1"), ("/k/1", "b 1")];
    let equal = History { shown: vec![shown(1, &same), shown(2, &same)], ..History::default() };
    assert_eq!(violations(&equal), []);
    let less = History { shown: vec![shown(1, &same), shown(2, &same[..1])], ..History::default() };
    assert!(matches!(&violations(&less)[..], [Violation::TreesDiffer { path, second: 2, .. }] if path == "/k/1"));
}

#[test]
fn a_read_before_the_event_of_a_watch_is_found() {
    let history = History { overtaken: vec![(3, "/k/0".to_owned())], ..History::default() };
    assert_eq!(violations(&history), [Violation::Overtaken { session: 3, path: "/k/0".to_owned() }]);
}
