//! Tests of the election as a stranger sees it: through its public door only.
//!
//! `claims`: one test per claim of the paper and per correction of it. `network`: whole ensembles on a network that
//! loses, doubles, delays and reorders. `order`: the laws of the order. `records`: what a record says.

mod claims;
mod desk;
mod net;
mod network;
mod order;
mod records;
