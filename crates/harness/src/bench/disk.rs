//! Measures the disk's share of a single write: the time until a block is durable in two of three files.
//!
//! Three servers that share a disk wait for each other, and none can be faster than this. It is measured together
//! with the latencies of each product, so that a disk that was slow for one of them is visible. No server code and no
//! sockets are involved: three threads write on request, like a leader and two followers.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::Failure;

/// Writes for this long, and returns the median time until the second of three files is durable, in milliseconds.
pub(super) fn two_of_three_ms(folder: &Path, length: Duration) -> Result<f64, Failure> {
    let files = (1..=FILES).map(|number| folder.join(format!("disk-{number}")));
    let files = files.map(|path| prepare(&path)).collect::<Result<Vec<_>, _>>()?;
    let (done, all_done) = mpsc::channel();
    let took = thread::scope(|scope| {
        let start = |file: File| {
            let ((sender, requests), done) = (mpsc::channel(), done.clone());
            scope.spawn(move || requests.iter().try_for_each(|at| done.send(write(&file, at)).map_err(|_| ())));
            sender
        };
        let writers: Vec<mpsc::Sender<u64>> = files.into_iter().map(start).collect();
        // Dropping the senders ends the threads.
        measure(&writers, &all_done, length)
    });
    let mut took = took.map_err(|why| Failure::io("write in", folder, &why))?;
    took.sort_unstable();
    let median =
        took.get(took.len() / 2).ok_or_else(|| Failure::Check("the disk took too long for one write".into()))?;
    Ok(median.as_secs_f64() * 1e3)
}

fn measure(
    writers: &[mpsc::Sender<u64>],
    done: &mpsc::Receiver<std::io::Result<()>>,
    length: Duration,
) -> std::io::Result<Vec<Duration>> {
    let mut took = Vec::new();
    let end = Instant::now() + length;
    for at in (0..BLOCKS).cycle() {
        let start = Instant::now();
        if start > end {
            break;
        }
        writers.iter().for_each(|writer| writer.send(at).expect("a writer ends after us"));
        for written in 1..=writers.len() {
            done.recv().expect("a writer answers")?;
            if written == QUORUM {
                took.push(start.elapsed());
            }
        }
    }
    Ok(took)
}

/// A preallocated file that is written past the page cache if the file system supports it. Its name is removed
/// already, so the file is gone when it is closed.
fn prepare(path: &Path) -> Result<File, Failure> {
    let failed = |why| Failure::io("write", path, &why);
    std::fs::write(path, vec![0; BLOCK_BYTES * BLOCKS as usize]).map_err(failed)?;
    File::open(path).and_then(|file| file.sync_all()).map_err(failed)?;
    let open = |flags: OFlags| OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = open(OFlags::DIRECT | OFlags::DSYNC).or_else(|_| open(OFlags::DSYNC)).map_err(failed)?;
    std::fs::remove_file(path).map_err(failed)?;
    Ok(file)
}

fn write(file: &File, block: u64) -> std::io::Result<()> {
    file.write_all_at(&BLOCK.0, block * BLOCK_BYTES as u64)
}

/// Aligned for direct writes.
#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

static BLOCK: Block = Block([b'x'; BLOCK_BYTES]);

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 1024;
const FILES: usize = 3;
const QUORUM: usize = 2;

#[test]
fn a_disk_takes_some_time() {
    let folder = crate::command::target_dir().join(format!("disk-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let took = two_of_three_ms(&folder, Duration::from_millis(50));
    std::fs::remove_dir(&folder).expect("nothing is left in it");
    assert!(took.is_ok_and(|ms| ms > 0.0));
}
