//! The state machine of a simulated server: the small key-value machine or the tree of the service.
//!
//! The key-value machine knows the request behind every transaction, so with it the agreement can be checked down to
//! single requests. The tree has what only a real service has: sessions that expire, ephemerals, watches, large
//! snapshots.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use pole_node::{ClientId, Machine, MayChange, Outcome, ReadResult, Request, TreeStore, Znodes};
use pole_tree::{Rules, Tree, Watches};
use pole_types::{Membership, SessionId, Span, Zxid};
use pole_zab::{Body, Entry, MembersOf};

use crate::kv::Kv;

/// The replicated state of one server.
pub(crate) enum State {
    Small(Box<Kv>),
    Tree(Box<Znodes<SimTree>>),
}

/// The tree of a simulated server. Its connections may read it between two steps, when all effects of the last one
/// have been executed.
#[derive(Debug)]
pub(crate) struct SimTree {
    tree: Tree,
    watches: RefCell<Watches>,
}

impl State {
    pub(crate) fn small() -> Self {
        Self::Small(Box::default())
    }

    /// A tree that knows these members, as `Setup::description` describes them.
    pub(crate) fn tree(members: Bytes) -> Self {
        let tree = SimTree { tree: Tree::new(RULES), watches: RefCell::new(Watches::new()) };
        Self::Tree(Box::new(Znodes::new(tree, RULES, members)))
    }

    /// The tree, for reads outside the node.
    pub(crate) fn sim_tree(&self) -> Option<&SimTree> {
        match self {
            Self::Small(_) => None,
            Self::Tree(znodes) => Some(znodes.store()),
        }
    }
}

impl TreeStore for SimTree {
    fn tree(&self) -> impl Deref<Target = Tree> + '_ {
        &self.tree
    }

    fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    fn watches(&self) -> impl DerefMut<Target = Watches> + '_ {
        self.watches_mut()
    }
}

impl SimTree {
    pub(crate) fn nodes(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn watches_mut(&self) -> RefMut<'_, Watches> {
        self.watches.borrow_mut()
    }
}

impl Machine for State {
    fn prepare(&mut self, zxid: Zxid, request: &Request, wall_ms: i64, may_change: MayChange<'_>) -> Option<Bytes> {
        match self {
            Self::Small(kv) => kv.prepare(zxid, request, wall_ms, may_change),
            Self::Tree(znodes) => znodes.prepare(zxid, request, wall_ms, may_change),
        }
    }

    /// A transaction of one machine is never taken for a change by the other: a change of the tree is a long text, and its
    /// zxid begins with a zero where the key of the other's change ends.
    const MEMBERS_OF: MembersOf =
        MembersOf(|body| Znodes::<SimTree>::MEMBERS_OF.0(body).or_else(|| Kv::MEMBERS_OF.0(body)));

    fn members(&self) -> Option<(Bytes, Zxid)> {
        match self {
            Self::Small(kv) => kv.members(),
            Self::Tree(znodes) => znodes.members(),
        }
    }

    fn nothing(&self, zxid: Zxid, wall_ms: i64) -> Bytes {
        match self {
            Self::Small(kv) => kv.nothing(zxid, wall_ms),
            Self::Tree(znodes) => znodes.nothing(zxid, wall_ms),
        }
    }

    fn parse_members(description: &Bytes) -> Option<Membership> {
        Znodes::<SimTree>::parse_members(description).or_else(|| Kv::parse_members(description))
    }

    fn forget_prepared(&mut self) {
        match self {
            Self::Small(kv) => kv.forget_prepared(),
            Self::Tree(znodes) => znodes.forget_prepared(),
        }
    }

    fn apply(&mut self, entry: &Entry, answer: bool) -> Result<Outcome, String> {
        match self {
            Self::Small(kv) => kv.apply(entry, answer),
            Self::Tree(znodes) => znodes.apply(entry, answer),
        }
    }

    fn read(&mut self, client: ClientId, session: SessionId, body: &Bytes) -> ReadResult {
        match self {
            Self::Small(kv) => kv.read(client, session, body),
            Self::Tree(znodes) => znodes.read(client, session, body),
        }
    }

    fn forget(&mut self, client: ClientId) {
        match self {
            Self::Small(kv) => kv.forget(client),
            Self::Tree(znodes) => znodes.forget(client),
        }
    }

    fn sessions(&self) -> Vec<(SessionId, Span)> {
        match self {
            Self::Small(kv) => kv.sessions(),
            Self::Tree(znodes) => znodes.sessions(),
        }
    }

    fn closing(&self) -> Bytes {
        match self {
            Self::Small(kv) => kv.closing(),
            Self::Tree(znodes) => znodes.closing(),
        }
    }

    fn chores(&self, wall_ms: i64, from: u32) -> (Vec<Bytes>, Option<u32>) {
        match self {
            Self::Small(kv) => kv.chores(wall_ms, from),
            Self::Tree(znodes) => znodes.chores(wall_ms, from),
        }
    }

    fn oracle(&self) -> Option<(Bytes, Zxid)> {
        match self {
            Self::Small(kv) => kv.oracle(),
            Self::Tree(znodes) => znodes.oracle(),
        }
    }

    fn snapshot(&self) -> Body {
        match self {
            Self::Small(kv) => kv.snapshot(),
            Self::Tree(znodes) => znodes.snapshot(),
        }
    }

    fn restore(&mut self, zxid: Zxid, body: &Bytes) -> Result<(), String> {
        match self {
            Self::Small(kv) => kv.restore(zxid, body),
            Self::Tree(znodes) => znodes.restore(zxid, body),
        }
    }

    fn size_bytes(&self) -> u64 {
        match self {
            Self::Small(kv) => kv.size_bytes(),
            Self::Tree(znodes) => znodes.size_bytes(),
        }
    }

    fn digest(&self) -> u64 {
        match self {
            Self::Small(kv) => kv.digest(),
            Self::Tree(znodes) => znodes.digest(),
        }
    }
}

pub(crate) const RULES: Rules = Rules { reconfig: true, standalone: false, skip_acl: true, ..Rules::DEFAULT };
