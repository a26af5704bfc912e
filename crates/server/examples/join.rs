//! An empty server joins an ensemble with a large tree, under load: how long writes stop, and when it is level.
//!
//! Starts three real servers on the loopback, fills their tree, measures a paced load of writes without a joiner, then
//! wipes one follower and starts it again, several times. One connection writes to each of the other two servers.
//!
//! `cargo build --release -p pole-cli && cargo run --release -p pole-server --example join -- [KEY=VALUE…]`, with
//! `nodes=200000 bytes=100 rate=5000 payload=1024 joins=3 seconds=10 sync=yes pole=target/release/pole flat=no dir=…`.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pole_jute::{
    Acl, ConnectRequest, CreateRequest, Id, MultiOp, MultiRequest, Perms, Record, Request, RequestHeader,
    SetDataRequest, Writer,
};

fn main() -> io::Result<()> {
    let options = Options::parse();
    let mut servers = start_all(&options)?;
    let leader = wait_for_leader(&servers, Duration::from_secs(30));
    println!(
        "# {} znodes of {} B, {} writes/s of {} B, fsync {}",
        options.nodes, options.bytes, options.rate, options.payload, options.sync
    );
    fill(servers[leader].client, &options)?;
    let leader = wait_for_leader(&servers, Duration::from_secs(60));
    let joiner = (0..servers.len()).rfind(|index| *index != leader).expect("there are followers");
    println!("leader {}, joiner {}, memory {}", leader + 1, joiner + 1, memory(&servers));

    let idle = join(&mut servers, joiner, &options)?;
    println!("idle join: level after {:.1} s, memory {}", idle.as_secs_f64(), memory(&servers));

    let others: Vec<SocketAddr> =
        servers.iter().enumerate().filter(|(index, _)| *index != joiner).map(|(_, server)| server.client).collect();
    let loads: Vec<Load> = others.iter().map(|address| Load::start(*address, &options)).collect::<io::Result<_>>()?;
    sleep(Duration::from_secs(2));
    let base = measure(&loads, || {
        sleep(Duration::from_secs(options.seconds));
        Ok(())
    })?;
    println!("no joiner: {base}");
    for round in 1..=options.joins {
        let (before, epoch) = (Instant::now(), epoch(&servers[leader]));
        let mut took = Duration::ZERO;
        let measured = measure(&loads, || {
            took = join(&mut servers, joiner, &options)?;
            sleep(Duration::from_secs(2));
            Ok(())
        })?;
        let elections = epoch_now(&servers) - epoch;
        println!(
            "join {round}: {measured}; level after {:.1} s ({:.1} of idle), new epochs {elections}, memory {}, in all {:.1} s",
            took.as_secs_f64(),
            took.as_secs_f64() / idle.as_secs_f64(),
            memory(&servers),
            before.elapsed().as_secs_f64()
        );
    }
    loads.into_iter().for_each(Load::stop);
    for server in &mut servers {
        server.kill();
    }
    if options.keep {
        println!("data and logs stay in {}", options.dir.display());
    } else {
        fs::remove_dir_all(&options.dir)?;
    }
    Ok(())
}

struct Options {
    nodes: usize,
    bytes: usize,
    rate: u64,
    payload: usize,
    joins: usize,
    seconds: u64,
    sync: String,
    flat: bool,
    keep: bool,
    pole: PathBuf,
    dir: PathBuf,
    /// Further lines of `zoo.cfg`.
    config: Vec<String>,
}

impl Options {
    fn parse() -> Self {
        let mut given = HashMap::new();
        let mut config = Vec::new();
        for word in std::env::args().skip(1) {
            let (key, value) = word.split_once('=').expect("KEY=VALUE");
            match key.strip_prefix("cfg.") {
                Some(key) => config.push(format!("{key}={value}")),
                None => drop(given.insert(key.to_owned(), value.to_owned())),
            }
        }
        let text = |key: &str, default: &str| given.get(key).cloned().unwrap_or_else(|| default.to_owned());
        let number = |key: &str, default: &str| text(key, default).parse::<u64>().expect("a number");
        let dir = std::env::temp_dir().join(format!("pole-join-{}", std::process::id()));
        Self {
            nodes: number("nodes", "200000") as usize,
            bytes: number("bytes", "100") as usize,
            rate: number("rate", "5000"),
            payload: number("payload", "1024") as usize,
            joins: number("joins", "3") as usize,
            seconds: number("seconds", "10"),
            sync: text("sync", "yes"),
            flat: text("flat", "no") == "yes",
            keep: text("keep", "no") == "yes",
            pole: text("pole", "target/release/pole").into(),
            dir: given.get("dir").map_or(dir, PathBuf::from),
            config,
        }
    }
}

