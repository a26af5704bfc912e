//! Tests of connections from anything but a peer (ZK-3769, ZK-2186, ZK-4787).

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::links::{frames, impostor};
use super::*;

#[test]
fn a_storm_of_garbage_disturbs_no_link_and_is_reported() {
    run(async {
        let (mut one, two) = pair(ensemble(2)).await;
        let garbage: [&[u8]; 6] =
            [b"", b"ruok", b"GET / HTTP/1.0\r\n\r\n", &[0xff; 64], &[0; 3], b"Pole\xff\xfe and so on, for ever"];
        for seq in 0..300 {
            for channel in [Channel::Election, Channel::Quorum] {
                let mut stranger = TcpStream::connect(one.address(channel)).await.expect("listens");
                let bytes = garbage[seq as usize % garbage.len()];
                let _ = stranger.write_all(bytes).await;
            }
            one.send(2, &ping(seq));
            one.peers.flush();
            while two.next().await != received(1, ping(seq)) {}
        }
        assert!(one.note().await.starts_with("refused a connection from 127.0.0.1:"));
        let arrivals: Vec<_> = std::iter::from_fn(|| one.inbox.pop()).collect();
        assert!(arrivals.len() < 50, "notes are bounded");
        assert!(arrivals.iter().all(|arrival| *arrival != down(2)), "the link stayed");
    });
}

#[test]
fn silent_strangers_in_any_number_keep_no_peer_out() {
    run(async {
        let mut configs = ensemble(2);
        let two = configs.pop().expect("two");
        let one = Server::open(configs.remove(0)).await;
        let mut silent = Vec::new();
        for _ in 0..200 {
            silent.push(TcpStream::connect(one.address(Channel::Quorum)).await.expect("listens"));
        }
        let two = Server::open(two).await;
        two.linked(1).await;
        // The oldest were dropped although nobody greeted.
        let mut end = [0; 1];
        assert_eq!(silent[0].read(&mut end).await.unwrap_or(0), 0);
        assert!(one.note().await.contains("connections without a greeting: dropped the oldest"));
    });
}

#[test]
fn an_address_that_opens_too_many_connections_is_refused() {
    run(async {
        let one = Server::open(ensemble(2).remove(0)).await;
        let limited = || one.config.counters.limited.load(std::sync::atomic::Ordering::Relaxed);
        let mut opened = 0;
        while limited() == 0 && opened < 2_000 {
            drop(TcpStream::connect(one.address(Channel::Quorum)).await.expect("listens"));
            opened += 1;
        }
        assert!(limited() > 0, "{opened} connections of one address were let in");
    });
}

#[test]
fn bytes_that_are_no_message_close_the_link_with_a_note() {
    run(async {
        let one = Server::open(ensemble(2).remove(0)).await;
        for (bytes, expected) in [
            (&[0, 0, 0, 1, 0xee][..], "expected the kind of a message, got 238"),
            (&[0, 0, 0, 3, 0x33, 1, 2], "Ping.seq"),
            (&[0xff, 0xff, 0xff, 0xff], "a frame of 4294967295 bytes"),
            (&[0x7f, 0xff, 0xff, 0xff], "a frame of 2147483647 bytes"),
        ] {
            let mut peer = impostor(&one).await;
            assert_eq!(one.next().await, up(2));
            peer.write_all(&frames(&ping(1))).await.expect("open");
            peer.write_all(bytes).await.expect("open");
            assert_eq!(one.next().await, received(2, ping(1)));
            let note = one.note().await;
            assert!(note.starts_with("the quorum link with server 2 broke") && note.contains(expected), "{note}");
            assert_eq!(one.next().await, down(2));
        }
    });
}

#[test]
fn servers_of_different_ensembles_do_not_link() {
    run(async {
        let mut configs = ensemble(3);
        let three = configs.pop().expect("three");
        let mut one = configs.remove(0);
        one.peers.remove(&ServerId(2));
        one.members = Voters::new([1, 3].map(ServerId)).into();
        let (one, three) = (Server::open(one).await, Server::open(three).await);
        assert!(one.note().await.contains("is server 3 of an ensemble of other servers"));
        while !three.note().await.contains("is server 1 of an ensemble of other servers") {}
    });
}
