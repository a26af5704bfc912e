//! A storm of bytes on every port of a real server, while one client works as if nothing were.
//!
//! What comes: random bytes, lengths that lie, frames and greetings cut off, sessions that then send nonsense, HTTP that
//! never ends, and connections that say one byte at a time.
//! Holds: the client sees no error, no thread panics, memory stays bounded, and a newcomer is served afterwards.

#[path = "admin/house.rs"]
#[expect(dead_code, reason = "the tests of the admin server use the rest")]
mod house;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use house::{Client, House, free_port};
use pole_jute::{
    Acl, ConnectRequest, CreateRequest, GetDataRequest, Id, OpCode, Perms, Record, SetDataRequest, Writer,
};

#[test]
fn a_server_on_its_own_serves_through_a_storm() {
    let server = House::alone("maxClientCnxns=0\n");
    let ports = [(Door::Client, server.client), (Door::Admin, server.admin.expect("an admin server"))];
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
    let servers: Vec<House> = (1..=3).map(|id| House::start(id, &text)).collect();
    let [quorum, election, _] = ports[0];
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let struck = &servers[0];
    let ports = [
        (Door::Client, struck.client),
        (Door::Admin, struck.admin.expect("an admin server")),
        (Door::Quorum, at(quorum)),
        (Door::Election, at(election)),
    ];
    storm(struck, &ports);
}

/// What listens at a port, which decides what nearly fits there.
#[derive(Clone, Copy, Debug)]
enum Door {
    Client,
    Admin,
    Quorum,
    Election,
}

fn storm(server: &House, ports: &[(Door, SocketAddr)]) {
    count_panics();
    server.until_it_serves();
    let mut client = Client::connect(server.client);
    client.ask(OpCode::Create, &node());
    let before = resident_bytes();
    let is_over = AtomicBool::new(false);
    let struck = AtomicU64::new(0);
    let mut written = 0;
    std::thread::scope(|scope| {
        for (seed, (door, at)) in (1..).zip(ports) {
            let (is_over, struck) = (&is_over, &struck);
            scope.spawn(move || strike(*door, *at, Dice(seed), is_over, struck));
            scope.spawn(move || trickle(*door, *at, is_over));
        }
        // Dropped also if the client fails, or the others would go on for ever.
        let _over = Over(&is_over);
        let start = Instant::now();
        while start.elapsed() < STORM || struck.load(Ordering::Relaxed) < STRIKES_MIN {
            // The version says that each write happened once and none was lost.
            client.ask(OpCode::SetData, &SetDataRequest { path: PATH.into(), data: None, version: written });
            client.ask(OpCode::GetData, &GetDataRequest { path: PATH.into(), watch: false });
            written += 1;
        }
    });
    let grown = resident_bytes().saturating_sub(before);
    let mut newcomer = Client::connect(server.client);
    newcomer.ask(OpCode::SetData, &SetDataRequest { path: PATH.into(), data: None, version: written });
    assert_eq!(server.health().0, 200);
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a thread panicked: see above");
    assert!(grown < GROWTH_BYTES_MAX, "grew by {grown} bytes");
    println!("{written} writes, {} strikes, {} KiB more", struck.load(Ordering::Relaxed), grown / 1024);
}

/// One connection after another, each with something else that does not fit.
fn strike(door: Door, at: SocketAddr, mut dice: Dice, is_over: &AtomicBool, struck: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect_timeout(&at, DOOR_STEP) else { continue };
        stream.set_read_timeout(Some(BREATH)).expect("a limit");
        stream.set_write_timeout(Some(BREATH)).expect("a limit");
        // Refused in the middle is what we are here for.
        let _ = stream.write_all(&nonsense(door, &mut dice));
        // Gives the server the time to look, and the machine a rest.
        let _ = stream.read(&mut [0; 512]);
        struck.fetch_add(1, Ordering::Relaxed);
    }
}

