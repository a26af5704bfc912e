//! reconfig. The reply is a `GetDataResponse` with the new configuration.

use alloc::string::String;

use crate::record::record;

record! {
    /// A reconfig request: either servers that join and leave, or the complete list of members.
    pub struct ReconfigRequest {
        /// Servers to add or change, separated by commas.
        pub joining_servers: Option<String>,
        /// Ids of servers to remove, separated by commas.
        pub leaving_servers: Option<String>,
        /// All servers of the new ensemble.
        pub new_members: Option<String>,
        /// The expected version of the configuration; -1 matches any.
        pub cur_config_id: i64,
    }
}
