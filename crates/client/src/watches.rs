//! The watches that a client has set and that have not fired.
//!
//! A server forgets the watches of a connection with the connection, so the client sets them again on the next one.

use std::collections::{BTreeMap, BTreeSet};

use pole_jute::{
    AddWatchMode, ErrorCode, EventType, KeeperState, RemoveWatchesRequest, Reply, Request, SetWatches, SetWatches2,
    WatcherEvent, WatcherType,
};

/// Watched paths by the kind of watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watches {
    /// Set by getData, and by exists on a node that existed; each with the mzxid that the reply showed.
    data: BTreeMap<String, i64>,
    /// Set by exists on a node that did not exist.
    exist: BTreeSet<String>,
    child: BTreeSet<String>,
    persistent: BTreeSet<String>,
    recursive: BTreeSet<String>,
}

impl Watches {
    /// Whether a reply shows a change of a node before the event of the watch on it. The protocol forbids that.
    pub(crate) fn is_overtaken_by(&self, request: &Request, result: &Result<Reply, ErrorCode>) -> bool {
        let (Request::GetData(request), Ok(Reply::GetData(reply))) = (request, result) else { return false };
        self.data.get(&request.path).is_some_and(|seen| *seen < reply.stat.mzxid)
    }

    /// Records what a reply says about watches. Errors set none, except exists on a node that does not exist.
    pub(crate) fn replied(&mut self, request: &Request, result: &Result<Reply, ErrorCode>) {
        match (request, result) {
            (Request::GetData(request), Ok(Reply::GetData(reply))) if request.watch => {
                self.data.insert(request.path.clone(), reply.stat.mzxid);
            }
            (Request::Exists(request), Ok(Reply::Exists(reply))) if request.watch => {
                self.data.insert(request.path.clone(), reply.stat.mzxid);
            }
            (Request::Exists(request), Err(ErrorCode::NoNode)) if request.watch => {
                self.exist.insert(request.path.clone());
            }
            (Request::GetChildren(request), Ok(_)) if request.watch => {
                self.child.insert(request.path.clone());
            }
            (Request::GetChildren2(request), Ok(_)) if request.watch => {
                self.child.insert(request.path.clone());
            }
            (Request::AddWatch(request), Ok(_)) => {
                let kind = match request.mode {
                    AddWatchMode::Persistent => &mut self.persistent,
                    AddWatchMode::PersistentRecursive => &mut self.recursive,
                };
                kind.insert(request.path.clone());
            }
            _ => {}
        }
    }

    /// Removes the watches that a successful removeWatches names. Returns an event for each kind, as Apache's client
    /// does; servers send none.
    pub(crate) fn removed(&mut self, request: &Request, result: &Result<Reply, ErrorCode>) -> Vec<WatcherEvent> {
        let (Request::RemoveWatches(RemoveWatchesRequest { path, kind }), Ok(_)) = (request, result) else {
            return Vec::new();
        };
        let is_persistent = self.persistent.contains(path) || self.recursive.contains(path);
        let had = [
            (self.child.contains(path), EventType::ChildWatchRemoved),
            (self.data.contains_key(path) || self.exist.contains(path), EventType::DataWatchRemoved),
            (is_persistent, EventType::PersistentWatchRemoved),
        ];
        let meant = |event: &EventType| match kind {
            WatcherType::Children => *event == EventType::ChildWatchRemoved,
            WatcherType::Data => *event == EventType::DataWatchRemoved,
            WatcherType::Persistent | WatcherType::PersistentRecursive => *event == EventType::PersistentWatchRemoved,
            WatcherType::Any => true,
        };
        self.remove(path, *kind);
        let events = had.into_iter().filter(|(had, event)| *had && meant(event));
        let event = |(_, kind)| WatcherEvent { kind, state: KeeperState::SyncConnected, path: path.clone() };
        events.map(event).collect()
    }

    /// A one-shot watch is gone when it has fired. A persistent one stays.
    pub(crate) fn fired(&mut self, event: &WatcherEvent) {
        let path = &event.path;
        match event.kind {
            EventType::NodeCreated | EventType::NodeDataChanged => self.remove(path, WatcherType::Data),
            EventType::NodeChildrenChanged => self.remove(path, WatcherType::Children),
            EventType::NodeDeleted => {
                self.remove(path, WatcherType::Data);
                self.remove(path, WatcherType::Children);
            }
            // Known from the reply to removeWatches.
            EventType::DataWatchRemoved | EventType::ChildWatchRemoved | EventType::PersistentWatchRemoved => {}
            EventType::None => {}
        }
    }

