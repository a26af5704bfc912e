//! Random values of every record.

use bytes::Bytes;
use pole_jute::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A type with a strategy for random values.
pub(crate) trait Sample: Sized + std::fmt::Debug {
    /// A strategy for all values.
    fn any() -> BoxedStrategy<Self>;
}

/// The strategy of a type, usually inferred.
fn sample<T: Sample>() -> BoxedStrategy<T> {
    T::any()
}

/// Primitives, each with a strategy.
macro_rules! primitives {
    ($($type:ty: $strategy:expr;)*) => { $(
        impl Sample for $type {
            fn any() -> BoxedStrategy<Self> {
                $strategy.boxed()
            }
        }
    )* };
}

primitives! {
    i32: prop_oneof![any::<i32>(), -2..3];
    i64: prop_oneof![any::<i64>(), -2..3i64];
    bool: any::<bool>();
    String: "[a-z/é😀\u{0}]{0,6}";
    Bytes: vec(any::<u8>(), 0..12).prop_map(Bytes::from);
    Perms: any::<i32>().prop_map(Perms);
}

impl<T: Sample + 'static> Sample for Vec<T> {
    fn any() -> BoxedStrategy<Self> {
        vec(T::any(), 0..4).boxed()
    }
}

impl<T: Sample + 'static> Sample for Option<T> {
    fn any() -> BoxedStrategy<Self> {
        option::of(T::any()).boxed()
    }
}

/// Enums with numbers.
macro_rules! numbered {
    ($($type:ident)*) => { $(
        impl Sample for $type {
            fn any() -> BoxedStrategy<Self> {
                proptest::sample::select($type::ALL).boxed()
            }
        }
    )* };
}

numbered!(OpCode ErrorCode CreateMode AddWatchMode WatcherType EventType KeeperState);

/// Structs, by their fields, whose types are inferred.
macro_rules! structs {
    ($($type:ident { $($field:ident)* })*) => { $(
        impl Sample for $type {
            fn any() -> BoxedStrategy<Self> {
                ($(sample().prop_map(|$field| $field),)*).prop_map(|($($field,)*)| $type { $($field),* }).boxed()
            }
        }
    )* };
}

structs! {
    Id { scheme id }
    Acl { perms id }
    Stat {
        czxid mzxid ctime mtime version cversion aversion ephemeral_owner data_length num_children pzxid
    }
    StatPersisted { czxid mzxid ctime mtime version cversion aversion ephemeral_owner pzxid }
    RequestHeader { xid op }
    ReplyHeader { xid zxid err }
    ConnectRequest { protocol_version last_zxid_seen timeout session_id passwd read_only }
    ConnectResponse { protocol_version timeout session_id passwd read_only }
    GetAclRequest { path }
    GetAclResponse { acl stat }
    SetAclRequest { path acl version }
    SetAclResponse { stat }
    AuthPacket { kind scheme auth }
    SaslRequest { token }
    SaslResponse { token }
    ClientInfo { auth_scheme user }
    WhoAmIResponse { client_info }
    GetChildrenRequest { path watch }
    GetChildrenResponse { children }
    GetChildren2Request { path watch }
    GetChildren2Response { children stat }
    GetAllChildrenNumberRequest { path }
    GetAllChildrenNumberResponse { total_number }
    GetEphemeralsRequest { prefix_path }
    GetEphemeralsResponse { ephemerals }
    ExistsRequest { path watch }
    ExistsResponse { stat }
    GetDataRequest { path watch }
    GetDataResponse { data stat }
    SetDataRequest { path data version }
    SetDataResponse { stat }
    CheckVersionRequest { path version }
    SyncRequest { path }
    SyncResponse { path }
    CreateRequest { path data acl flags }
    CreateResponse { path }
    Create2Response { path stat }
    CreateTtlRequest { path data acl flags ttl }
    DeleteRequest { path version }
    DeleteContainerRequest { path }
    ReconfigRequest { joining_servers leaving_servers new_members cur_config_id }
    SetWatches { relative_zxid data_watches exist_watches child_watches }
    SetWatches2 {
        relative_zxid data_watches exist_watches child_watches persistent_watches persistent_recursive_watches
    }
    AddWatchRequest { path mode }
    ErrorResponse { err }
    CheckWatchesRequest { path kind }
    RemoveWatchesRequest { path kind }
    WatcherEvent { kind state path }
    MultiRequest { ops }
    MultiResponse { results }
    MultiReadRequest { ops }
    MultiReadResponse { results }
    TxnHeader { client_id cxid zxid time op }
    TxnDigest { version tree_digest }
    CreateTxn { path data acl ephemeral parent_cversion }
    CreateTxnV0 { path data acl ephemeral }
    CreateContainerTxn { path data acl parent_cversion }
    CreateTtlTxn { path data acl parent_cversion ttl }
    DeleteTxn { path }
    SetDataTxn { path data version }
    CheckVersionTxn { path version }
    SetAclTxn { path acl version }
    SetMaxChildrenTxn { path max }
    CreateSessionTxn { timeout }
    CloseSessionTxn { paths_to_delete }
    ErrorTxn { err }
    FileHeader { magic version dbid }
    SessionEntry { id timeout }
    AclEntry { reference acl }
    DataNode { data acl stat }
    ZxidDigest { zxid version digest }
}

