//! getData.

use core::ops::DerefMut;

use pole_jute::{ErrorCode, GetDataRequest, Record, Writer};

use crate::Watches;
use crate::read::ReadContext;
use crate::watches::Modes;

pub(crate) fn read<W: DerefMut<Target = Watches>>(
    context: &ReadContext,
    watches: impl FnOnce() -> W,
    request: &GetDataRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    let node = context.readable(&request.path)?;
    context.watch(watches, request.watch, &request.path, Modes::DATA)?;
    // Encodes the record directly, so that the data is copied only once, into the send buffer.
    reply.buffer(node.data.as_deref());
    node.client_stat().write(reply);
    Ok(())
}