    fn remove(&mut self, path: &str, kind: WatcherType) {
        if matches!(kind, WatcherType::Data | WatcherType::Any) {
            self.data.remove(path);
            self.exist.remove(path);
        }
        if matches!(kind, WatcherType::Children | WatcherType::Any) {
            self.child.remove(path);
        }
        if matches!(kind, WatcherType::Persistent | WatcherType::Any) {
            self.persistent.remove(path);
        }
        if matches!(kind, WatcherType::PersistentRecursive | WatcherType::Any) {
            self.recursive.remove(path);
        }
    }

    /// The requests that set all watches again. A change after `relative_zxid` is an event that the client has missed.
    ///
    /// Each is far below the request limit of servers. Without persistent watches the request is the one that every
    /// server knows; servers before 3.6 know no other.
    pub(crate) fn set_again(&self, relative_zxid: i64) -> Vec<Request> {
        let kinds = [
            self.data.keys().collect::<Vec<_>>(),
            self.exist.iter().collect(),
            self.child.iter().collect(),
            self.persistent.iter().collect(),
            self.recursive.iter().collect(),
        ];
        let mut requests = Vec::new();
        let (mut watches, mut bytes) = (empty(relative_zxid), 0);
        for (kind, paths) in kinds.into_iter().enumerate() {
            for path in paths {
                if bytes + path.len() > SET_WATCHES_BYTES_MAX && bytes > 0 {
                    requests.push(request(std::mem::replace(&mut watches, empty(relative_zxid))));
                    bytes = 0;
                }
                let lists = [
                    &mut watches.data_watches,
                    &mut watches.exist_watches,
                    &mut watches.child_watches,
                    &mut watches.persistent_watches,
                    &mut watches.persistent_recursive_watches,
                ];
                lists.into_iter().nth(kind).expect("as many lists as kinds").push(path.clone());
                bytes += LENGTH_BYTES + path.len();
            }
        }
        if bytes > 0 {
            requests.push(request(watches));
        }
        requests
    }
}

fn empty(relative_zxid: i64) -> SetWatches2 {
    SetWatches2 {
        relative_zxid,
        data_watches: Vec::new(),
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
        persistent_watches: Vec::new(),
        persistent_recursive_watches: Vec::new(),
    }
}

fn request(watches: SetWatches2) -> Request {
    if !watches.persistent_watches.is_empty() || !watches.persistent_recursive_watches.is_empty() {
        return Request::SetWatches2(watches);
    }
    let SetWatches2 { relative_zxid, data_watches, exist_watches, child_watches, .. } = watches;
    Request::SetWatches(SetWatches { relative_zxid, data_watches, exist_watches, child_watches })
}

const LENGTH_BYTES: usize = 4;

