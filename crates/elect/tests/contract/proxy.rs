//! A TCP proxy between one client and its store, which can cut the network.

use std::net::Ipv4Addr;

use pole_elect::contract::Link;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections on loopback. It ends, with all connections, when it is dropped.
pub(crate) struct Proxy {
    port: u16,
    is_cut: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy for the server at this port.
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (is_cut, cut) = watch::channel(false);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, cut.clone()));
            }
        });
        Self { port, is_cut, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Link for Proxy {
    fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Carries bytes until either side closes, or until the cut. Then it holds both connections in silence, and closes them
/// when the network is back.
async fn forward(mut client: TcpStream, port: u16, mut cut: watch::Receiver<bool>) {
    let mut server = None;
    tokio::select! {
        biased;
        is_cut = cut.wait_for(|cut| *cut) => drop(is_cut),
        _ = carry(&mut client, &mut server, port) => return,
    }
    // An error means that the proxy is gone.
    let _ = cut.wait_for(|cut| !*cut).await;
}

async fn carry(client: &mut TcpStream, server: &mut Option<TcpStream>, port: u16) -> std::io::Result<()> {
    let server = server.insert(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?);
    copy_bidirectional(client, server).await.map(drop)
}
