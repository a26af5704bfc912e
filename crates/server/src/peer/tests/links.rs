//! Tests of links: order, replacement, reset, restart, limits.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::handshake;
use super::*;

#[test]
fn every_pair_is_linked_on_both_channels() {
    run(async {
        let mut servers = Vec::new();
        for config in ensemble(3) {
            servers.push(Server::open(config).await);
        }
        for server in &servers {
            let mut ups = Vec::new();
            while ups.len() < 4 {
                if let Arrival::Up { peer, channel, .. } = server.any().await {
                    ups.push((peer, channel));
                }
            }
            ups.sort();
            let others = (1..=3).map(ServerId).filter(|id| *id != server.config.me);
            let all: Vec<_> = others.flat_map(|id| [(id, Channel::Election), (id, Channel::Quorum)]).collect();
            assert_eq!(ups, all);
        }
    });
}

#[test]
fn messages_arrive_in_order_and_whole_in_both_directions() {
    run(async {
        let (mut one, mut two) = pair(ensemble(2)).await;
        let large = proposals(50, 1024);
        for seq in 0..2_000 {
            one.send(2, &ping(seq));
            two.send(1, &ping(seq));
            if seq % 100 == 0 {
                one.send(2, &large);
                one.peers.flush();
            }
        }
        one.peers.flush();
        two.peers.flush();
        for seq in 0..2_000 {
            assert_eq!(two.next().await, received(1, ping(seq)));
            if seq % 100 == 0 {
                assert_eq!(two.next().await, received(1, large.clone()));
            }
            assert_eq!(one.next().await, received(2, ping(seq)));
        }
    });
}

#[test]
fn a_reset_link_brings_nothing_old_and_comes_up_again() {
    run(async {
        let (mut one, mut two) = pair(ensemble(2)).await;
        two.send(1, &ping(1));
        two.send(1, &ping(2));
        two.peers.flush();
        assert_eq!(one.next().await, received(2, ping(1)));
        // The second message is in the inbox, in the socket, or in flight; it must not arrive in any case.
        one.peers.reset(ServerId(2), Channel::Quorum);
        assert_eq!(one.next().await, up(2));
        assert_eq!(two.next().await, down(1));
        assert_eq!(two.next().await, up(1));
        two.send(1, &ping(3));
        two.peers.flush();
        assert_eq!(one.next().await, received(2, ping(3)));
    });
}

#[test]
fn a_reset_by_the_side_that_dials_is_dialled_again() {
    run(async {
        let (one, mut two) = pair(ensemble(2)).await;
        two.peers.reset(ServerId(1), Channel::Quorum);
        assert_eq!(two.next().await, up(1));
        assert_eq!(one.next().await, down(2));
        assert_eq!(one.next().await, up(2));
    });
}

#[test]
fn a_server_that_restarts_is_found_again() {
    run(async {
        let (one, two) = pair(ensemble(2)).await;
        let config = one.config.clone();
        drop(one);
        assert_eq!(two.next().await, down(1));
        let one = Server::open(config).await;
        assert_eq!(two.next().await, up(1));
        one.linked(2).await;
    });
}

#[test]
fn a_new_connection_of_a_peer_replaces_the_old_one() {
    run(async {
        let one = Server::open(ensemble(2).remove(0)).await;
        let mut old = impostor(&one).await;
        assert_eq!(one.next().await, up(2));
        let mut new = impostor(&one).await;
        assert_eq!((one.next().await, one.next().await), (down(2), up(2)));
        // Server 1 closes the old connection, so writing may fail; nothing of it may arrive.
        let _ = old.write_all(&frames(&ping(1))).await;
        new.write_all(&frames(&ping(2))).await.expect("open");
        assert_eq!(one.next().await, received(2, ping(2)));
    });
}