struct Server {
    pole: PathBuf,
    folder: PathBuf,
    client: SocketAddr,
    process: Option<Child>,
}

impl Server {
    fn start(&mut self) -> io::Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"))?;
        let mut command = Command::new(&self.pole);
        command.args(["server", "--config"]).arg(self.folder.join("zoo.cfg"));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.process = Some(command.spawn()?);
        Ok(())
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn wipe(&self) -> io::Result<()> {
        let data = self.folder.join("data");
        fs::remove_dir_all(data.join("version-2"))
    }

    /// What it says of itself: whether it leads, and its last transaction. None while it does not serve.
    fn standing(&self) -> Option<(bool, u64)> {
        let mut stream = TcpStream::connect_timeout(&self.client, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let zxid = u64::from_str_radix(line("Zxid:")?.trim_start_matches("0x"), 16).ok()?;
        Some((line("Mode:")? == "leader", zxid))
    }

    /// Resident memory and its peak, in megabytes.
    fn memory(&self) -> Option<(u64, u64)> {
        let pid = self.process.as_ref()?.id();
        let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let megabytes = |text: &str| text.split_whitespace().next()?.parse::<u64>().ok().map(|kb| kb / 1024);
        Some((megabytes(line("VmRSS:")?)?, megabytes(line("VmHWM:")?)?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start_all(options: &Options) -> io::Result<Vec<Server>> {
    let ports: Vec<u16> = free_ports(9)?;
    let mut servers = Vec::new();
    for id in 1..=3 {
        let folder = options.dir.join(id.to_string());
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        fs::write(data.join("myid"), format!("{id}\n"))?;
        let client = ports[3 * (id - 1)];
        let mut text = format!(
            "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={client}\nclientPortAddress=127.0.0.1\n\
             maxClientCnxns=0\n4lw.commands.whitelist=*\nadmin.enableServer=false\nforceSync={}\n",
            data.display(),
            options.sync
        );
        for other in 1..=3 {
            let at = 3 * (other - 1);
            text += &format!("server.{other}=127.0.0.1:{}:{}\n", ports[at + 1], ports[at + 2]);
        }
        options.config.iter().for_each(|line| text += &format!("{line}\n"));
        fs::write(folder.join("zoo.cfg"), text)?;
        let client = (Ipv4Addr::LOCALHOST, client).into();
        servers.push(Server { pole: options.pole.clone(), folder, client, process: None });
    }
    servers.iter_mut().try_for_each(Server::start)?;
    Ok(servers)
}

fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
    held.iter().map(|listener| listener.local_addr().map(|address| address.port())).collect()
}

fn wait_for_leader(servers: &[Server], limit: Duration) -> usize {
    let deadline = Instant::now() + limit;
    loop {
        let standings: Vec<_> = servers.iter().map(Server::standing).collect();
        let leader = standings.iter().position(|standing| standing.is_some_and(|(leads, _)| leads));
        if let (Some(leader), true) = (leader, standings.iter().all(Option::is_some)) {
            return leader;
        }
        assert!(Instant::now() < deadline, "no ensemble: {standings:?}");
        sleep(Duration::from_millis(50));
    }
}

fn epoch(server: &Server) -> u64 {
    server.standing().map_or(0, |(_, zxid)| zxid >> 32)
}

fn epoch_now(servers: &[Server]) -> u64 {
    servers.iter().map(epoch).max().unwrap_or(0)
}

fn memory(servers: &[Server]) -> String {
    let each = servers.iter().map(|server| server.memory().map_or("-".into(), |(now, peak)| format!("{now}/{peak}")));
    each.collect::<Vec<_>>().join(" ") + " MB"
}

/// Kills a server, removes its data, starts it, and waits until it has what the others had at the moment of the look.
fn join(servers: &mut [Server], joiner: usize, options: &Options) -> io::Result<Duration> {
    servers[joiner].kill();
    servers[joiner].wipe()?;
    let began = Instant::now();
    servers[joiner].start()?;
    loop {
        let others = servers.iter().enumerate().filter(|(index, _)| *index != joiner);
        let theirs = others.filter_map(|(_, server)| server.standing()).map(|(_, zxid)| zxid).max().unwrap_or(0);
        let ours = servers[joiner].standing().map_or(0, |(_, zxid)| zxid);
        // A tenth of a second of writes is as level as a follower ever is.
        let slack = options.rate / 10;
        if ours > 0 && ours + slack >= theirs {
            return Ok(began.elapsed());
        }
        if began.elapsed() > Duration::from_secs(300) {
            println!("not level after {:.0?}: {ours:#x} of {theirs:#x}", began.elapsed());
            return Ok(began.elapsed());
        }
        sleep(Duration::from_millis(20));
    }
}

/// Creates the nodes, a thousand in a multi.
fn fill(address: SocketAddr, options: &Options) -> io::Result<()> {
    let mut client = Client::connect(address)?;
    let data: Bytes = vec![b'x'; options.bytes].into();
    let began = Instant::now();
    let (mut under_way, mut longest, mut last) = (0, Duration::ZERO, Instant::now());
    let parents = if options.flat { 1 } else { options.nodes.div_ceil(1000) };
    let mut batches: Vec<Vec<String>> = Vec::new();
    let tops: Vec<String> = (0..parents).map(|n| format!("/d{n}")).chain(["/load".into()]).collect();
    batches.extend(tops.chunks(1000).map(<[String]>::to_vec));
    batches.push((0..1000).map(|n| format!("/load/{n}")).collect());
    let count = options.nodes.div_ceil(1000);
    for batch in batches.into_iter().map(Some).chain((0..count).map(|_| None)).enumerate().map(|(n, batch)| {
        let first = n.saturating_sub(tops.len().div_ceil(1000) + 1);
        batch.unwrap_or_else(|| {
            let top = if options.flat { 0 } else { first };
            (0..1000).map(|n| format!("/d{top}/n{:07}", first * 1000 + n)).collect()
        })
    }) {
        let ops = batch.into_iter().map(|path| MultiOp::Create(create(path, &data))).collect();
        client.send(&Request::Multi(MultiRequest { ops }))?;
        under_way += 1;
        if under_way >= 8 {
            client.reply()?;
            under_way -= 1;
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
    }
    for _ in 0..under_way {
        client.reply()?;
    }
    println!("filled in {:.1} s, longest pause {} ms", began.elapsed().as_secs_f64(), longest.as_millis());
    Ok(())
}

fn create(path: String, data: &Bytes) -> CreateRequest {
    let acl = vec![Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } }];
    CreateRequest { path, data: Some(data.clone()), acl, flags: 0 }
}

/// One session over a blocking socket.
struct Client {
    stream: TcpStream,
    xid: i32,
}

impl Client {
    fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, xid: 0 };
        let mut writer = Writer::new();
        writer.frame(|writer| {
            let passwd = Some(Bytes::from_static(&[0; 16]));
            let (last_zxid_seen, session_id, read_only) = (0, 0, Some(false));
            ConnectRequest { protocol_version: 0, last_zxid_seen, timeout: 30_000, session_id, passwd, read_only }
                .write(writer);
        });
        client.stream.write_all(&writer.into_bytes())?;
        client.frame()?;
        Ok(client)
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        let bytes = self.encode(request);
        self.stream.write_all(&bytes)
    }

    fn encode(&mut self, request: &Request) -> Bytes {
        self.xid = self.xid.wrapping_add(1) & i32::MAX;
        let mut writer = Writer::new();
        writer.frame(|writer| {
            RequestHeader { xid: self.xid, op: request.op().number() }.write(writer);
            request.write(writer);
        });
        writer.into_bytes()
    }

    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// The code of the next reply.
    fn reply(&mut self) -> io::Result<()> {
        let frame = self.frame()?;
        let code = i32::from_be_bytes(frame[12..16].try_into().expect("a header"));
        if code == 0 { Ok(()) } else { Err(io::Error::other(format!("the server says {code}"))) }
    }
}

/// Writes at a steady rate on one connection, with a bound on what is under way, and notes pauses.
struct Load {
    seen: Arc<Seen>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    sent: AtomicU64,
    acked: AtomicU64,
    /// In microseconds since the last look.
    longest_us: AtomicU64,
    broken: AtomicU64,
}

const UNDER_WAY_MAX: u64 = 20_000;

impl Load {
    fn start(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let seen = Arc::new(Seen::default());
        let mut client = Client::connect(address)?;
        let stream = client.stream.try_clone()?;
        let data: Bytes = vec![b'y'; options.payload].into();
        let rate = (options.rate / 2).max(1);
        let sending = {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                let began = Instant::now();
                let mut sent = 0_u64;
                while !seen.stop.load(Ordering::Relaxed) {
                    let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
                    let room = UNDER_WAY_MAX.saturating_sub(sent - seen.acked.load(Ordering::Acquire));
                    let mut batch = Vec::new();
                    for _ in 0..due.saturating_sub(sent).min(room) {
                        let path = format!("/load/{}", sent % 1000);
                        let request = SetDataRequest { path, data: Some(data.clone()), version: -1 };
                        batch.extend_from_slice(&client.encode(&Request::SetData(request)));
                        sent += 1;
                    }
                    seen.sent.store(sent, Ordering::Release);
                    if client.stream.write_all(&batch).is_err() {
                        seen.broken.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                    sleep(Duration::from_millis(2));
                }
                let _ = client.stream.shutdown(std::net::Shutdown::Both);
            })
        };
        let receiving = {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                let mut client = Client { stream, xid: 0 };
                let mut buffer = vec![0; 256 << 10];
                let (mut filled, mut last) = (0, Instant::now());
                loop {
                    match client.stream.read(&mut buffer[filled..]) {
                        Ok(count) if count > 0 => filled += count,
                        _ => {
                            if !seen.stop.load(Ordering::Relaxed) {
                                seen.broken.fetch_add(1, Ordering::Relaxed);
                            }
                            return;
                        }
                    }
                    let (mut at, mut acked) = (0, 0);
                    while let Some(head) = buffer[..filled].get(at..at + 4) {
                        let length = u32::from_be_bytes(head.try_into().expect("four bytes")) as usize;
                        if filled < at + 4 + length {
                            break;
                        }
                        at += 4 + length;
                        acked += 1;
                    }
                    buffer.copy_within(at..filled, 0);
                    filled -= at;
                    if acked > 0 {
                        let now = Instant::now();
                        seen.longest_us.fetch_max((now - last).as_micros() as u64, Ordering::Relaxed);
                        last = now;
                        seen.acked.fetch_add(acked, Ordering::Release);
                    }
                }
            })
        };
        Ok(Self { seen, threads: vec![sending, receiving] })
    }

    fn stop(self) {
        self.seen.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn measure(loads: &[Load], act: impl FnOnce() -> io::Result<()>) -> io::Result<String> {
    loads.iter().for_each(|load| load.seen.longest_us.store(0, Ordering::Relaxed));
    let acked = || loads.iter().map(|load| load.seen.acked.load(Ordering::Relaxed)).sum::<u64>();
    let (began, before) = (Instant::now(), acked());
    act()?;
    let rate = (acked() - before) as f64 / began.elapsed().as_secs_f64();
    let pauses: Vec<String> =
        loads.iter().map(|load| format!("{}", load.seen.longest_us.load(Ordering::Relaxed) / 1000)).collect();
    let broken: u64 = loads.iter().map(|load| load.seen.broken.load(Ordering::Relaxed)).sum();
    Ok(format!("longest pause {} ms, {rate:.0} writes/s, connections broken {broken}", pauses.join(" and ")))
}
