//! The packets between a leader of Apache ZooKeeper and its learners.
//!
//! A packet is a type, a zxid, data, and a list of identities, in ZooKeeper's encoding and without a length in front, so
//! its end is found field by field. Every length is checked before anything is allocated for it.

use bytes::{Buf, Bytes, BytesMut};
use pole_jute::Writer;

/// The types of packets that a learner sends or receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A transaction that is not committed yet.
    Proposal,
    /// The learner has what the zxid names.
    Ack,
    /// The proposal with this zxid is committed.
    Commit,
    /// A sign of life; from the leader with the last zxid that it proposed.
    Ping,
    /// About a session of a client of this learner.
    Revalidate,
    /// The answer to a `sync` of a client of this learner.
    Sync,
    /// A committed transaction, for an observer.
    Inform,
    /// Like `Commit`, of a transaction that changes the ensemble.
    CommitAndActivate,
    /// The history of the leader is complete up to here; with the configuration of the ensemble.
    NewLeader,
    /// The ensemble is established.
    UpToDate,
    /// The transactions that the learner lacks follow.
    Diff,
    /// The learner has to drop what comes after the zxid.
    Trunc,
    /// The whole state follows.
    Snap,
    /// The first packet of an observer.
    ObserverInfo,
    /// The first packet of the leader, with its epoch.
    LeaderInfo,
    /// The answer to it, with the learner's last zxid.
    AckEpoch,
    /// Like `Inform`, of a transaction that changes the ensemble.
    InformAndActivate,
    /// A type that a learner never gets, or one of a later release.
    Other(i32),
}

const NUMBERS: [(i32, Kind); 17] = [
    (2, Kind::Proposal),
    (3, Kind::Ack),
    (4, Kind::Commit),
    (5, Kind::Ping),
    (6, Kind::Revalidate),
    (7, Kind::Sync),
    (8, Kind::Inform),
    (9, Kind::CommitAndActivate),
    (10, Kind::NewLeader),
    (12, Kind::UpToDate),
    (13, Kind::Diff),
    (14, Kind::Trunc),
    (15, Kind::Snap),
    (16, Kind::ObserverInfo),
    (17, Kind::LeaderInfo),
    (18, Kind::AckEpoch),
    (19, Kind::InformAndActivate),
];

impl Kind {
    fn of(number: i32) -> Self {
        NUMBERS.iter().find(|(known, _)| *known == number).map_or(Self::Other(number), |(_, kind)| *kind)
    }

    fn number(self) -> i32 {
        if let Self::Other(number) = self {
            return number;
        }
        NUMBERS.iter().find(|(_, known)| *known == self).map_or(-1, |(number, _)| *number)
    }
}

/// A packet. Its identities are of no interest to a learner and are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it is.
    pub kind: Kind,
    /// Its zxid; -1 where it has no meaning.
    pub zxid: i64,
    /// Null is different from empty.
    pub data: Option<Bytes>,
}

impl Packet {
    /// A packet without identities.
    #[must_use]
    pub fn new(kind: Kind, zxid: i64, data: Option<Bytes>) -> Self {
        Self { kind, zxid, data }
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new();
        writer.int(self.kind.number());
        writer.long(self.zxid);
        writer.buffer(self.data.as_deref());
        // No list of identities.
        writer.int(-1);
        writer.into_bytes()
    }

    /// Cuts the next packet off the received bytes; `None` until all of it has arrived.
    ///
    /// # Errors
    /// If no continuation can make the bytes a packet of at most `bytes_max` bytes.
    pub fn cut(arrived: &mut BytesMut, bytes_max: usize) -> Result<Option<Self>, PacketError> {
        let Some(size) = size(arrived, bytes_max)? else { return Ok(None) };
        let mut packet = arrived.split_to(size).freeze();
        let (kind, zxid, length) = (Kind::of(packet.get_i32()), packet.get_i64(), packet.get_i32());
        let data = usize::try_from(length).ok().map(|length| packet.split_to(length));
        Ok(Some(Self { kind, zxid, data }))
    }
}

