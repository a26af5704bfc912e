//! reconfig. The reply is a `GetDataResponse` with the new configuration.

use alloc::string::String;

use crate::record::record;

record! {
    /// reconfig: either who joins and leaves, or all members anew.
    pub struct ReconfigRequest {
        /// Servers to add or change, separated by commas.
        pub joining_servers: Option<String>,
        /// Ids of servers to remove, separated by commas.
        pub leaving_servers: Option<String>,
        /// All servers of the new ensemble.
        pub new_members: Option<String>,
        /// The version that the configuration must have; -1 for any.
        pub cur_config_id: i64,
    }
}
