//! The topology of emulated links, or, in a build without the feature `emulation`, types of which there are no values.
//!
//! A production build then contains no code that delays messages: the compiler removes what needs a value of these types.
//! A configuration that names a topology is refused.

#[cfg(not(feature = "emulation"))]
pub(crate) use absent::{Link, Topology};
#[cfg(feature = "emulation")]
pub(crate) use pole_topology::{Link, Topology};

#[cfg(not(feature = "emulation"))]
mod absent {
    use std::iter::Empty;

    /// A topology. There is none in this build.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Topology {}

    /// One direction of an emulated link. There is none in this build.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Link {}

    /// A server of a topology.
    pub(crate) struct Server {
        pub(crate) id: u64,
    }

    /// Why a topology cannot be read.
    #[derive(Debug, thiserror::Error)]
    #[error("delays cannot be emulated: Pole was built without the feature `emulation`")]
    pub(crate) struct NotBuilt;

    impl NotBuilt {
        pub(crate) fn in_file(self, _file: impl Into<String>) -> Self {
            self
        }
    }

    impl Topology {
        pub(crate) fn parse(_text: &str) -> Result<Self, NotBuilt> {
            Err(NotBuilt)
        }

        pub(crate) fn site(&self, _server: u64) -> Option<&str> {
            match *self {}
        }

        pub(crate) fn servers(&self) -> Empty<Server> {
            match *self {}
        }

        pub(crate) fn is_cut(&self, _from: u64, _to: u64) -> bool {
            match *self {}
        }

        pub(crate) fn link(&self, _from: u64, _to: u64) -> Option<Link> {
            match *self {}
        }
    }

    impl Link {
        pub(crate) fn occupied(&self, _bytes: u64) -> u64 {
            match *self {}
        }

        pub(crate) fn delay(&self, _random: u64) -> u64 {
            match *self {}
        }
    }
}
