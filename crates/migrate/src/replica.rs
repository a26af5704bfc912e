//! The copy: a data directory, and the tree that it contains.
//!
//! It carries out the effects of a [`crate::Learner`]. Transactions are logged in batches: what one read of the socket
//! brought is one write. A restored state is written when it is exact, at `Adopt`.
//!
//! Invariant: [`Replica::last`] is durable, except between `Restore` and `Adopt` and for the batch under way.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pole_jute::{Reader, Record, TxnEntry};
use pole_storage::{Disk, OpenError, State, WriteError, open_into};
use pole_tree::{Changes, Restorer, Rules, Tree};
use pole_types::{Epoch, Zxid};
use pole_zab::{Body, DiskOp, Entry, Epochs, Image, Snapshot, Ticket};

use crate::Effect;

/// Why a copy cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The history here does not contain the transaction that it was to be truncated to.
    #[error(
        "the leader wants a truncation to {to}, and the copy has {last} before it; remove the copy and follow again"
    )]
    Truncation {
        /// The transaction that the leader named.
        to: Zxid,
        /// The last one here.
        last: Zxid,
    },
    /// A transaction of the leader that is none.
    #[error("the transaction {zxid} cannot be read: {why}")]
    Transaction {
        /// Its zxid.
        zxid: Zxid,
        /// What is wrong with it.
        why: String,
    },
}

/// A copy of the ensemble's state and history.
#[derive(Debug)]
pub struct Replica {
    config: pole_storage::Config,
    /// `None` only while the directory is opened again.
    disk: Option<Disk>,
    tree: Tree,
    last: Zxid,
    accepted: Epoch,
    current: Epoch,
    /// A state was restored that is not on disk yet.
    restored: bool,
    ticket: u64,
    batch: Vec<Entry>,
    /// The log since the last snapshot, in bytes.
    log_bytes: u64,
    changes: Changes,
}

impl Replica {
    /// Opens the directory, or creates a blank one.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open(mut config: pole_storage::Config) -> Result<Self, OpenError> {
        let mut blank = Vec::new();
        Tree::new(Rules::default()).freeze().write(&mut |piece| blank.extend_from_slice(piece));
        // What an observer gets is committed, so all of it can be applied at once and none has to be kept in memory.
        (config.alone, config.following, config.retain_bytes) = (true, true, 0);
        config.purge_interval = Some(PURGE_INTERVAL);
        config.blank = Some(blank.into());
        let mut rebuild = Rebuild::default();
        let (disk, recovered, _) = open_into(config.clone(), &mut rebuild)?;
        let last = recovered.standing().last_zxid;
        let log_bytes = disk.replayed().1;
        Ok(Self {
            config,
            disk: Some(disk),
            tree: rebuild.tree,
            last,
            accepted: recovered.accepted_epoch,
            current: recovered.current_epoch,
            restored: false,
            ticket: 0,
            batch: Vec::new(),
            log_bytes,
            changes: Changes::new(),
        })
    }

    /// The last transaction.
    #[must_use]
    pub fn last(&self) -> Zxid {
        self.last
    }

    /// The last epoch promised, and the last one adopted.
    #[must_use]
    pub fn epochs(&self) -> (Epoch, Epoch) {
        (self.accepted, self.current)
    }

    /// The state.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Carries out an effect. What must be durable before an answer is durable on return of [`Self::flush`].
    ///
    /// # Errors
    /// If a transaction is invalid or the disk fails.
    pub fn perform(&mut self, effect: Effect) -> Result<(), ReplicaError> {
        match effect {
            Effect::Accept(epoch) => {
                if epoch > self.accepted {
                    self.write(vec![DiskOp::AcceptedEpoch(epoch)])?;
                    self.accepted = epoch;
                }
            }
            Effect::Truncate(to) => self.truncate(to)?,
            Effect::Restore(zxid, tree) => {
                self.batch.clear();
                (self.tree, self.last, self.restored) = (*tree, zxid, true);
            }
            Effect::Reapply(entry) => self.apply(&entry)?,
            Effect::Commit(entry) => {
                self.apply(&entry)?;
                self.last = entry.zxid;
                if !self.restored {
                    self.log_bytes += entry.body.len() as u64;
                    self.batch.push(entry);
                }
            }
            Effect::Adopt { epoch, .. } => self.adopt(epoch)?,
            Effect::Send(_) | Effect::UpToDate | Effect::Proposed(_) | Effect::Changed => {}
        }
        Ok(())
    }

    /// Makes the batch durable, and takes a snapshot if the log has become long.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn flush(&mut self) -> Result<(), ReplicaError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.write(vec![DiskOp::Append(batch)])?;
        if let Some(disk) = &self.disk {
            disk.note_committed(self.last);
        }
        if self.log_bytes > CHECKPOINT_BYTES.max(2 * self.tree.size_bytes()) {
            self.log_bytes = 0;
            let epochs = Epochs::starting_at(self.last);
            let snapshot = Snapshot { zxid: self.last, epochs, body: self.image() };
            self.write(vec![DiskOp::Checkpoint(snapshot)])?;
        }
        Ok(())
    }

    /// Ends the copy, which releases the directory. A snapshot under way is given up; nothing depends on it.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn close(mut self) -> Result<Zxid, ReplicaError> {
        self.flush()?;
        Ok(self.last)
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), ReplicaError> {
        apply(&mut self.tree, entry, &mut self.changes)
            .map_err(|why| ReplicaError::Transaction { zxid: entry.zxid, why })
    }

    fn adopt(&mut self, epoch: Epoch) -> Result<(), ReplicaError> {
        self.flush()?;
        if self.restored {
            self.install()?;
        }
        if epoch > self.current {
            self.write(vec![DiskOp::CurrentEpoch(epoch)])?;
            self.current = epoch;
        }
        Ok(())
    }

    /// Replaces the history on disk by the state in memory.
    fn install(&mut self) -> Result<(), ReplicaError> {
        let (zxid, image) = (self.last, self.image());
        let (mut offset, mut result) = (0, Ok(()));
        image.write(&mut |piece| {
            if result.is_ok() {
                let body = Bytes::copy_from_slice(piece);
                result = self.write(vec![DiskOp::Receive { zxid, offset, body }]);
                offset += piece.len();
            }
        });
        result?;
        self.write(vec![DiskOp::Install { zxid }])?;
        (self.restored, self.log_bytes) = (false, 0);
        Ok(())
    }

    /// Removes the end of the history. The tree cannot go back, so it is read again.
    fn truncate(&mut self, to: Zxid) -> Result<(), ReplicaError> {
        self.flush()?;
        self.write(vec![DiskOp::Truncate { to }])?;
        // The directory is locked until the old disk is dropped.
        self.disk = None;
        *self = Self::open(self.config.clone())?;
        if self.last != to {
            return Err(ReplicaError::Truncation { to, last: self.last });
        }
        Ok(())
    }

    fn write(&mut self, ops: Vec<DiskOp>) -> Result<(), ReplicaError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let mut ops: Vec<_> = ops
            .into_iter()
            .map(|op| {
                self.ticket += 1;
                (Ticket(self.ticket), op)
            })
            .collect();
        disk.perform(&mut ops)?;
        Ok(())
    }

    fn image(&self) -> Body {
        Body::Image(Arc::new(Frozen(self.tree.freeze())))
    }
}

