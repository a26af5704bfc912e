//! A processor that does not fall asleep between two writes of a client that waits for each.
//!
//! In: when writes on the node's thread begin and end. Out: nothing; a thread runs on the processor of the node's thread
//! while nobody else wants it.
//! Why: at every step of a lone write all threads wait, for the disk or for another server, and a processor on which all
//! wait is put to sleep. To wake it takes tens of microseconds, in a virtual machine as long as the step itself: together 13 to
//! 16 % of the write that can be saved.
//! Holds: only while writes follow each other within the span, and a span longer; only with the priority that yields to
//! everyone (`SCHED_IDLE`), and not at all where that is refused or where the process has less than two processors.

use std::hint;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};
use thread_priority::{set_thread_priority_and_policy, thread_native_id};

use crate::log;

/// Knows the rhythm of the writes, and keeps the processor awake while there is one.
#[derive(Debug)]
pub(crate) struct Awake {
    /// Writes closer together than this have a rhythm; zero: none ever has.
    span: Duration,
    /// When the last write ended.
    ended: Option<Instant>,
    watch: Option<(Arc<Watch>, Thread)>,
}

/// What the thread is told, and tells.
#[derive(Debug)]
struct Watch {
    start: Instant,
    /// Nanoseconds since `start` until when to stay awake.
    until: AtomicU64,
    /// The processor to stay on.
    cpu: AtomicUsize,
    rests: AtomicBool,
    ending: AtomicBool,
    /// Nanoseconds of processor time so far.
    spent: AtomicU64,
}

impl Awake {
    /// `span`: how long to wait awake for the next write.
    pub(crate) fn new(span: Duration) -> Self {
        // A limit of processor time counts here too: it is not to be used up by waiting.
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self { span: if processors < 2 { Duration::ZERO } else { span }, ended: None, watch: None }
    }

    /// A write begins on this thread, and will take about so long.
    pub(crate) fn write_begins(&mut self, now: Instant, takes: Duration) {
        let has_rhythm = self.ended.is_some_and(|ended| now.saturating_duration_since(ended) < self.span);
        if !has_rhythm || !self.has_watch() {
            return;
        }
        let Some((watch, thread)) = &self.watch else { return };
        watch.cpu.store(sched_getcpu(), Ordering::Relaxed);
        watch.until.store(nanos(now + takes + self.span - watch.start), Ordering::SeqCst);
        if watch.rests.load(Ordering::SeqCst) {
            thread.unpark();
        }
    }

    /// There is a thread, or cannot be one: then writes take a little longer, no more.
    fn has_watch(&mut self) -> bool {
        if self.watch.is_none() {
            match Watch::start() {
                Ok(watch) => self.watch = Some(watch),
                Err(error) => {
                    log::warn("awake", &[("off", &format!("no thread for it: {error}"))]);
                    self.span = Duration::ZERO;
                }
            }
        }
        self.watch.is_some()
    }

    /// The write ended.
    pub(crate) fn write_ended(&mut self, now: Instant) {
        self.ended = Some(now);
    }

    /// The processor time that it took so far.
    pub(crate) fn spent(&self) -> Duration {
        self.watch
            .as_ref()
            .map_or(Duration::ZERO, |(watch, _)| Duration::from_nanos(watch.spent.load(Ordering::Relaxed)))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        // Not awaited: a thread that yields to everyone may be long in ending.
        if let Some((watch, thread)) = &self.watch {
            watch.ending.store(true, Ordering::SeqCst);
            thread.unpark();
        }
    }
}

impl Watch {
    fn start() -> io::Result<(Arc<Self>, Thread)> {
        let watch = Arc::new(Self {
            start: Instant::now(),
            until: AtomicU64::new(0),
            cpu: AtomicUsize::new(usize::MAX),
            rests: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            spent: AtomicU64::new(0),
        });
        let spawned = thread::Builder::new().name("awake".to_owned()).spawn({
            let watch = Arc::clone(&watch);
            move || match yield_to_everyone() {
                Ok(()) => watch.run(),
                Err(reason) => log::warn("awake", &[("off", &reason)]),
            }
        });
        Ok((watch, spawned?.thread().clone()))
    }

