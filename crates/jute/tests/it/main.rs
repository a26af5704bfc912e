//! Round trips of records, comparison with Apache's encoding, and malformed input.

mod apache;
mod damage;
mod golden;
mod round_trips;
mod samples;
