//! Sends garbage to every port of a real server while a client works normally.
//!
//! The garbage is random bytes, wrong lengths, truncated frames and greetings, sessions that continue with garbage,
//! HTTP requests that never end, and connections that send one byte at a time. The client must see no error, no thread
//! may panic, memory must stay bounded, and a new client must be served afterwards.

#[path = "admin/test_server.rs"]
#[expect(dead_code, reason = "the tests of the admin server use the rest")]
mod test_server;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pole_client::{connect_frame, connect_request, create, get_data, set_data_at};
use pole_jute::CreateMode;
use test_server::{TestServer, free_port};

#[test]
fn a_server_on_its_own_serves_through_a_storm() {
    let server = TestServer::standalone("maxClientCnxns=0\n");
    let ports = [(Port::Client, server.client), (Port::Admin, server.admin.expect("an admin server"))];
    storm(&server, &ports);
}

#[test]
fn one_of_three_serves_through_a_storm() {
    let ports: Vec<[u16; 3]> = (1..=3).map(|_| [free_port(), free_port(), free_port()]).collect();
    let line = |(id, [quorum, election, client]): (u64, &[u16; 3])| {
        format!("server.{id}=127.0.0.1:{quorum}:{election};127.0.0.1:{client}\n")
    };
    let lines: String = (1..).zip(&ports).map(line).collect();
    let text = format!("{lines}admin.serverPort=0\nmaxClientCnxns=0\n");
    let servers: Vec<TestServer> = (1..=3).map(|id| TestServer::start(id, &text)).collect();
    let [quorum, election, _] = ports[0];
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let target = &servers[0];
    let ports = [
        (Port::Client, target.client),
        (Port::Admin, target.admin.expect("an admin server")),
        (Port::Quorum, at(quorum)),
        (Port::Election, at(election)),
    ];
    storm(target, &ports);
}

/// The kind of port, which determines what is nearly valid there.
#[derive(Clone, Copy, Debug)]
enum Port {
    Client,
    Admin,
    Quorum,
    Election,
}

fn storm(server: &TestServer, ports: &[(Port, SocketAddr)]) {
    count_panics();
    server.wait_until_serving();
    let mut client = server.session();
    client.ask(create(PATH, b"", CreateMode::Persistent)).expect("it is created");
    let before = resident_bytes();
    let is_over = AtomicBool::new(false);
    let attempts = AtomicU64::new(0);
    let mut written = 0;
    std::thread::scope(|scope| {
        for (seed, (port, at)) in (1..).zip(ports) {
            let (is_over, attempts) = (&is_over, &attempts);
            scope.spawn(move || send_garbage(*port, *at, Rng(seed), is_over, attempts));
            scope.spawn(move || trickle(*port, *at, is_over));
        }
        // Dropped even if the client fails, because otherwise the other threads would never end.
        let _over = SetOnDrop(&is_over);
        let start = Instant::now();
        while start.elapsed() < STORM || attempts.load(Ordering::Relaxed) < ATTEMPTS_MIN {
            // The version ensures that each write happened once and none was lost.
            client.ask(set_data_at(PATH, b"", written)).expect("it is written once");
            client.ask(get_data(PATH, false)).expect("it is read");
            written += 1;
        }
    });
    let grown = resident_bytes().saturating_sub(before);
    server.session().ask(set_data_at(PATH, b"", written)).expect("a new client is served");
    assert_eq!(server.health().0, 200);
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a thread panicked: see above");
    assert!(grown < GROWTH_BYTES_MAX, "grew by {grown} bytes");
    println!("{written} writes, {} connections, {} KiB more", attempts.load(Ordering::Relaxed), grown / 1024);
}

