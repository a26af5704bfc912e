//! exists. It needs no permission, and its watch may be set on a node that does not exist yet.

use core::ops::DerefMut;

use pole_jute::{ErrorCode, ExistsRequest, Record, Writer};

use crate::Watches;
use crate::read::ReadContext;
use crate::watches::Modes;

pub(crate) fn read<W: DerefMut<Target = Watches>>(
    context: &ReadContext,
    watches: impl FnOnce() -> W,
    request: &ExistsRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    if request.path.contains('\0') {
        return Err(ErrorCode::BadArguments);
    }
    context.watch(watches, request.watch, &request.path, Modes::DATA)?;
    let node = context.find(&request.path).ok_or(ErrorCode::NoNode)?;
    node.client_stat().write(reply);
    Ok(())
}
