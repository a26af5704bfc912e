//! A snapshot on its way: cut into parts by the sender, put together by the receiver.
//!
//! Holds: parts come in order on one link; whatever does not continue what is there is refused, and the link closed.

use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::ServerId;

use crate::{Snapshot, SnapshotPart};

/// What has arrived of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Incoming {
    from: ServerId,
    /// The first part, whose body has grown.
    first: SnapshotPart,
    body: Vec<u8>,
}

/// A part that does not continue the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfPlace;

impl Incoming {
    /// Takes a part in; returns the snapshot when it is whole.
    pub(crate) fn take(
        slot: &mut Option<Self>,
        from: ServerId,
        part: SnapshotPart,
    ) -> Result<Option<Snapshot>, OutOfPlace> {
        if part.offset == 0 {
            *slot = Some(Self { from, first: SnapshotPart { body: Bytes::new(), ..part.clone() }, body: Vec::new() });
        }
        let incoming = slot.as_mut().ok_or(OutOfPlace)?;
        let continues = incoming.from == from
            && incoming.first.zxid == part.zxid
            && incoming.first.total == part.total
            && incoming.body.len() == part.offset
            && part.total.checked_sub(part.offset).is_some_and(|rest| rest >= part.body.len());
        if !continues {
            return Err(OutOfPlace);
        }
        incoming.body.extend_from_slice(&part.body);
        if incoming.body.len() < part.total {
            return Ok(None);
        }
        let whole = slot.take();
        Ok(whole.map(|i| Snapshot { zxid: i.first.zxid, epochs: i.first.epochs, body: Bytes::from(i.body).into() }))
    }
}

/// The parts of a snapshot, each of at most `bytes_max`.
pub(crate) fn parts(snapshot: &Snapshot, bytes_max: usize) -> impl Iterator<Item = SnapshotPart> + '_ {
    let body = snapshot.body.to_bytes();
    let total = body.len();
    let step = bytes_max.max(1);
    let offsets = core::iter::once(0).chain((step..total).step_by(step));
    offsets.map(move |offset| SnapshotPart {
        zxid: snapshot.zxid,
        epochs: snapshot.epochs.clone(),
        total,
        offset,
        body: body.slice(offset..total.min(offset + step)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Epochs;
    use pole_election::{Epoch, Zxid};

    fn snapshot(body: &'static [u8]) -> Snapshot {
        let zxid = Zxid::new(Epoch(1), 1);
        Snapshot { zxid, epochs: Epochs::starting_at(zxid), body: Bytes::from_static(body).into() }
    }

    #[test]
    fn a_snapshot_comes_out_of_its_parts_whatever_their_size() {
        for body in [&b""[..], b"a", b"abcdefgh"] {
            for size in [1, 3, 8, 100] {
                let whole = snapshot(body);
                let mut slot = None;
                let taken: Vec<_> =
                    parts(&whole, size).map(|part| Incoming::take(&mut slot, ServerId(1), part).unwrap()).collect();
                let (last, before) = taken.split_last().unwrap();
                assert_eq!(last.as_ref(), Some(&whole));
                assert!(before.iter().all(Option::is_none));
            }
        }
    }

    #[test]
    fn a_part_out_of_place_is_refused() {
        let whole = snapshot(b"abcdefgh");
        let parts: Vec<_> = parts(&whole, 3).collect();
        let mut slot = None;
        assert_eq!(Incoming::take(&mut slot, ServerId(1), parts[1].clone()), Err(OutOfPlace));
        assert_eq!(Incoming::take(&mut slot, ServerId(1), parts[0].clone()), Ok(None));
        assert_eq!(Incoming::take(&mut slot, ServerId(2), parts[1].clone()), Err(OutOfPlace));
        assert_eq!(Incoming::take(&mut slot, ServerId(1), parts[2].clone()), Err(OutOfPlace));
    }
}
