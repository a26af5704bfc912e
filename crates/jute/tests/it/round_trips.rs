//! Encoded records decode to the same value, to the last byte, and no truncated record is accepted as complete.

use bytes::Bytes;
use pole_jute::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::samples::Sample;

/// One test for each record: round trip, truncation, damage.
macro_rules! records {
    ($($name:ident: $type:ident,)*) => { $(
        #[test]
        fn $name() {
            check::<$type>(|_| false);
        }
    )* };
}

records! {
    id: Id,
    acl: Acl,
    stat: Stat,
    stat_persisted: StatPersisted,
    request_header: RequestHeader,
    reply_header: ReplyHeader,
    get_acl_request: GetAclRequest,
    get_acl_response: GetAclResponse,
    set_acl_request: SetAclRequest,
    set_acl_response: SetAclResponse,
    auth_packet: AuthPacket,
    sasl_request: SaslRequest,
    sasl_response: SaslResponse,
    who_am_i_response: WhoAmIResponse,
    get_children_request: GetChildrenRequest,
    get_children_response: GetChildrenResponse,
    get_children2_request: GetChildren2Request,
    get_children2_response: GetChildren2Response,
    get_all_children_number_request: GetAllChildrenNumberRequest,
    get_all_children_number_response: GetAllChildrenNumberResponse,
    get_ephemerals_request: GetEphemeralsRequest,
    get_ephemerals_response: GetEphemeralsResponse,
    exists_request: ExistsRequest,
    exists_response: ExistsResponse,
    get_data_request: GetDataRequest,
    get_data_response: GetDataResponse,
    set_data_request: SetDataRequest,
    set_data_response: SetDataResponse,
    check_version_request: CheckVersionRequest,
    sync_request: SyncRequest,
    sync_response: SyncResponse,
    create_request: CreateRequest,
    create_response: CreateResponse,
    create2_response: Create2Response,
    create_ttl_request: CreateTtlRequest,
    delete_request: DeleteRequest,
    reconfig_request: ReconfigRequest,
    set_watches: SetWatches,
    set_watches2: SetWatches2,
    add_watch_request: AddWatchRequest,
    error_response: ErrorResponse,
    check_watches_request: CheckWatchesRequest,
    remove_watches_request: RemoveWatchesRequest,
    watcher_event: WatcherEvent,
    multi_request: MultiRequest,
    multi_response: MultiResponse,
    multi_read_request: MultiReadRequest,
    multi_read_response: MultiReadResponse,
    txn_header: TxnHeader,
    txn_digest: TxnDigest,
    create_txn: CreateTxn,
    create_txn_v0: CreateTxnV0,
    create_container_txn: CreateContainerTxn,
    create_ttl_txn: CreateTtlTxn,
    delete_txn: DeleteTxn,
    set_data_txn: SetDataTxn,
    check_version_txn: CheckVersionTxn,
    set_acl_txn: SetAclTxn,
    set_max_children_txn: SetMaxChildrenTxn,
    create_session_txn: CreateSessionTxn,
    close_session_txn: CloseSessionTxn,
    error_txn: ErrorTxn,
    multi_txn: MultiTxn,
    file_header: FileHeader,
    session_entry: SessionEntry,
    acl_entry: AclEntry,
    data_node: DataNode,
    snapshot_node: SnapshotNode,
    zxid_digest: ZxidDigest,
}

#[test]
fn connect_request() {
    // Without its last byte it is what an old client sends.
    check::<ConnectRequest>(|cut| cut.read_only.is_none());
}

#[test]
fn connect_response() {
    check::<ConnectResponse>(|cut| cut.read_only.is_none());
}

#[test]
fn delete_container_request() {
    // The path fills the frame, so every prefix of it is a valid path.
    check::<DeleteContainerRequest>(|_| true);
}

#[test]
fn txn_entry() {
    // Truncated, it may be one of the old forms.
    check::<TxnEntry>(|cut| {
        let old_create = matches!(&cut.txn, Txn::Create(txn) if txn.parent_cversion == -1);
        cut.digest.is_none() || old_create || cut.txn == Txn::CloseSession(None)
    });
}

#[test]
fn requests() {
    each::<Request>(|request| {
        let bytes = written(|w| request.write(w));
        let mut reader = Reader::new(bytes);
        let read = Request::decode(request.op(), &mut reader);
        prop_assert_eq!(read.as_ref(), Ok(request));
        prop_assert_eq!(reader.left(), 0);
        Ok(())
    });
}

#[test]
fn replies() {
    each::<Reply>(|reply| {
        let bytes = written(|w| reply.write(w));
        let mut reader = Reader::new(bytes);
        let read = Reply::decode(reply.op(), &mut reader);
        prop_assert_eq!(read.as_ref(), Ok(reply));
        prop_assert_eq!(reader.left(), 0);
        Ok(())
    });
}

#[test]
fn transactions() {
    each::<Txn>(|txn| {
        let bytes = written(|w| txn.write(w));
        let mut reader = Reader::new(bytes);
        let read = Txn::decode(txn.op(), &mut reader);
        prop_assert_eq!(read.as_ref(), Ok(txn));
        prop_assert_eq!(reader.left(), 0);
        Ok(())
    });
}

/// Checks that a record decodes to itself, that truncation is an error unless `may_be_cut` allows it, and that flipped
/// bits cause no panic.
fn check<T: Record + Sample + PartialEq>(may_be_cut: impl Fn(&T) -> bool) {
    each::<T>(|record| {
        let bytes = record.encode();
        let read = T::decode(bytes.clone());
        prop_assert_eq!(read.as_ref(), Ok(record));
        prop_assert!(bytes.len() >= <T as Record>::BYTES_MIN, "BYTES_MIN is {}", <T as Record>::BYTES_MIN);
        for end in 0..bytes.len() {
            match T::decode(bytes.slice(..end)) {
                Ok(cut) => prop_assert!(may_be_cut(&cut), "{} of {} bytes pass for {cut:?}", end, bytes.len()),
                Err(error) => prop_assert!(error.at <= end, "{error} with {end} bytes"),
            }
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 0x80 >> (at % 8);
            let _ = T::decode(Bytes::from(flipped));
        }
        Ok(())
    });
}

fn each<T: Sample>(test: impl Fn(&T) -> Result<(), TestCaseError>) {
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    if let Err(error) = TestRunner::new(config).run(&T::any(), |value| test(&value)) {
        panic!("{error}");
    }
}

fn written(write: impl FnOnce(&mut Writer)) -> Bytes {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.into_bytes()
}