/// The size of the packet at the start of `arrived`, if all of it has arrived.
fn size(arrived: &[u8], bytes_max: usize) -> Result<Option<usize>, PacketError> {
    let mut at = 4 + 8;
    let Some(()) = skip_buffer(arrived, &mut at, bytes_max)? else { return Ok(None) };
    let Some(count) = int_at(arrived, at) else { return Ok(None) };
    at += 4;
    if count > IDENTITIES_MAX {
        return Err(PacketError { field: "identities", got: count, max: IDENTITIES_MAX as usize });
    }
    // Each is a scheme and an id.
    for _ in 0..count.max(0) * 2 {
        let Some(()) = skip_buffer(arrived, &mut at, bytes_max)? else { return Ok(None) };
    }
    Ok((at <= arrived.len()).then_some(at))
}

/// Moves `at` behind a buffer; `None` if its length has not arrived. Its content may lie beyond what has arrived.
fn skip_buffer(arrived: &[u8], at: &mut usize, bytes_max: usize) -> Result<Option<()>, PacketError> {
    let Some(got) = int_at(arrived, *at) else { return Ok(None) };
    let length = if got == -1 { Some(0) } else { usize::try_from(got).ok() };
    let end = length.and_then(|length| (*at + 4).checked_add(length)).filter(|end| *end <= bytes_max);
    *at = end.ok_or(PacketError { field: "length", got, max: bytes_max })?;
    Ok(Some(()))
}

fn int_at(arrived: &[u8], at: usize) -> Option<i32> {
    arrived.get(at..)?.first_chunk().copied().map(i32::from_be_bytes)
}

/// Bytes that are no packet. The connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a packet of at most {max} bytes, got {field} {got}")]
pub struct PacketError {
    /// The field that is wrong.
    pub field: &'static str,
    /// Its value.
    pub got: i32,
    /// The limit.
    pub max: usize,
}

/// A client has a few identities, and the leader sends none.
const IDENTITIES_MAX: i32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> Packet {
        Packet::new(Kind::Inform, 0x1_0000_0002, Some(Bytes::from_static(b"transaction")))
    }

    #[test]
    fn packets_come_out_whole_however_they_arrive() {
        let second = Packet::new(Kind::Ping, -1, None);
        let stream = [&packet().encode()[..], &second.encode()].concat();
        let (mut arrived, mut packets) = (BytesMut::new(), Vec::new());
        for byte in stream {
            arrived.extend_from_slice(&[byte]);
            packets.extend(Packet::cut(&mut arrived, 1_000).unwrap());
        }
        assert_eq!(packets, [packet(), second]);
        assert!(arrived.is_empty());
    }

    #[test]
    fn identities_are_skipped() {
        let mut bytes = packet().encode().to_vec();
        bytes.truncate(bytes.len() - 4);
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, b'i', b'p', 0xff, 0xff, 0xff, 0xff, 9]);
        let mut arrived = BytesMut::from(&bytes[..]);
        assert_eq!(Packet::cut(&mut arrived, 1_000), Ok(Some(packet())));
        assert_eq!(arrived[..], [9], "the next packet is left");
    }

    #[test]
    fn lengths_out_of_range_are_refused_as_soon_as_they_arrive() {
        for length in [-2, i32::MIN, i32::MAX, 1_001] {
            let bytes = [&[0; 12][..], &length.to_be_bytes()].concat();
            let error = Packet::cut(&mut BytesMut::from(&bytes[..]), 1_000).unwrap_err();
            assert_eq!((error.field, error.got), ("length", length));
        }
        let bytes = [&[0; 12][..], &[0xff; 4], &i32::MAX.to_be_bytes()].concat();
        let error = Packet::cut(&mut BytesMut::from(&bytes[..]), 1_000).unwrap_err();
        assert_eq!(error.field, "identities");
    }

    #[test]
    fn a_type_of_a_later_release_is_kept() {
        assert_eq!(Kind::of(99), Kind::Other(99));
        assert_eq!(Kind::Other(99).number(), 99);
        assert!(NUMBERS.iter().all(|(number, kind)| Kind::of(*number) == *kind && kind.number() == *number));
    }
}
