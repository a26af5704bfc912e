//! multi: several writes in one transaction, all or none.
//!
//! A failed multi is a transaction too. It contains the parts before the failed one unchanged, the failed one as its
//! error, and the parts after it as `RuntimeInconsistency`. A server that finds an error in a multi applies none of
//! it.

use alloc::vec::Vec;

use bytes::Bytes;
use pole_jute::{
    ErrorCode, ErrorTxn, MultiOp, MultiRequest, MultiResponse, MultiResult, MultiTxn, Record, Txn, TxnHeader,
};

use super::{check, create, delete, set_data};
use crate::apply::apply_one;
use crate::validation::Validation;
use crate::{Changes, Tree};

pub(crate) fn prepare(validation: &mut Validation, request: MultiRequest) -> MultiTxn {
    let mut txns = Vec::with_capacity(request.ops.len());
    let mut failed = false;
    for op in request.ops {
        let decided = if failed { Err(ErrorCode::RuntimeInconsistency) } else { prepare_part(validation, op) };
        failed |= decided.is_err();
        txns.push(decided.unwrap_or_else(|code| Txn::Error(ErrorTxn::from(code))));
    }
    if failed {
        validation.overlay.roll_back();
    }
    MultiTxn { txns }
}

fn prepare_part(validation: &mut Validation, op: MultiOp) -> Result<Txn, ErrorCode> {
    match op {
        MultiOp::Create(request) => create::prepare(validation, create::CreateOp::Create, request),
        MultiOp::Create2(request) => create::prepare(validation, create::CreateOp::Create2, request),
        MultiOp::CreateContainer(request) => create::prepare(validation, create::CreateOp::Container, request),
        MultiOp::CreateTtl(request) => create::prepare_ttl(validation, request),
        MultiOp::Delete(request) => delete::prepare(validation, request),
        MultiOp::SetData(request) => set_data::prepare(validation, request),
        MultiOp::Check(request) => check::prepare(validation, request),
    }
}

/// Applies all parts, and returns the body of the reply if wanted.
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
        let outcome = apply_one(tree, header, txn, changes);
        if want_reply {
            results.push(outcome.map_or_else(MultiResult::Error, |outcome| outcome.result(tree)));
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