    fn run(&self) {
        let mut cpu = usize::MAX;
        while !self.ending.load(Ordering::SeqCst) {
            while self.is_wanted() {
                self.follow(&mut cpu);
                self.stand();
                self.count();
                // Who waits for this processor should have it at once, but a scheduler that weighs what each has had may
                // find that this thread has had too little so far.
                thread::yield_now();
            }
            // Told first, looked at again after: who stores a later time sees the one or is seen by the other.
            self.rests.store(true, Ordering::SeqCst);
            if !self.is_wanted() && !self.ending.load(Ordering::SeqCst) {
                thread::park();
            }
            self.rests.store(false, Ordering::SeqCst);
        }
    }

    /// For a while, or as long as it is wanted.
    fn stand(&self) {
        for _ in 0..LOOKS {
            if !self.is_wanted() {
                return;
            }
            (0..PAUSES).for_each(|_| hint::spin_loop());
        }
    }

    fn is_wanted(&self) -> bool {
        nanos(self.start.elapsed()) < self.until.load(Ordering::SeqCst)
    }

    /// Goes to the processor of the node's thread: the others may sleep.
    fn follow(&self, cpu: &mut usize) {
        let wanted = self.cpu.load(Ordering::Relaxed);
        if *cpu != wanted && wanted < CpuSet::MAX_CPU {
            *cpu = wanted;
            let mut only = CpuSet::new();
            only.set(wanted);
            // Refused if it was taken from us meanwhile; then the node's thread is elsewhere soon too.
            let _ = sched_setaffinity(None, &only);
        }
    }

    fn count(&self) {
        let spent = clock_gettime(ClockId::ThreadCPUTime);
        self.spent.store(nanos(Duration::try_from(spent).unwrap_or_default()), Ordering::Relaxed);
    }
}

/// From now on this thread runs only where nobody else wants to.
fn yield_to_everyone() -> Result<(), String> {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy)
        .map_err(|error| format!("no SCHED_IDLE for it ({error}); pole.awakeMs=0 says the same without this line"))
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Between two looks at the clock: about a microsecond.
const PAUSES: usize = 32;

/// Between two steps aside: some 25 microseconds. With every look it would gain less, with none a write in a hundred waits for a
/// millisecond.
const LOOKS: usize = 25;

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes one after the other without a pause, until it is done or a minute has gone by.
    fn write_until(awake: &mut Awake, mut is_done: impl FnMut(&Awake) -> bool) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            awake.write_begins(Instant::now(), Duration::ZERO);
            awake.write_ended(Instant::now());
            if is_done(awake) {
                return true;
            }
            thread::yield_now();
        }
        false
    }

    fn awake(span: Duration) -> Awake {
        Awake { span, ended: None, watch: None }
    }

    #[test]
    fn writes_that_follow_each_other_keep_a_processor_awake() {
        let mut awake = awake(Duration::from_millis(5));
        assert!(write_until(&mut awake, |awake| awake.spent() > Duration::from_millis(2)));
    }

    #[test]
    fn a_write_now_and_then_does_not() {
        let mut awake = awake(Duration::from_millis(5));
        let mut now = Instant::now();
        for _ in 0..100 {
            awake.write_begins(now, Duration::ZERO);
            awake.write_ended(now + Duration::from_millis(1));
            now += Duration::from_millis(6);
        }
        assert!(awake.watch.is_none());
    }

    #[test]
    fn the_thread_rests_after_the_last_write_is_woken_by_the_next_and_ends_with_its_owner() {
        let mut awake = awake(Duration::from_micros(100));
        assert!(write_until(&mut awake, |awake| awake.watch.is_some()));
        let watch = Arc::clone(&awake.watch.as_ref().expect("started").0);
        let until = |is_so: &dyn Fn() -> bool| {
            let start = Instant::now();
            while !is_so() && start.elapsed() < Duration::from_secs(60) {
                thread::yield_now();
            }
            is_so()
        };
        assert!(until(&|| watch.rests.load(Ordering::SeqCst)));
        let spent = awake.spent();
        assert!(write_until(&mut awake, |awake| awake.spent() > spent));
        drop(awake);
        assert!(until(&|| Arc::strong_count(&watch) == 1));
    }

    #[test]
    fn a_span_of_zero_means_never() {
        let mut awake = Awake::new(Duration::ZERO);
        let mut writes = 0;
        assert!(write_until(&mut awake, |_| {
            writes += 1;
            writes == 1_000
        }));
        assert!(awake.watch.is_none());
    }
}
