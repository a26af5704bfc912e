//! How long the disk takes for a small write of this program, in the folder of the servers.
//!
//! All servers of a soak share one disk. If it does not answer, no write can be acknowledged, whatever the servers do.
//! The probe tells such a pause from one of the servers: it is printed, and not taken off, because a server that writes
//! too much could be the reason.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread that writes and syncs a file again and again. Ends with the value.
pub(super) struct DiskProbe {
    slow: Receiver<Duration>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DiskProbe {
    pub(super) fn start(folder: &Path) -> io::Result<Self> {
        let file = File::create(folder.join("disk-probe"))?;
        let (sender, slow) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match time_of_write(&file) {
                    Ok(took) if took > SLOW => drop(sender.send(took)),
                    Ok(_) => {}
                    // The servers report what is wrong with the disk.
                    Err(_) => return,
                }
                thread::sleep(PAUSE);
            }
        });
        Ok(Self { slow, stop, thread: Some(thread) })
    }

    /// The slow writes since the last call.
    pub(super) fn slow_writes(&self) -> Vec<Duration> {
        self.slow.try_iter().collect()
    }
}

impl Drop for DiskProbe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A probe that panicked has nothing more to say.
        self.thread.take().map(JoinHandle::join);
    }
}

fn time_of_write(mut file: &File) -> io::Result<Duration> {
    use std::io::Seek as _;
    file.rewind()?;
    file.write_all(&[0; 4096])?;
    let began = Instant::now();
    file.sync_data()?;
    Ok(began.elapsed())
}

/// Slower than any write on a disk that answers.
const SLOW: Duration = Duration::from_millis(30);

/// Seldom enough not to matter beside a thousand writes per second.
const PAUSE: Duration = Duration::from_millis(10);
