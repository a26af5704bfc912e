//! Stands where the tests of the crate `zookeeper-client` expect `testcontainers`: what they ask for as a container is a server
//! process of our choice, on this machine.
//!
//! In: `COMPAT_PRODUCT`, `Pole` or `Apache`; `COMPAT_SERVER`, the command that starts a server, a word to a line, to which the path
//! of its `zoo.cfg` is added; `COMPAT_LOGS`, a folder for what servers say.
//! Why: the tests stay as they were published, so a difference is a difference of the servers.
//! How: a container's files (volumes) become paths on this machine, its port 2181 a free one, and what its environment says to Java
//! becomes words of the command for Apache and lines of `zoo.cfg` for Pole.
//! Not here: other versions of ZooKeeper than the one given; tests that ask for one must be left out.

mod server;

/// Where images are run.
pub mod clients {
    use crate::core::{Container, RunnableImage};
    use crate::images::generic::GenericImage;

    /// The program that runs containers, if there were any.
    #[derive(Default)]
    pub struct Cli;

    impl Cli {
        /// Starts a server and waits until it serves.
        ///
        /// # Panics
        /// If it does not: the test cannot go on.
        #[must_use]
        pub fn run(&self, image: RunnableImage<GenericImage>) -> Container<'_, GenericImage> {
            Container::start_new(&image)
        }
    }
}

/// What is run.
pub mod core {
    use std::marker::PhantomData;
    use std::sync::Mutex;
    use std::time::Duration;

    use crate::server::{Server, Wanted};

    /// How one would see that a container is up; we ask the server itself.
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

    /// What to wait for after the start.
    pub enum WaitFor {
        /// That it serves.
        Healthcheck,
    }

    /// An image with its files and its network.
    pub struct RunnableImage<I> {
        pub(crate) wanted: Wanted,
        pub(crate) image: PhantomData<I>,
    }

    impl<I> RunnableImage<I> {
        /// A file or folder here, and where the container would see it.
        #[must_use]
        pub fn with_volume(mut self, (here, there): (&str, &str)) -> Self {
            self.wanted.volumes.push((there.to_owned(), here.into()));
            self
        }

        /// `host`: the ports of the configuration are to be taken as they are.
        #[must_use]
        pub fn with_network(mut self, name: &str) -> Self {
            self.wanted.keeps_ports = name == "host";
            self
        }
    }

    /// A running server. Ends with it.
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

        /// Ends the server in an orderly way.
        pub fn stop(&self) {
            self.server().stop();
        }

        /// Starts it again on its files, without waiting for it.
        pub fn start(&self) {
            self.server().start();
        }

        /// The port of this machine that stands for one of the container.
        #[must_use]
        pub fn get_host_port(&self, _port: u16) -> u16 {
            self.server().client_port()
        }

        /// What the server says.
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
        /// Waits for what Apache's log would say. Logs differ, so the server is asked instead.
        ///
        /// # Errors
        /// If it does not come to be.
        ///
        /// # Panics
        /// If we know no question for this message.
        pub fn wait_for_message(&self, message: &str) -> Result<(), String> {
            assert_eq!(message, "Read-only server started", "no question stands for this message");
            crate::server::wait_for_mode(self.port, "read-only")
        }
    }
}

/// What may be run.
pub mod images {
    /// Any image; here, ZooKeeper.
    pub mod generic {
        use std::marker::PhantomData;

        use crate::core::{Healthcheck, RunnableImage, WaitFor};
        use crate::server::Wanted;

        /// An image by its name.
        pub struct GenericImage {
            wanted: Wanted,
        }

        impl GenericImage {
            /// The image of this name; there is only one.
            #[must_use]
            pub fn new(_name: &str, _tag: &str) -> Self {
                Self { wanted: Wanted::default() }
            }

            /// Flags for the virtual machine of the server are the settings that Apache takes as properties.
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