/// Enums, by their variants.
macro_rules! enums {
    ($($type:ident { $($variant:ident $(($body:ident))?)* })*) => { $(
        impl Sample for $type {
            fn any() -> BoxedStrategy<Self> {
                let variants = vec![$(one!($type $variant $($body)?),)*];
                proptest::strategy::Union::new(variants).boxed()
            }
        }
    )* };
}

/// One variant, with or without a body.
macro_rules! one {
    ($type:ident $variant:ident $body:ident) => {
        sample().prop_map($type::$variant).boxed()
    };
    ($type:ident $variant:ident) => {
        Just($type::$variant).boxed()
    };
}

enums! {
    MultiOp { Create(b) Create2(b) CreateContainer(b) CreateTtl(b) Delete(b) SetData(b) Check(b) }
    MultiResult { Create(b) Create2(b) Delete SetData(b) Check Error(b) }
    MultiReadOp { GetChildren(b) GetData(b) }
    MultiReadResult { GetChildren(b) GetData(b) Error(b) }
    Request {
        Create(b) Delete(b) Exists(b) GetData(b) SetData(b) GetAcl(b) SetAcl(b) GetChildren(b) Sync(b) Ping
        GetChildren2(b) Check(b) Multi(b) Create2(b) Reconfig(b) CheckWatches(b) RemoveWatches(b) CreateContainer(b)
        DeleteContainer(b) CreateTtl(b) MultiRead(b) Auth(b) SetWatches(b) Sasl(b) GetEphemerals(b)
        GetAllChildrenNumber(b) SetWatches2(b) AddWatch(b) WhoAmI CloseSession
    }
    Reply {
        Notification(b) Create(b) Delete Exists(b) GetData(b) SetData(b) GetAcl(b) SetAcl(b) GetChildren(b) Sync(b)
        Ping GetChildren2(b) Check(b) Multi(b) Create2(b) Reconfig(b) CheckWatches RemoveWatches CreateContainer(b)
        DeleteContainer CreateTtl(b) MultiRead(b) Auth SetWatches Sasl(b) GetEphemerals(b) GetAllChildrenNumber(b)
        SetWatches2 AddWatch(b) WhoAmI(b) CloseSession
    }
}

impl Sample for Txn {
    fn any() -> BoxedStrategy<Self> {
        let sessions = prop_oneof![
            sample().prop_map(Self::CreateSession),
            sample().prop_map(|body| Self::CloseSession(Some(body))),
            sample().prop_map(Self::Multi),
        ];
        prop_oneof![3 => part(), 1 => sessions].boxed()
    }
}

impl Sample for MultiTxn {
    fn any() -> BoxedStrategy<Self> {
        vec(part(), 0..4).prop_map(|txns| Self { txns }).boxed()
    }
}

/// The transactions that are allowed in a multi.
fn part() -> BoxedStrategy<Txn> {
    prop_oneof![
        sample().prop_map(Txn::Create),
        sample().prop_map(Txn::Create2),
        sample().prop_map(Txn::CreateContainer),
        sample().prop_map(Txn::CreateTtl),
        sample().prop_map(Txn::Delete),
        sample().prop_map(Txn::DeleteContainer),
        sample().prop_map(Txn::SetData),
        sample().prop_map(Txn::Reconfig),
        sample().prop_map(Txn::SetAcl),
        sample().prop_map(Txn::Check),
        sample().prop_map(Txn::Error),
    ]
    .boxed()
}

impl Sample for TxnEntry {
    fn any() -> BoxedStrategy<Self> {
        let parts = (sample::<TxnHeader>(), sample::<Txn>(), sample());
        let consistent = parts.prop_map(|(header, txn, digest)| Self {
            header: TxnHeader { op: txn.op().number(), ..header },
            txn,
            digest,
        });
        consistent.boxed()
    }
}

impl Sample for SnapshotNode {
    fn any() -> BoxedStrategy<Self> {
        let path = String::any().prop_filter("that path is the end", |path| path != "/");
        let node = (path, sample()).prop_map(|(path, node)| Self::Node(path, node));
        prop_oneof![3 => node, 1 => Just(Self::End)].boxed()
    }
}
