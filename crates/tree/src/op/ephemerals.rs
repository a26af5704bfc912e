//! getEphemerals: the session's own nodes.

use alloc::string::ToString;

use pole_jute::{ErrorCode, GetEphemeralsRequest, GetEphemeralsResponse, Record, Writer};

use crate::read::Reading;

pub(crate) fn read(
    desk: &Reading,
    session: i64,
    request: &GetEphemeralsRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    let prefix = request.prefix_path.as_deref().filter(|prefix| !matches!(prefix.trim(), "" | "/"));
    let paths = desk.tree.ephemerals(session).into_iter();
    let matching = paths.filter(|path| prefix.is_none_or(|prefix| path.starts_with(prefix)));
    GetEphemeralsResponse { ephemerals: matching.map(|path| path.to_string()).collect() }.write(reply);
    Ok(())
}
