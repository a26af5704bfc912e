//! Recorded sessions and files of Apache ZooKeeper, decoded completely and encoded to the same bytes.

use std::collections::VecDeque;

use bytes::Bytes;
use pole_jute::{
    AclEntry, CloseSessionTxn, ConnectRequest, ConnectResponse, ErrorCode, FileHeader, LOG_MAGIC, OpCode, Place,
    Reader, Record, Reply, ReplyHeader, Request, RequestHeader, SNAPSHOT_MAGIC, SessionEntry, SnapshotNode, Txn,
    TxnEntry, VERSION, Writer, Xid, ZxidDigest,
};

#[test]
fn the_java_client_and_its_server_are_understood() {
    let ops = conversation(include_str!("apache/java-session.txt"));
    let expected = [
        OpCode::Create,
        OpCode::Create2,
        OpCode::CreateContainer,
        OpCode::CreateTtl,
        OpCode::Exists,
        OpCode::SetData,
        OpCode::GetData,
        OpCode::GetChildren,
        OpCode::GetChildren2,
        OpCode::GetAcl,
        OpCode::Auth,
        OpCode::SetAcl,
        OpCode::Sync,
        OpCode::Multi,
        OpCode::MultiRead,
        OpCode::AddWatch,
        OpCode::RemoveWatches,
        OpCode::GetEphemerals,
        OpCode::GetAllChildrenNumber,
        OpCode::WhoAmI,
        OpCode::Delete,
        OpCode::Ping,
        OpCode::CloseSession,
    ];
    for op in expected {
        assert!(ops.contains(&op), "{op:?} is not in the recording");
    }
}

#[test]
fn kazoo_and_its_server_are_understood() {
    let ops = conversation(include_str!("apache/kazoo-session.txt"));
    assert_eq!(ops.iter().filter(|op| **op == OpCode::Multi).count(), 3);
}

/// Decodes a recording, checks that every frame is encoded to the same bytes, and returns the operations in it.
fn conversation(recording: &str) -> Vec<OpCode> {
    let mut frames = recorded(recording);
    let (_, connect) = frames.next().expect("a client speaks first");
    let connect = ConnectRequest::decode(same(connect, ConnectRequest::encode)).unwrap();
    assert_eq!(connect.read_only, Some(false));
    let (_, response) = frames.next().expect("a server answers");
    let response = ConnectResponse::decode(same(response, ConnectResponse::encode)).unwrap();
    assert_eq!(response.passwd.map(|passwd| passwd.len()), Some(16));

    let mut ops = Vec::new();
    let mut pending: VecDeque<(i32, OpCode)> = VecDeque::new();
    for (from_client, frame) in frames {
        let mut reader = Reader::new(frame.clone());
        let mut writer = Writer::new();
        if from_client {
            let header = RequestHeader::read(&mut reader).unwrap();
            let request = Request::decode(header.operation().unwrap(), &mut reader).unwrap();
            ops.push(request.op());
            pending.push_back((header.xid, request.op()));
            header.write(&mut writer);
            request.write(&mut writer);
        } else {
            let header = ReplyHeader::read(&mut reader).unwrap();
            header.write(&mut writer);
            let op = if header.xid == Xid::NOTIFICATION {
                OpCode::Notification
            } else {
                // The reply to auth may overtake earlier ones.
                let at = pending.iter().position(|(xid, _)| *xid == header.xid).expect("a reply to something asked");
                pending.remove(at).unwrap().1
            };
            if header.err == ErrorCode::Ok {
                Reply::decode(op, &mut reader).unwrap().write(&mut writer);
            }
        }
        reader.finish("frame").unwrap();
        assert_eq!(writer.into_bytes(), frame);
    }
    assert!(pending.is_empty(), "without a reply: {pending:?}");
    ops
}

