//! getEphemerals: the session's own nodes.

use pole_jute::{ErrorCode, GetEphemeralsRequest, Writer};

use crate::read::Reading;

pub(crate) fn read(
    desk: &Reading,
    session: i64,
    request: &GetEphemeralsRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    let prefix = request.prefix_path.as_deref().filter(|prefix| !matches!(prefix.trim(), "" | "/"));
    let is_asked = |path: &&str| prefix.is_none_or(|prefix| path.starts_with(prefix));
    // As the vector of a record, without copying the paths first: there may be many.
    reply.length(desk.tree.ephemeral_paths(session).filter(is_asked).count());
    for path in desk.tree.ephemeral_paths(session).filter(is_asked) {
        if reply.is_over_limit() {
            break;
        }
        reply.string(path);
    }
    Ok(())
}
