//! A replacement for the crate `testcontainers` in the tests of the crate `zookeeper-client`. A container becomes a
//! local server process of a product of our choice.
//!
//! Environment variables:
//!
//! - `COMPAT_PRODUCT`: `Pole` or `Apache`.
//! - `COMPAT_SERVER`: the command that starts a server, one word per line. The path of its `zoo.cfg` is appended.
//! - `COMPAT_LOGS`: the folder for the files and logs of the servers.
//!
//! The tests stay as published, so a different result is caused by the server. Volumes of a container become local
//! paths, its port 2181 becomes a free port, and its Java flags become arguments for Apache and lines of `zoo.cfg`
//! for Pole.
//!
//! Only the given version of ZooKeeper is available. Tests that need another must be skipped.

mod server;

/// Replaces `testcontainers::clients`.
pub mod clients {
    use crate::core::{Container, RunnableImage};
    use crate::images::generic::GenericImage;

    /// Stands for the container runtime.
    #[derive(Default)]
    pub struct Cli;

    impl Cli {
        /// Starts a server and waits until it serves.
        ///
        /// # Panics
        /// If the server does not serve, because the test cannot continue.
        #[must_use]
        pub fn run(&self, image: RunnableImage<GenericImage>) -> Container<'_, GenericImage> {
            Container::start_new(&image)
        }
    }
}

/// Replaces `testcontainers::core`.
pub mod core {
    use std::marker::PhantomData;
    use std::sync::Mutex;
    use std::time::Duration;

    use crate::server::{Server, Wanted};

    /// A health check. Ignored, because we ask the server itself.
    #[derive(Default)]
    pub struct Healthcheck;

    impl Healthcheck {
        /// Ignored.
        #[must_use]
        pub fn with_cmd<'a>(self, _words: impl Iterator<Item = &'a &'a str>) -> Self {
            self
        }

        /// Ignored.
        #[must_use]
        pub fn with_interval(self, _interval: Duration) -> Self {
            self
        }

        /// Ignored.
        #[must_use]
        pub fn with_retries(self, _retries: u32) -> Self {
            self
        }
    }

    /// The condition to wait for after the start.
    pub enum WaitFor {
        /// The server serves.
        Healthcheck,
    }

    /// An image with its files and its network.
    pub struct RunnableImage<I> {
        pub(crate) wanted: Wanted,
        pub(crate) image: PhantomData<I>,
    }

    impl<I> RunnableImage<I> {
        /// Maps a local file or folder to a path in the container.
        #[must_use]
        pub fn with_volume(mut self, (here, there): (&str, &str)) -> Self {
            self.wanted.volumes.push((there.to_owned(), here.into()));
            self
        }

        /// With `host`, the ports of the configuration are used unchanged.
        #[must_use]
        pub fn with_network(mut self, name: &str) -> Self {
            self.wanted.keeps_ports = name == "host";
            self
        }
    }

    /// A running server, which is killed on drop.
    pub struct Container<'d, I> {
        server: Mutex<Server>,
        lifetime: PhantomData<&'d I>,
    }

    impl<I> Container<'_, I> {
        pub(crate) fn start_new(image: &RunnableImage<I>) -> Self {
            let mut server = Server::prepare(&image.wanted);
            server.start();
            server.wait_ready();
            Self { server: Mutex::new(server), lifetime: PhantomData }
        }

        /// Stops the server in an orderly way.
        pub fn stop(&self) {
            self.server().stop();
        }

        /// Restarts the server on its files, without waiting for it.
        pub fn start(&self) {
            self.server().start();
        }

        /// The local port that replaces the client port of the container.
        #[must_use]
        pub fn get_host_port(&self, _port: u16) -> u16 {
            self.server().client_port()
        }

        /// The log of the server.
        #[must_use]
        pub fn stdout(&self) -> LogStream {
            LogStream { port: self.server().plain_port() }
        }

        fn server(&self) -> std::sync::MutexGuard<'_, Server> {
            self.server.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    /// The log of a server.
    pub struct LogStream {
        port: u16,
    }

    impl LogStream {
        /// Waits for the state that this message of Apache's log announces. Logs differ, so the server is asked
        /// instead.
        ///
        /// # Errors
        /// If the state is not reached in time.
        ///
        /// # Panics
        /// If the message is unknown.
        pub fn wait_for_message(&self, message: &str) -> Result<(), String> {
            assert_eq!(message, "Read-only server started", "no question stands for this message");
            crate::server::wait_for_mode(self.port, "read-only")
        }
    }
}

/// Replaces `testcontainers::images`.
pub mod images {
    /// Replaces `testcontainers::images::generic`.
    pub mod generic {
        use std::marker::PhantomData;

        use crate::core::{Healthcheck, RunnableImage, WaitFor};
        use crate::server::Wanted;

        /// The image of a ZooKeeper server.
        pub struct GenericImage {
            wanted: Wanted,
        }

        impl GenericImage {
            /// Ignores name and tag, because there is only one image.
            #[must_use]
            pub fn new(_name: &str, _tag: &str) -> Self {
                Self { wanted: Wanted::default() }
            }

            /// Takes the settings from `SERVER_JVMFLAGS`, where Apache expects them as Java properties. Ignores other
            /// variables.
            #[must_use]
            pub fn with_env_var(mut self, name: &str, value: String) -> Self {
                if name == "SERVER_JVMFLAGS" {
                    self.wanted.properties = value.split_whitespace().map(str::to_owned).collect();
                }
                self
            }

            /// Ignored: we ask the server itself.
            #[must_use]
            pub fn with_healthcheck(self, _check: Healthcheck) -> Self {
                self
            }

            /// Ignored: we always wait.
            #[must_use]
            pub fn with_wait_for(self, _what: WaitFor) -> Self {
                self
            }
        }

        impl From<GenericImage> for RunnableImage<GenericImage> {
            fn from(image: GenericImage) -> Self {
                Self { wanted: image.wanted, image: PhantomData }
            }
        }
    }
}