/// Opens one connection after another and sends different garbage on each.
fn send_garbage(port: Port, at: SocketAddr, mut rng: Rng, is_over: &AtomicBool, attempts: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect_timeout(&at, CONNECT_WAIT) else { continue };
        stream.set_read_timeout(Some(ANSWER_WAIT)).expect("a limit");
        stream.set_write_timeout(Some(ANSWER_WAIT)).expect("a limit");
        // Writing may fail, since the server should refuse the connection.
        let _ = stream.write_all(&garbage(port, &mut rng));
        // Gives the server time to process it.
        let _ = stream.read(&mut [0; 512]);
        attempts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Keeps many connections open and sends valid input on each, one byte at a time.
fn trickle(port: Port, at: SocketAddr, is_over: &AtomicBool) {
    let valid = valid_bytes(port);
    let mut open: Vec<(TcpStream, usize)> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if open.len() < SLOW_CONNECTIONS {
            open.extend(TcpStream::connect_timeout(&at, CONNECT_WAIT).map(|stream| (stream, 0)));
        }
        open.retain_mut(|(stream, sent)| {
            // Never the last byte, so that the input is never complete.
            let byte = valid[*sent % (valid.len() - 1)];
            *sent += 1;
            stream.write_all(&[byte]).is_ok()
        });
        if let Some((stream, _)) = open.first_mut() {
            stream.set_read_timeout(Some(ANSWER_WAIT)).expect("a limit");
            let _ = stream.read(&mut [0; 64]);
        }
    }
}

/// Invalid bytes of one of five kinds.
fn garbage(port: Port, rng: &mut Rng) -> Vec<u8> {
    let valid = valid_bytes(port);
    match rng.below(5) {
        0 => random(rng, 4096),
        1 => {
            let length = [i32::MAX, i32::MIN, -1, 0xf_ffff, 0x10_0000, 0x1000_0000, 0][rng.below(7)];
            [&length.to_be_bytes()[..], &random(rng, 256)].concat()
        }
        2 => valid[..rng.below(valid.len())].to_vec(),
        3 => {
            let mut damaged = valid;
            let at = rng.below(damaged.len());
            damaged[at] ^= 1 << rng.below(8);
            damaged
        }
        // Valid input, then invalid frames.
        _ => {
            let mut bytes = valid;
            for _ in 0..rng.below(8) {
                let op = i32::try_from(rng.below(120)).expect("small") - 12;
                let body = [&1_i32.to_be_bytes()[..], &op.to_be_bytes(), &random(rng, 64)].concat();
                bytes.extend(u32::try_from(body.len()).expect("small").to_be_bytes());
                bytes.extend(body);
            }
            bytes
        }
    }
}

/// Valid input for this port. Between servers it is the greeting of a server that is not a member.
fn valid_bytes(port: Port) -> Vec<u8> {
    let greeting = |channel: u8| {
        let ids = [9_u64.to_be_bytes(), 1_u64.to_be_bytes(), 7_u64.to_be_bytes()].concat();
        [b"Pole\0\x01", &[channel][..], &ids].concat()
    };
    match port {
        Port::Client => connect_frame(&connect_request(Duration::from_secs(1))).to_vec(),
        Port::Admin => {
            b"PUT /v1/score HTTP/1.1\r\nHost: test\r\nContent-Length: 999999999999\r\n\r\n{\"value\":".to_vec()
        }
        Port::Election => greeting(1),
        Port::Quorum => greeting(2),
    }
}

/// A random number of random bytes, below the limit.
fn random(rng: &mut Rng, limit: usize) -> Vec<u8> {
    (0..rng.below(limit)).map(|_| rng.next().to_le_bytes()[3]).collect()
}

/// A deterministic generator of random numbers (xorshift).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % limit
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Counts every panic of every thread from now on, including those that a runtime catches.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            previous(info);
        }));
    });
}

/// Resident memory of this process, which includes the server and the attackers.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of its own");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

static PANICS: AtomicU64 = AtomicU64::new(0);

const PATH: &str = "/storm";

/// Long enough for thousands of connections.
const STORM: Duration = Duration::from_secs(5);

/// The storm lasts longer on a busy machine until there were this many connections.
const ATTEMPTS_MIN: u64 = 200;

/// How long an attacker waits for an answer.
const ANSWER_WAIT: Duration = Duration::from_millis(5);

/// How long an attacker waits to connect: a server at its limit of connections does not accept more.
const CONNECT_WAIT: Duration = Duration::from_millis(50);

/// Per port; more than a port for other servers keeps without a handshake.
const SLOW_CONNECTIONS: usize = 150;

/// Less than a frame of a megabyte for each slow connection.
const GROWTH_BYTES_MAX: u64 = 128 << 20;
