//! The JSON of the admin port (`/v1`): one type for each request and each answer.
//!
//! The server writes these types, and the command line reads them. `docs/api.schema.json` is generated from them.
//!
//! The two sides may be of different releases. A field that is missing has its default, and an unknown field of an
//! answer is ignored. A request with an unknown field is refused, because its sender expects an effect.
//!
//! ```
//! let health = r#"{"id": 1, "mode": "leader", "leader": 1, "epoch": 3, "zxid": "0x300000007", "quorum": true}"#;
//! let health: pole_api::Health = serde_json::from_str(health)?;
//! assert_eq!(health.leader, Some(health.id));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod answers;
pub mod commands;
mod dashboard;
mod requests;
mod up;
mod what_if;
pub mod words;

pub use answers::{
    Election, Ensemble, Health, Member, Members, OracleChosen, OracleInForce, OracleScores, Proposal, Quorum, Refusal,
    Scores, Server, ServerScore, Step, Transferred,
};
pub use dashboard::{AclEntry, Capabilities, Clients, Measured, NodeStat, NodeView, Snapshot};
pub use requests::{ChangeMembers, ChooseOracle, Param, SetScore, Transfer};
pub use up::{UpChooseServer, UpCutSite, UpLink, UpLoad, UpServer, UpSetLink, UpSetLoad, UpState, UpTour};
pub use what_if::{WhatIf, WhatIfs};
