//! Connections that move between the threads, as their clients and operators see it.

use std::io::{Read, Write};

use pole_client::blocking::Session;
use pole_client::{create, get_data, set_data, set_data_at};
use pole_jute::CreateMode;

use crate::test_server::TestServer;

#[test]
fn who_writes_alone_moves_to_the_node_and_leaves_it_to_read() {
    let server = TestServer::standalone("");
    server.wait_until_serving();
    let mut writer = Writer::new(&server, "/one");
    assert_eq!(lone_writers(&server), 0);
    writer.write_alone(50);
    assert_eq!(lone_writers(&server), 1);
    writer.read(50);
    assert_eq!(lone_writers(&server), 0);
    writer.write_alone(50);
    drop(writer);
    server.wait_until("a free slot", |server| lone_writers(server) == 0);
}

#[test]
fn nothing_is_lost_or_out_of_order_while_many_move_to_and_fro() {
    let server = TestServer::standalone("");
    server.wait_until_serving();
    std::thread::scope(|scope| {
        for number in 0..12 {
            let server = &server;
            scope.spawn(move || {
                let mut writer = Writer::new(server, &format!("/{number}"));
                for _ in 0..10 {
                    writer.write_alone(20);
                    writer.read(5);
                    writer.write_together(20);
                }
            });
        }
    });
    server.wait_until("all have left", |server| figure(server, "zk_num_alive_connections ") == 0);
    assert_eq!(lone_writers(&server), 0);
}

#[test]
fn a_client_that_sends_more_than_may_be_outstanding_gets_all_replies() {
    let server = TestServer::standalone("");
    server.wait_until_serving();
    send_too_much(&mut server.session());
}

/// Sends writes without waiting for replies: more than a connection may have outstanding by number, and then by size.
pub(crate) fn send_too_much<S: Read + Write>(client: &mut Session<S>) {
    client.ask(create("/much", b"", CreateMode::Persistent)).expect("it is created");
    for (count, bytes) in [(5_000, 10), (200, 100_000), (20, 1_000_000)] {
        let data = vec![b'x'; bytes];
        let replies = client.ask_all((0..count).map(|_| set_data("/much", &data)));
        assert_eq!(replies.expect("every write is answered").len(), count);
    }
}

/// A client whose writes fail if one before them was lost or done twice.
struct Writer {
    client: Session,
    path: String,
    version: i32,
}

impl Writer {
    fn new(server: &TestServer, path: &str) -> Self {
        let mut client = server.session();
        client.ask(create(path, b"", CreateMode::Persistent)).expect("it is created");
        Self { client, path: path.into(), version: 0 }
    }

    fn write_alone(&mut self, count: i32) {
        for _ in 0..count {
            self.write_together(1);
        }
    }

    fn write_together(&mut self, count: i32) {
        let writes = (self.version..self.version + count).map(|version| set_data_at(&self.path, b"x", version));
        self.client.ask_all(writes).expect("each is written once");
        self.version += count;
    }

    fn read(&mut self, count: usize) {
        for _ in 0..count {
            self.client.ask(get_data(&self.path, false)).expect("it is read");
        }
    }
}

fn lone_writers(server: &TestServer) -> u64 {
    figure(server, "pole_lone_writers ")
}

fn figure(server: &TestServer, name: &str) -> u64 {
    let (_, page) = server.http("GET", "/metrics", "", "");
    let line = page.lines().find_map(|line| line.strip_prefix(name)).expect("the figure");
    line.trim().parse().expect("a number")
}