#[test]
fn a_link_that_answers_is_not_given_up_for_a_stranger() {
    run(async {
        let (mut one, two) = pair(ensemble(2)).await;
        for seq in 0..20 {
            let mut stranger = impostor(&one).await;
            // It is closed without an answer, and the link stays open.
            let mut answer = Vec::new();
            stranger.read_to_end(&mut answer).await.expect("closed");
            assert!(answer.is_empty());
            one.send(2, &ping(seq));
            one.peers.flush();
            assert_eq!(two.next().await, received(1, ping(seq)));
        }
        assert!(one.note().await.contains("names itself server 2, whose link is alive"));
        assert_eq!(one.config.counters.kept.load(std::sync::atomic::Ordering::Relaxed), 20);
    });
}

#[test]
fn with_a_secret_a_peer_that_knows_it_is_linked_and_others_are_refused() {
    run(async {
        let mut configs = ensemble(2);
        configs.iter_mut().for_each(|config| config.secret = Some(PeerSecret::new(b"0123456789abcdef")));
        let (one, _two) = pair(configs).await;
        let mut stranger = TcpStream::connect(one.address(Channel::Quorum)).await.expect("listens");
        let ensemble = handshake::ensemble(one.config.peers.keys().copied());
        let (from, to, nonce) = (ServerId(2), ServerId(1), [0; super::super::secret::NONCE_BYTES]);
        let greeting = handshake::Greeting { channel: Channel::Quorum, from, to, ensemble, secret: true, nonce };
        stranger.write_all(&greeting.to_bytes()).await.expect("open");
        stranger.write_all(&[&[handshake::PROCEED][..], &[0; 32]].concat()).await.expect("open");
        let note = one.note().await;
        assert!(note.contains("names itself server 2 and does not know the secret"), "{note}");
        assert!(one.inbox.is_empty(), "the link stayed");
    });
}

#[test]
fn what_is_meant_for_a_replaced_connection_is_not_sent_on_the_next() {
    run(async {
        let mut one = Server::open(ensemble(2).remove(0)).await;
        let _old = impostor(&one).await;
        assert_eq!(one.next().await, up(2));
        let mut new = impostor(&one).await;
        while one.inbox.len() < 2 {
            tokio::task::yield_now().await;
        }
        // The node has not yet learned of the new connection, so its message is for the old one.
        one.send(2, &ping(1));
        one.peers.flush();
        assert_eq!((one.next().await, one.next().await), (down(2), up(2)));
        one.send(2, &ping(2));
        one.peers.flush();
        let expected = frames(&ping(2));
        let mut arrived = vec![0; expected.len()];
        new.read_exact(&mut arrived).await.expect("open");
        assert_eq!(arrived, expected);
    });
}

#[test]
fn a_connection_that_was_given_up_in_its_handshake_replaces_nobody() {
    run(async {
        let one = Server::open(ensemble(2).remove(0)).await;
        let mut living = impostor(&one).await;
        assert_eq!(one.next().await, up(2));
        drop(greeted(&one).await);
        assert!(one.note().await.starts_with("refused a connection"));
        living.write_all(&frames(&ping(1))).await.expect("open");
        assert_eq!(one.next().await, received(2, ping(1)));
    });
}

#[test]
fn what_was_sent_before_a_link_closed_arrives_before_its_end() {
    run(async {
        let (one, mut two) = pair(ensemble(2)).await;
        (0..100).for_each(|seq| two.send(1, &ping(seq)));
        two.peers.close_all();
        for seq in 0..100 {
            assert_eq!(one.next().await, received(2, ping(seq)));
        }
        assert_eq!(one.next().await, down(2));
    });
}

#[test]
fn a_link_on_which_too_much_waits_is_closed() {
    run(async {
        let mut config = ensemble(2).remove(0);
        config.limits.outgoing_bytes_max = 1 << 20;
        let mut one = Server::open(config).await;
        let _never_reads = impostor(&one).await;
        assert_eq!(one.next().await, up(2));
        let batch = proposals(50, 1024);
        let mut sent_bytes = 0;
        while one.inbox.is_empty() {
            one.send(2, &batch);
            one.peers.flush();
            sent_bytes += batch.size_bytes();
            tokio::task::yield_now().await;
            // An upper bound of what the buffers of two sockets can hold.
            assert!(sent_bytes < 100 << 20, "nothing bounds what waits");
        }
        assert!(one.note().await.contains("the peer is too slow: more than 1048576 bytes wait for it"));
        assert_eq!(one.next().await, down(2));
    });
}

