//! multi: several writes, all or none, at one place of the history.
//!
//! A multi that fails is a transaction too. Its parts before the culprit stand in it as they were meant, the culprit as
//! its error, those after it as `RuntimeInconsistency`; the error is what tells every server to apply nothing.

use alloc::vec::Vec;

use bytes::Bytes;
use pole_jute::{
    ErrorCode, ErrorTxn, MultiOp, MultiRequest, MultiResponse, MultiResult, MultiTxn, Record, Txn, TxnHeader,
};

use super::{check, create, delete, set_data};
use crate::apply::apply_one;
use crate::desk::Desk;
use crate::{Changes, Tree};

pub(crate) fn prepare(desk: &mut Desk, request: MultiRequest) -> MultiTxn {
    let mut txns = Vec::with_capacity(request.ops.len());
    let mut failed = false;
    for op in request.ops {
        let decided = if failed { Err(ErrorCode::RuntimeInconsistency) } else { prepare_part(desk, op) };
        failed |= decided.is_err();
        txns.push(decided.unwrap_or_else(|code| Txn::Error(ErrorTxn::from(code))));
    }
    if failed {
        desk.overlay.take_back();
    }
    MultiTxn { txns }
}

fn prepare_part(desk: &mut Desk, op: MultiOp) -> Result<Txn, ErrorCode> {
    match op {
        MultiOp::Create(request) => create::prepare(desk, create::Form::Create, request),
        MultiOp::Create2(request) => create::prepare(desk, create::Form::Create2, request),
        MultiOp::CreateContainer(request) => create::prepare(desk, create::Form::Container, request),
        MultiOp::CreateTtl(request) => create::prepare_ttl(desk, request),
        MultiOp::Delete(request) => delete::prepare(desk, request),
        MultiOp::SetData(request) => set_data::prepare(desk, request),
        MultiOp::Check(request) => check::prepare(desk, request),
    }
}

/// Returns the body of the reply, if wanted.
pub(crate) fn apply(
    tree: &mut Tree,
    header: &TxnHeader,
    multi: &MultiTxn,
    want_reply: bool,
    changes: &mut Changes,
) -> Option<Bytes> {
    if multi.txns.iter().any(|txn| matches!(txn, Txn::Error(_))) {
        return want_reply.then(|| failure(multi));
    }
    let mut results = Vec::new();
    for txn in &multi.txns {
        let done = apply_one(tree, header, txn, changes);
        if want_reply {
            results.push(done.map_or_else(MultiResult::Error, |done| done.result(tree)));
        }
    }
    want_reply.then(|| MultiResponse { results }.encode())
}

fn failure(multi: &MultiTxn) -> Bytes {
    let code = |txn: &Txn| match txn {
        Txn::Error(error) => error.code().unwrap_or(ErrorCode::SystemError),
        Txn::Create(_)
        | Txn::Create2(_)
        | Txn::CreateContainer(_)
        | Txn::CreateTtl(_)
        | Txn::Delete(_)
        | Txn::DeleteContainer(_)
        | Txn::SetData(_)
        | Txn::Reconfig(_)
        | Txn::SetAcl(_)
        | Txn::Check(_)
        | Txn::CreateSession(_)
        | Txn::CloseSession(_)
        | Txn::Multi(_) => ErrorCode::Ok,
    };
    let results = multi.txns.iter().map(|txn| MultiResult::Error(code(txn))).collect();
    MultiResponse { results }.encode()
}
