//! What a server measures and hears: each quantity in a file of its own, gathered in `Measurements`.

mod bandwidths;
mod disk_times;
mod hearsay;
mod measurements;
mod report;
mod request_rate;
mod round_trips;

pub use bandwidths::Bandwidths;
pub use disk_times::DiskTimes;
pub(crate) use measurements::Heard;
pub use measurements::{InvalidProbe, MeasureConfig, Measurements};
pub use report::{Gossip, Report};
pub use request_rate::RequestRate;
pub(crate) use request_rate::decayed;
pub use round_trips::RoundTrips;
