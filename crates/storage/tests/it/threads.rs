//! The disk on a separate thread.

use pole_storage::{Disk, Event, Writer};
use pole_zab::{DiskOp, Epochs, Image, Snapshot, Ticket};
use std::fs;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use crate::scratch::{Scratch, append, snapshot, zxid};

fn start(disk: Disk) -> (Writer, Receiver<Event>) {
    let (send, events) = channel();
    (disk.start(move |event| drop(send.send(event))), events)
}

fn written(event: &Event) -> Option<Ticket> {
    if let Event::Written { through } = event { Some(*through) } else { None }
}

#[test]
fn everything_is_reported_in_order_and_queued_operations_share_a_sync() {
    let scratch = Scratch::new();
    let (disk, _, _) = scratch.open();
    let counts = disk.counts();
    let (writer, events) = start(disk);
    for counter in 1..=2000 {
        writer.write(Ticket(counter.into()), append(1, counter..=counter, 100));
    }
    writer.stop();
    let tickets: Vec<_> = events.iter().filter_map(|event| written(&event)).collect();
    assert!(tickets.is_sorted(), "{tickets:?}");
    assert_eq!(tickets.last(), Some(&Ticket(2000)));
    assert!(counts.syncs() < 2000, "{} syncs", counts.syncs());
    assert_eq!(scratch.found().len(), 2000);
}

#[test]
fn an_idle_disk_writes_on_the_calling_thread() {
    let scratch = Scratch::new();
    let (writer, events) = start(scratch.open().0);
    for counter in 1..=50 {
        let mut ops = vec![(Ticket(counter.into()), append(1, counter..=counter, 100))];
        assert_eq!(writer.write_here(&mut ops), Some(Ticket(counter.into())));
    }
    writer.stop();
    assert_eq!(events.iter().count(), 0);
    assert_eq!(scratch.found().len(), 50);
}

#[test]
fn both_ways_of_writing_mix_and_keep_the_order() {
    let scratch = Scratch::new();
    let (writer, events) = start(scratch.open().0);
    let mut here = Vec::new();
    for counter in 1..=1000 {
        let ticket = Ticket(counter.into());
        if counter % 3 == 0 {
            here.extend(writer.write_here(&mut vec![(ticket, append(1, counter..=counter, 100))]));
        } else {
            writer.write(ticket, append(1, counter..=counter, 100));
        }
    }
    writer.stop();
    let through = events.iter().filter_map(|event| written(&event)).max();
    assert_eq!(through.max(here.last().copied()), Some(Ticket(1000)));
    assert_eq!(scratch.found().len(), 1000);
}

#[test]
fn a_failure_is_reported_once_and_nothing_after_it() {
    let scratch = Scratch::new();
    let (writer, events) = start(scratch.open().0);
    fs::remove_dir_all(scratch.files()).unwrap();
    writer.write(Ticket(1), append(1, 1..=1, 10));
    assert!(matches!(events.recv(), Ok(Event::Failed { .. })));
    writer.write(Ticket(2), append(1, 1..=1, 10));
    assert_eq!(writer.write_here(&mut vec![(Ticket(3), append(1, 1..=1, 10))]), None);
    writer.stop();
    assert_eq!(events.iter().collect::<Vec<_>>(), []);
}

/// A state that cannot be written before the test allows it.
#[derive(Debug)]
struct Slow(Mutex<Receiver<()>>);

impl Image for Slow {
    fn write(&self, sink: &mut dyn FnMut(&[u8])) {
        let _ = self.0.lock().unwrap().recv();
        sink(b"state");
    }
}

#[test]
fn appends_continue_while_a_checkpoint_is_written() {
    let scratch = Scratch::new();
    let (writer, events) = start(scratch.open().0);
    let (go, wait) = channel();
    let body = pole_zab::Body::Image(Arc::new(Slow(Mutex::new(wait))));
    let slow = Snapshot { zxid: zxid(1, 1), epochs: Epochs::starting_at(zxid(1, 1)), body };
    writer.write(Ticket(1), append(1, 1..=1, 10));
    writer.write(Ticket(2), DiskOp::Checkpoint(slow));
    writer.write(Ticket(3), append(1, 2..=2, 10));
    let through = |ticket| events.iter().find(|event| written(event) == Some(ticket));
    assert!(through(Ticket(3)).is_some());
    go.send(()).unwrap();
    assert!(matches!(events.recv(), Ok(Event::Checkpointed { zxid: at, purged: 0, .. }) if at == zxid(1, 1)));
    writer.stop();
    assert_eq!(scratch.open().1.snapshot, Some(snapshot(zxid(1, 1), b"state")));
}

#[test]
fn stopping_leaves_no_partial_checkpoint() {
    let scratch = Scratch::new();
    let (writer, _events) = start(scratch.open().0);
    let (go, wait) = channel();
    let body = pole_zab::Body::Image(Arc::new(Slow(Mutex::new(wait))));
    let slow = Snapshot { zxid: zxid(1, 1), epochs: Epochs::starting_at(zxid(1, 1)), body };
    writer.write(Ticket(1), append(1, 1..=1, 10));
    writer.write(Ticket(2), DiskOp::Checkpoint(slow));
    let stopping = std::thread::spawn(move || writer.stop());
    drop(go);
    stopping.join().unwrap();
    assert!(scratch.names().iter().all(|name| !name.ends_with("tmp")), "{:?}", scratch.names());
}
