//! Records against themselves, against Apache's own bytes, and against damage.

mod apache;
mod damage;
mod golden;
mod round_trips;
mod samples;
