//! getEphemerals: the ephemeral nodes of the caller's session.

use pole_jute::{ErrorCode, GetEphemeralsRequest, Writer};

use crate::read::ReadContext;

pub(crate) fn read(
    context: &ReadContext,
    session: i64,
    request: &GetEphemeralsRequest,
    reply: &mut Writer,
) -> Result<(), ErrorCode> {
    let prefix = request.prefix_path.as_deref().filter(|prefix| !matches!(prefix.trim(), "" | "/"));
    let has_prefix = |path: &&str| prefix.is_none_or(|prefix| path.starts_with(prefix));
    // Encodes the paths like a vector of strings, without copying them first: there may be many.
    reply.length(context.tree.ephemeral_paths(session).filter(has_prefix).count());
    for path in context.tree.ephemeral_paths(session).filter(has_prefix) {
        if reply.is_over_limit() {
            break;
        }
        reply.string(path);
    }
    Ok(())
}