#[test]
fn nothing_arrives_behind_the_end_of_a_connection_that_breaks_at_the_answer_to_a_probe() {
    run(async {
        let mut config = ensemble(2).remove(0);
        config.limits.outgoing_bytes_max = 0;
        let one = Server::open(config).await;
        let mut peer = impostor(&one).await;
        assert_eq!(one.next().await, up(2));
        let probe = [0, 0, 0, 1, codec::PROBE];
        peer.write_all(&[&frames(&ping(1))[..], &probe, &frames(&ping(2))].concat()).await.expect("open");
        assert_eq!((one.next().await, one.next().await), (received(2, ping(1)), down(2)));
        let mut new = impostor(&one).await;
        assert_eq!(one.next().await, up(2));
        new.write_all(&frames(&ping(3))).await.expect("open");
        assert_eq!(one.next().await, received(2, ping(3)));
    });
}

#[test]
fn a_node_that_does_not_take_stops_the_reading_and_loses_nothing() {
    run(async {
        let (mut one, two) = pair(ensemble(2)).await;
        let batch = proposals(50, 1024);
        (0..2_000).for_each(|_| one.send(2, &batch));
        one.send(2, &ping(1));
        one.peers.flush();
        // 100 MB are in flight. Wait until reading has stopped: nothing more arrives although other tasks run.
        let mut waiting = 0;
        while two.inbox.len() > waiting || waiting == 0 {
            waiting = two.inbox.len();
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
        }
        assert!(waiting * batch.size_bytes() < 20 << 20, "{waiting} batches wait");
        for _ in 0..2_000 {
            assert_eq!(two.next().await, received(1, batch.clone()));
        }
        assert_eq!(two.next().await, received(1, ping(1)));
    });
}

#[test]
fn a_port_in_use_is_named() {
    run(async {
        let config = ensemble(1).remove(0);
        let _first = Server::open(config.clone()).await;
        let error = open(config.clone(), Inbox::new()).await.expect_err("in use");
        assert!(error.is_in_use());
        assert!(error.to_string().contains(&config.listen.quorum.to_string()), "{error}");
    });
}

#[test]
fn a_name_without_an_address_delays_nobody_else() {
    run(async {
        let mut configs = ensemble(3);
        let mut three = configs.pop().expect("three");
        three.peers.get_mut(&ServerId(2)).expect("two").host = "no-such-host.invalid".into();
        let three = Server::open(three).await;
        let one = Server::open(configs.swap_remove(0)).await;
        one.linked(3).await;
        three.linked(1).await;
    });
}

/// A connection that claims to be server 2, and has completed the handshake.
pub(super) async fn impostor(server: &Server) -> TcpStream {
    let mut socket = greeted(server).await;
    socket.write_u8(handshake::PROCEED).await.expect("open");
    socket
}

/// A connection that has exchanged greetings, but has not confirmed that it proceeds.
async fn greeted(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect(server.address(Channel::Quorum)).await.expect("listens");
    let ensemble = handshake::ensemble(server.config.peers.keys().copied());
    let (from, to) = (ServerId(2), server.config.me);
    let (secret, nonce) = (false, [0; super::super::secret::NONCE_BYTES]);
    let greeting = handshake::Greeting { channel: Channel::Quorum, from, to, ensemble, secret, nonce };
    socket.write_all(&greeting.to_bytes()).await.expect("open");
    let mut answer = [0; handshake::GREETING_BYTES];
    socket.read_exact(&mut answer).await.expect("answered");
    socket
}

pub(super) fn frames(message: &Message) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    codec::encode(message, &mut out);
    out.to_vec()
}
