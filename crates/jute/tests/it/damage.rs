//! Random, malformed and malicious input.

use bytes::{Bytes, BytesMut};
use pole_jute::*;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_read_without_harm(bytes in vec(prop_oneof![2 => 0..4u8, 1 => any::<u8>()], 0..200)) {
        let bytes = Bytes::from(bytes);
        for op in OpCode::ALL {
            let _ = Request::decode(*op, &mut Reader::new(bytes.clone()));
            let _ = Reply::decode(*op, &mut Reader::new(bytes.clone()));
            let _ = Txn::decode(*op, &mut Reader::new(bytes.clone()));
        }
        let _ = ConnectRequest::decode(bytes.clone());
        let _ = ConnectResponse::decode(bytes.clone());
        let _ = TxnEntry::decode(bytes.clone());
        let _ = SnapshotNode::decode(bytes.clone());
        let _ = ZxidDigest::decode(bytes);
    }

    #[test]
    fn random_streams_are_cut_without_harm(chunks in vec(vec(any::<u8>(), 0..50), 0..20)) {
        let deframer = Deframer::new(1000);
        let mut arrived = BytesMut::new();
        for chunk in chunks {
            arrived.extend_from_slice(&chunk);
            while let Ok(Some(frame)) = deframer.next(&mut arrived) {
                prop_assert!(frame.len() <= 1000);
            }
        }
    }

    #[test]
    fn frames_survive_any_cutting(frames in vec(vec(any::<u8>(), 0..40), 0..8), size in 1..30usize) {
        let mut writer = Writer::new();
        frames.iter().for_each(|frame| writer.frame(|w| w.raw(frame)));
        let mut arrived = BytesMut::new();
        let mut got = Vec::new();
        for chunk in writer.into_bytes().chunks(size) {
            arrived.extend_from_slice(chunk);
            while let Some(frame) = Deframer::default().next(&mut arrived).unwrap() {
                got.push(frame.to_vec());
            }
        }
        prop_assert_eq!(got, frames);
    }
}

#[test]
fn a_huge_length_in_every_place_is_refused() {
    // If the length were trusted, the allocation would exceed any machine's memory.
    let huge = Bytes::from(i32::MAX.to_be_bytes().repeat(50));
    for op in OpCode::ALL {
        let _ = Request::decode(*op, &mut Reader::new(huge.clone()));
        let _ = Reply::decode(*op, &mut Reader::new(huge.clone()));
        let _ = Txn::decode(*op, &mut Reader::new(huge.clone()));
    }
    let error = CreateRequest::decode(huge.clone()).unwrap_err();
    assert_eq!(error.cause, Cause::Short { needed: i32::MAX as usize, left: 196 });
    let error = GetEphemeralsResponse::decode(huge).unwrap_err();
    assert_eq!(error.cause, Cause::Short { needed: i32::MAX as usize * 4, left: 196 });
}

#[test]
fn an_error_names_record_field_and_place() {
    let request = CreateRequest { path: "/a".into(), data: None, acl: vec![], flags: 0 }.encode();
    let error = CreateRequest::decode(request.slice(..8)).unwrap_err();
    assert_eq!(error.to_string(), "CreateRequest.data at byte 6: needs 4 bytes, got 2");
}

#[test]
fn a_null_path_is_no_path() {
    let error = DeleteRequest::decode(Bytes::from_static(&[0xff; 8])).unwrap_err();
    assert_eq!(error.place, Place::new("DeleteRequest", "path"));
    assert_eq!(error.cause, Cause::Null);
}

#[test]
fn a_read_in_a_multi_and_a_write_in_a_multi_read_are_refused() {
    let read = MultiReadRequest { ops: vec![MultiReadOp::GetData(GetDataRequest { path: "/a".into(), watch: false })] };
    let error = MultiRequest::decode(read.encode()).unwrap_err();
    assert_eq!(error.cause, Cause::Misplaced { expected: "a write in a multi", got: OpCode::GetData });
    let write = MultiRequest { ops: vec![MultiOp::Delete(DeleteRequest { path: "/a".into(), version: 1 })] };
    let error = MultiReadRequest::decode(write.encode()).unwrap_err();
    assert_eq!(error.cause, Cause::Misplaced { expected: "a read in a multiRead", got: OpCode::Delete });
}

#[test]
fn a_multi_within_a_multi_is_not_followed_down() {
    let mut bytes = MultiTxn { txns: vec![] }.encode();
    for _ in 0..1000 {
        let mut writer = Writer::new();
        writer.length(1);
        writer.int(OpCode::Multi.number());
        writer.buffer(Some(&bytes));
        bytes = writer.into_bytes();
    }
    let error = MultiTxn::decode(bytes).unwrap_err();
    assert_eq!(error.cause, Cause::Misplaced { expected: "the type of a transaction", got: OpCode::Multi });
}

#[test]
fn a_buffer_too_short_for_its_transaction_is_not_waited_for() {
    let mut writer = Writer::new();
    writer.length(1);
    writer.int(OpCode::Delete.number());
    writer.buffer(Some(&[0, 0]));
    let error = MultiTxn::decode(writer.into_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "DeleteTxn.path at byte 12: needs 4 bytes, got a buffer with 2");
    assert!(!error.is_short());
}

#[test]
fn requests_that_no_client_makes_are_refused() {
    for op in [OpCode::Notification, OpCode::CreateSession, OpCode::Error] {
        let error = Request::decode(op, &mut Reader::new(Bytes::new())).unwrap_err();
        assert_eq!(error.cause, Cause::Misplaced { expected: "the operation of a Request", got: op });
    }
}

#[test]
fn an_unknown_operation_is_named() {
    let error = RequestHeader { xid: 1, op: 99 }.operation().unwrap_err();
    assert_eq!(error.to_string(), "RequestHeader.op at byte 8: expected the number of an operation, got 99");
}