/// As Apache's client does, so that many watches do not exceed the request limit of servers (1 MB).
const SET_WATCHES_BYTES_MAX: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use pole_jute::{AddWatchRequest, ExistsRequest, GetChildrenRequest, GetChildrenResponse, GetDataResponse, Stat};

    use super::*;

    fn data_watch(path: &str) -> (Request, Result<Reply, ErrorCode>) {
        (crate::get_data(path, true), Ok(Reply::GetData(GetDataResponse { data: None, stat: Stat::default() })))
    }

    fn child_watch(path: &str) -> (Request, Result<Reply, ErrorCode>) {
        let request = GetChildrenRequest { path: path.into(), watch: true };
        (Request::GetChildren(request), Ok(Reply::GetChildren(GetChildrenResponse { children: Vec::new() })))
    }

    fn exist_watch(path: &str) -> (Request, Result<Reply, ErrorCode>) {
        (Request::Exists(ExistsRequest { path: path.into(), watch: true }), Err(ErrorCode::NoNode))
    }

    fn persistent_watch(path: &str) -> (Request, Result<Reply, ErrorCode>) {
        let request = AddWatchRequest { path: path.into(), mode: AddWatchMode::Persistent };
        let reply = pole_jute::ErrorResponse { err: ErrorCode::Ok };
        (Request::AddWatch(request), Ok(Reply::AddWatch(reply)))
    }

    fn watches(set: &[(Request, Result<Reply, ErrorCode>)]) -> Watches {
        let mut watches = Watches::default();
        set.iter().for_each(|(request, result)| watches.replied(request, result));
        watches
    }

    fn event(kind: EventType, path: &str) -> WatcherEvent {
        WatcherEvent { kind, state: KeeperState::SyncConnected, path: path.into() }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "no other request sets watches again")]
    fn paths(watches: &Watches) -> [Vec<String>; 5] {
        let mut all: [Vec<String>; 5] = Default::default();
        for request in watches.set_again(7) {
            let lists = match request {
                Request::SetWatches(one) => {
                    [one.data_watches, one.exist_watches, one.child_watches, Vec::new(), Vec::new()]
                }
                Request::SetWatches2(two) => [
                    two.data_watches,
                    two.exist_watches,
                    two.child_watches,
                    two.persistent_watches,
                    two.persistent_recursive_watches,
                ],
                other => panic!("expected setWatches, got {other:?}"),
            };
            all.iter_mut().zip(lists).for_each(|(all, list)| all.extend(list));
        }
        all
    }

    #[test]
    fn watches_are_set_again_by_their_kind() {
        let watches = watches(&[data_watch("/d"), exist_watch("/e"), child_watch("/c")]);
        let Request::SetWatches(again) = &watches.set_again(7)[0] else { panic!("expected the old request") };
        assert_eq!(again.relative_zxid, 7);
        assert_eq!(paths(&watches), [vec!["/d".to_owned()], vec!["/e".into()], vec!["/c".into()], vec![], vec![]]);
    }

    #[test]
    fn persistent_watches_need_the_new_request() {
        let watches = watches(&[data_watch("/d"), persistent_watch("/p")]);
        assert!(matches!(&watches.set_again(0)[..], [Request::SetWatches2(_)]));
        assert_eq!(paths(&watches)[3], ["/p"]);
    }

    #[test]
    fn a_watch_that_fired_is_gone_and_a_persistent_one_stays() {
        let all = [data_watch("/a"), child_watch("/a"), exist_watch("/b"), persistent_watch("/a")];
        let mut watches = watches(&all);
        watches.fired(&event(EventType::NodeChildrenChanged, "/a"));
        assert_eq!(paths(&watches)[2], Vec::<String>::new());
        assert_eq!(paths(&watches)[0], ["/a"]);
        watches.fired(&event(EventType::NodeDeleted, "/a"));
        watches.fired(&event(EventType::NodeCreated, "/b"));
        assert_eq!(paths(&watches), [vec![], vec![], vec![], vec!["/a".to_owned()], vec![]]);
    }

    #[test]
    fn removed_watches_are_not_set_again() {
        let mut watches = watches(&[data_watch("/a"), child_watch("/a"), persistent_watch("/a")]);
        let remove = |kind| Request::RemoveWatches(RemoveWatchesRequest { path: "/a".into(), kind });
        assert!(watches.removed(&remove(WatcherType::Children), &Err(ErrorCode::NoWatcher)).is_empty());
        assert_eq!(paths(&watches)[2], ["/a"]);
        let removed = watches.removed(&remove(WatcherType::Children), &Ok(Reply::RemoveWatches));
        assert_eq!(removed, [event(EventType::ChildWatchRemoved, "/a")]);
        assert_eq!(paths(&watches)[2], Vec::<String>::new());
        let removed = watches.removed(&remove(WatcherType::Any), &Ok(Reply::RemoveWatches));
        let expected = [EventType::DataWatchRemoved, EventType::PersistentWatchRemoved];
        assert_eq!(removed, expected.map(|kind| event(kind, "/a")));
        assert!(watches.set_again(0).is_empty());
    }

    #[test]
    fn many_watches_are_split_over_requests_and_none_is_lost() {
        let path = |number| format!("/{number:01000}");
        let set: Vec<_> = (0..300).map(|number| data_watch(&path(number))).collect();
        let watches = watches(&set);
        assert_eq!(watches.set_again(0).len(), 3);
        assert_eq!(paths(&watches)[0], (0..300).map(path).collect::<Vec<_>>());
    }
}
