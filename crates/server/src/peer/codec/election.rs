//! Encoding of election messages, measurements and the shared basic types.

use bytes::BytesMut;
use pole_election::{Input, Proposal, Propose, Rank, Round, Score, Standing, Vote};
use pole_node::TransferRefusal;
use pole_oracle::{Gossip, Report};
use pole_types::{Epoch, ServerId, Span, Zxid};

use super::wire::{Cause, Error, Reader, Wire, newtype, record};

newtype!(ServerId(u64), Epoch(u32), Zxid(u64), Span(u64));
record!(Round { epoch: u64, failed: u32 });
record!(Standing { current_epoch: Epoch, last_zxid: Zxid, accepted_epoch: Epoch });
record!(Input { name: String, value: i64 });
record!(Proposal {
    id: ServerId,
    rank: Rank,
    version: Zxid,
    fingerprint: u64,
    standing: Standing,
    inputs: Vec<Input>,
});
record!(Propose { round: Round, own: Proposal, choice: Proposal, demoted: std::collections::BTreeSet<ServerId> });
record!(Vote { round: Round, choice: Proposal, established: Option<Epoch> });
record!(Gossip { rank: Rank, version: Zxid, fingerprint: u64 });
record!(Report {
    rate_milli: u64,
    standing: Standing,
    lacking: std::collections::BTreeMap<ServerId, u64>,
    bandwidths: std::collections::BTreeMap<ServerId, u64>,
    round_trips: std::collections::BTreeMap<ServerId, Span>,
    fsync_p50: Span,
    fsync_p99: Span,
    after_crash: Gossip,
    before_resignation: Gossip,
});

impl Wire for TransferRefusal {
    const BYTES_MIN: usize = 1;

    fn put(&self, out: &mut BytesMut) {
        match self {
            Self::NotLeading => 0_u8.put(out),
            Self::Alone => 1_u8.put(out),
            Self::UnderWay => 2_u8.put(out),
            Self::NoneFit => 3_u8.put(out),
            Self::NotFollowing(id) => {
                4_u8.put(out);
                id.put(out);
            }
            Self::NotLevel(id) => {
                5_u8.put(out);
                id.put(out);
            }
            Self::MayNotLead(id) => {
                6_u8.put(out);
                id.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        Ok(match from.field("TransferRefusal.kind")? {
            0_u8 => Self::NotLeading,
            1 => Self::Alone,
            2 => Self::UnderWay,
            3 => Self::NoneFit,
            4 => Self::NotFollowing(from.field("TransferRefusal.server")?),
            5 => Self::NotLevel(from.field("TransferRefusal.server")?),
            6 => Self::MayNotLead(from.field("TransferRefusal.server")?),
            got => return Err(from.error(Cause::Unknown { expected: "0 to 6 (a refusal)", got: got.into() })),
        })
    }
}

impl Wire for Rank {
    const BYTES_MIN: usize = 1;

    fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Unknown => 0_u8.put(out),
            Self::Known(score) => {
                1_u8.put(out);
                super::wire::put_list(score.components(), out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Error> {
        match from.field("Rank.kind")? {
            0_u8 => Ok(Self::Unknown),
            1 => Ok(Self::Known(Score::new(from.field("Rank.score")?))),
            got => Err(from.error(Cause::Unknown { expected: "0 (unknown) or 1 (known)", got: got.into() })),
        }
    }
}