#[test]
fn a_log_is_understood() {
    let mut kinds = Vec::new();
    for line in lines(include_str!("apache/log.txt")) {
        let entry = TxnEntry::decode(same(line, TxnEntry::encode)).unwrap();
        assert_eq!(entry.header.op, entry.txn.op().number());
        assert_eq!(entry.header.zxid, kinds.len() as i64 + 1, "zxids without gaps");
        kinds.push(entry.txn);
    }
    let Txn::Multi(failed) = &kinds[8] else { panic!("the ninth is the multi that failed") };
    // The operations before the failed one are logged as if they had succeeded; only the errors after them show the
    // failure.
    assert!(matches!(&failed.txns[..], [Txn::SetData(_), Txn::Error(culprit), Txn::Error(after)]
        if culprit.code() == Some(ErrorCode::NodeExists) && after.code() == Some(ErrorCode::RuntimeInconsistency)));
    let closed = Txn::CloseSession(Some(CloseSessionTxn { paths_to_delete: vec!["/j/s-0000000000".into()] }));
    assert_eq!(kinds[12], closed);
}

#[test]
fn a_snapshot_is_understood() {
    let bytes = lines(include_str!("apache/snapshot.txt")).next().unwrap();
    let mut reader = Reader::new(bytes.clone());
    let mut writer = Writer::new();
    let place = Place::new("snapshot", "count");

    let header = FileHeader::read(&mut reader).unwrap();
    assert_eq!(header, FileHeader { magic: SNAPSHOT_MAGIC, version: VERSION, dbid: -1 });
    header.write(&mut writer);
    let sessions: Vec<SessionEntry> = reader.vector(place).unwrap();
    pole_jute::Value::put(&sessions, &mut writer);
    let acls: Vec<AclEntry> = reader.vector(place).unwrap();
    assert_eq!(acls.iter().map(|entry| entry.reference).collect::<Vec<_>>(), [1, 2, 3]);
    pole_jute::Value::put(&acls, &mut writer);
    let mut paths = Vec::new();
    loop {
        let node = SnapshotNode::read(&mut reader).unwrap();
        node.write(&mut writer);
        match node {
            SnapshotNode::Node(path, _) => paths.push(path),
            SnapshotNode::End => break,
        }
    }
    assert_eq!(
        paths,
        ["", "/j", "/j/t", "/j/mc", "/j/mt", "/k", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]
    );
    // The checksums are not part of this crate: a long, and a string without meaning.
    let copy_checksum = |reader: &mut Reader, writer: &mut Writer| {
        writer.long(reader.long(place).unwrap());
        writer.string(&reader.string(place).unwrap());
    };
    copy_checksum(&mut reader, &mut writer);
    let digest = ZxidDigest::read(&mut reader).unwrap();
    assert_eq!((digest.zxid, digest.version), (0x18, 2));
    digest.write(&mut writer);
    copy_checksum(&mut reader, &mut writer);
    reader.finish("snapshot").unwrap();
    assert_eq!(writer.into_bytes(), bytes);
}

#[test]
fn the_magic_of_a_log_is_what_apache_writes() {
    assert_eq!(LOG_MAGIC.to_be_bytes(), *b"ZKLG");
}

/// Decodes a record, asserts that it is encoded to the same bytes, and returns the bytes.
fn same<T: Record>(bytes: Bytes, encode: impl Fn(&T) -> Bytes) -> Bytes {
    assert_eq!(encode(&T::decode(bytes.clone()).unwrap()), bytes);
    bytes
}

fn recorded(recording: &str) -> impl Iterator<Item = (bool, Bytes)> {
    let lines = recording.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap()).map(|(from, frame)| (from == ">", unhex(frame)))
}

fn lines(text: &str) -> impl Iterator<Item = Bytes> {
    text.lines().filter(|line| !line.starts_with('#')).map(unhex)
}

/// Decodes hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Bytes {
    assert!(text.len().is_multiple_of(2), "an odd number of digits: {text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
