//! getData.

use core::ops::DerefMut;

use pole_jute::{ErrorCode, GetDataRequest, Record, Writer};

use crate::Watches;
use crate::read::Reading;
use crate::watches::Modes;

pub(crate) fn read<W: DerefMut<Target = Watches>>(
    desk: &Reading,
    watches: impl FnOnce() -> W,
    request: &GetDataRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    let node = desk.readable(&request.path)?;
    desk.watch(watches, request.watch, &request.path, Modes::DATA)?;
    // As the record would be written, without making one: the data is copied once, to where it is sent from.
    reply.buffer(node.data.as_deref());
    node.shown().write(reply);
    Ok(())
}
