//! The requests that turn the content of one tree into that of another, to restore a backup on a running ensemble.
//!
//! Nodes, data and ACLs become those of the other tree. What belongs to the ensemble or to sessions stays as it is:
//!
//! - An ephemeral node is neither created nor deleted: its session decides. Its ancestors stay too.
//! - The membership and the settings in `/zookeeper` stay; quotas are content.
//! - The kind of a node that exists (container, time to live) stays.
//!
//! Versions, times and zxids are those of the requests, because they are requests like any other.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use pole_jute::{
    Acl, CreateMode, CreateRequest, CreateTtlRequest, DeleteRequest, Id, MultiOp, Perms, SetAclRequest, SetDataRequest,
};

use crate::Rules;
use crate::access;
use crate::node::Node;
use crate::owner::Owner;
use crate::path::{self, QUOTA, ROOT, ZOOKEEPER};
use crate::snapshot::Frozen;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// May be part of a multi.
    Op(MultiOp),
    /// Has to be sent on its own.
    SetAcl(SetAclRequest),
}

/// The difference between two states. It borrows both, and creates the requests one by one.
#[derive(Debug)]
pub struct Difference<'a> {
    /// Children before their parents.
    deleted: Vec<&'a Node>,
    /// Parents before their children, each with the present node if there is one.
    written: Vec<(Option<&'a Node>, &'a Node)>,
    /// Ephemeral nodes that stay, or that the other state has and this one has not.
    ephemerals: usize,
}

/// How many nodes a difference concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub created: usize,
    pub changed: usize,
    pub deleted: usize,
    /// Ephemeral nodes, which are left alone.
    pub ephemerals: usize,
}

impl Frozen {
    /// What has to be done to turn this state into `target`.
    #[must_use]
    pub fn difference<'a>(&'a self, target: &'a Self) -> Difference<'a> {
        let (present, wanted) = (self.content(), target.content());
        let is_ephemeral = |node: &&Node| matches!(node.owner(), Owner::Session(_));
        let ephemeral: BTreeSet<&str> = present.values().filter(|n| is_ephemeral(n)).map(|node| &*node.path).collect();
        // Nodes that have to stay because an ephemeral node is below them.
        let above: BTreeSet<&str> = ephemeral.iter().flat_map(|path| path::self_and_ancestors(path)).collect();
        let mut difference = Difference { deleted: Vec::new(), written: Vec::new(), ephemerals: ephemeral.len() };
        for (path, node) in present.iter().rev() {
            let stays = wanted.get(path).is_some_and(|node| !is_ephemeral(node)) || above.contains(path);
            if !stays && *path != ROOT {
                difference.deleted.push(node);
            }
        }
        for (path, node) in &wanted {
            if is_ephemeral(node) {
                difference.ephemerals += usize::from(!ephemeral.contains(path));
            } else if path::self_and_ancestors(path).all(|path| !ephemeral.contains(path)) {
                let before = present.get(path).copied();
                if before.is_none_or(|before| sets_data(before, node) || sets_acl(before, node)) {
                    difference.written.push((before, node));
                }
            }
        }
        difference
    }

    /// The nodes of users by path, and the root.
    fn content(&self) -> BTreeMap<&str, &Node> {
        let nodes = self.nodes().iter().map(|node| (&*node.path, node));
        nodes.filter(|(path, _)| !path::is_within(path, ZOOKEEPER) || is_quota(path)).collect()
    }
}

impl Difference<'_> {
    /// The first node whose ACL a server with these rules does not support, with the scheme.
    #[must_use]
    pub fn unsupported_acl(&self, rules: Rules) -> Option<(&str, &str)> {
        self.written.iter().find_map(|(_, node)| {
            let unsupported = |acl: &&Acl| !access::is_storable(rules, &acl.id);
            let acl = node.acl.list()?.iter().find(unsupported)?;
            Some((&*node.path, acl.id.scheme.as_str()))
        })
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        let created = self.written.iter().filter(|(before, _)| before.is_none()).count();
        Counts {
            created,
            changed: self.written.len() - created,
            deleted: self.deleted.len(),
            ephemerals: self.ephemerals,
        }
    }

    /// The requests, in an order in which each is possible.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        let deletes = self
            .deleted
            .iter()
            .map(|node| Step::Op(MultiOp::Delete(DeleteRequest { path: String::from(&*node.path), version: -1 })));
        deletes.chain(
            self.written
                .iter()
                .flat_map(|(before, node)| match before {
                    None => [Some(Step::Op(create(node))), None],
                    Some(before) => {
                        [sets_data(before, node).then(|| set_data(node)), sets_acl(before, node).then(|| set_acl(node))]
                    }
                })
                .flatten(),
        )
    }
}

/// Whether the path is below `/zookeeper/quota`.
fn is_quota(path: &str) -> bool {
    path::is_within(path, QUOTA) && path != QUOTA
}

/// The usage in a quota node is counted by the servers.
fn sets_data(before: &Node, node: &Node) -> bool {
    before.data != node.data && !(is_quota(&node.path) && node.name() == "zookeeper_stats")
}

fn sets_acl(before: &Node, node: &Node) -> bool {
    acl(before) != acl(node)
}

fn acl(node: &Node) -> Vec<Acl> {
    let open = || Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } };
    node.acl.list().map_or_else(|| Vec::from([open()]), <[Acl]>::to_vec)
}

fn data(node: &Node) -> Option<Bytes> {
    node.data.as_deref().map(Bytes::copy_from_slice)
}

fn create(node: &Node) -> MultiOp {
    let (path, data, acl) = (String::from(&*node.path), data(node), acl(node));
    match node.owner() {
        Owner::Ttl(ttl) => {
            let flags = CreateMode::PersistentWithTtl.number();
            MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, flags, ttl })
        }
        Owner::Container => {
            MultiOp::CreateContainer(CreateRequest { path, data, acl, flags: CreateMode::Container.number() })
        }
        Owner::Nobody | Owner::Session(_) => {
            MultiOp::Create(CreateRequest { path, data, acl, flags: CreateMode::Persistent.number() })
        }
    }
}

fn set_data(node: &Node) -> Step {
    Step::Op(MultiOp::SetData(SetDataRequest { path: String::from(&*node.path), data: data(node), version: -1 }))
}

fn set_acl(node: &Node) -> Step {
    Step::SetAcl(SetAclRequest { path: String::from(&*node.path), acl: acl(node), version: -1 })
}
