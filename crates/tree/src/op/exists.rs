//! exists. It needs no permission, and its watch may wait for a node that is yet to come.

use core::ops::DerefMut;

use pole_jute::{ErrorCode, ExistsRequest, Record, Writer};

use crate::Watches;
use crate::read::Reading;
use crate::watches::Modes;

pub(crate) fn read<W: DerefMut<Target = Watches>>(
    desk: &Reading,
    watches: impl FnOnce() -> W,
    request: &ExistsRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    if request.path.contains('\0') {
        return Err(ErrorCode::BadArguments);
    }
    desk.watch(watches, request.watch, &request.path, Modes::DATA)?;
    let node = desk.find(&request.path).ok_or(ErrorCode::NoNode)?;
    node.shown().write(reply);
    Ok(())
}