/// The tree while the directory is read.
struct Rebuild {
    tree: Tree,
    restorer: Option<Restorer>,
    changes: Changes,
}

impl Default for Rebuild {
    fn default() -> Self {
        Self { tree: Tree::new(Rules::default()), restorer: None, changes: Changes::new() }
    }
}

impl State for Rebuild {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn restore(&mut self, piece: Bytes) -> Result<(), String> {
        let restorer = self.restorer.get_or_insert_with(|| Restorer::new(Rules::default()));
        restorer.feed(piece).map_err(|error| error.to_string())
    }

    fn restored(&mut self, zxid: Zxid) -> Result<(), String> {
        let restorer = self.restorer.take().unwrap_or_else(|| Restorer::new(Rules::default()));
        let tree = restorer.finish().map_err(|error| error.to_string())?;
        self.tree = tree.with_last_zxid(zxid.0.cast_signed());
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        apply(&mut self.tree, entry, &mut self.changes)
    }
}

fn apply(tree: &mut Tree, entry: &Entry, changes: &mut Changes) -> Result<(), String> {
    let txn = TxnEntry::read(&mut Reader::new(entry.body.clone())).map_err(|error| error.to_string())?;
    changes.clear();
    tree.apply(&txn, false, changes);
    Ok(())
}

/// An immutable image of the tree, to be written on another thread.
struct Frozen(pole_tree::Frozen);

impl Image for Frozen {
    fn write(&self, sink: &mut dyn FnMut(&[u8])) {
        self.0.write(sink);
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an image of about {} bytes", self.0.size_bytes())
    }
}

/// Snapshots that are older than the last few are of no use to anyone here.
const PURGE_INTERVAL: Duration = Duration::from_secs(600);

/// A snapshot is taken when the log since the last one is larger than this and than twice the state: the start of a
/// server then reads at most about three times its state.
const CHECKPOINT_BYTES: u64 = 256 << 20;