/// Many connections, each of which says one byte at a time of something that would fit.
fn trickle(door: Door, at: SocketAddr, is_over: &AtomicBool) {
    let fits = fitting(door);
    let mut open: Vec<(TcpStream, usize)> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if open.len() < SLOW_CONNECTIONS {
            open.extend(TcpStream::connect_timeout(&at, DOOR_STEP).map(|stream| (stream, 0)));
        }
        open.retain_mut(|(stream, said)| {
            // Never the last byte, so that nothing is ever whole.
            let byte = fits[*said % (fits.len() - 1)];
            *said += 1;
            stream.write_all(&[byte]).is_ok()
        });
        if let Some((stream, _)) = open.first_mut() {
            stream.set_read_timeout(Some(BREATH)).expect("a limit");
            let _ = stream.read(&mut [0; 64]);
        }
    }
}

/// Bytes that do not fit, of one of five kinds.
fn nonsense(door: Door, dice: &mut Dice) -> Vec<u8> {
    let fits = fitting(door);
    match dice.below(5) {
        0 => random(dice, 4096),
        1 => {
            let length = [i32::MAX, i32::MIN, -1, 0xf_ffff, 0x10_0000, 0x1000_0000, 0][dice.below(7)];
            [&length.to_be_bytes()[..], &random(dice, 256)].concat()
        }
        2 => fits[..dice.below(fits.len())].to_vec(),
        3 => {
            let mut damaged = fits;
            let at = dice.below(damaged.len());
            damaged[at] ^= 1 << dice.below(8);
            damaged
        }
        // What fits, and then frames that do not.
        _ => {
            let mut bytes = fits;
            for _ in 0..dice.below(8) {
                let op = i32::try_from(dice.below(120)).expect("small") - 12;
                let body = [&1_i32.to_be_bytes()[..], &op.to_be_bytes(), &random(dice, 64)].concat();
                bytes.extend(u32::try_from(body.len()).expect("small").to_be_bytes());
                bytes.extend(body);
            }
            bytes
        }
    }
}

/// What the server at this door understands. Between servers it is the greeting of one that is no member.
fn fitting(door: Door) -> Vec<u8> {
    let greeting = |channel: u8| {
        let ids = [9_u64.to_be_bytes(), 1_u64.to_be_bytes(), 7_u64.to_be_bytes()].concat();
        [b"Pole\0\x01", &[channel][..], &ids].concat()
    };
    match door {
        Door::Client => {
            let request = ConnectRequest {
                protocol_version: 0,
                last_zxid_seen: 0,
                timeout: 1_000,
                session_id: 0,
                passwd: Some(vec![0; 16].into()),
                read_only: Some(false),
            };
            let mut writer = Writer::new();
            writer.frame(|writer| request.write(writer));
            writer.into_bytes().to_vec()
        }
        Door::Admin => {
            b"PUT /v1/score HTTP/1.1\r\nHost: test\r\nContent-Length: 999999999999\r\n\r\n{\"value\":".to_vec()
        }
        Door::Election => greeting(1),
        Door::Quorum => greeting(2),
    }
}

fn node() -> CreateRequest {
    let anyone = Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } };
    CreateRequest { path: PATH.into(), data: None, acl: vec![anyone], flags: 0 }
}

/// As many bytes as the dice say, below the limit.
fn random(dice: &mut Dice, limit: usize) -> Vec<u8> {
    (0..dice.below(limit)).map(|_| dice.next().to_le_bytes()[3]).collect()
}

/// The same throws in every run (xorshift).
struct Dice(u64);

impl Dice {
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

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// From now on every panic of every thread is counted, also of those that a runtime catches.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            usual(what);
        }));
    });
}

/// How much memory this process has, server and storm together.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of its own");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

static PANICS: AtomicU64 = AtomicU64::new(0);

const PATH: &str = "/storm";

/// Long enough for thousands of connections.
const STORM: Duration = Duration::from_secs(5);

/// A machine that is busy takes longer to see as many.
const STRIKES_MIN: u64 = 200;

/// How long an attacker waits for an answer.
const BREATH: Duration = Duration::from_millis(5);

/// How long an attacker waits at a door where the others stand already: a server that has no seat left takes nobody in.
const DOOR_STEP: Duration = Duration::from_millis(50);

/// Per port: more than a port between servers keeps without a greeting.
const SLOW_CONNECTIONS: usize = 150;

/// A frame of a megabyte for each slow connection would be more.
const GROWTH_BYTES_MAX: u64 = 128 << 20;
