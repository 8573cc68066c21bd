//! Completion channels from the program's asking for one until it closes it.
//!
//! libibverbs asks the kernel for a channel, past the provider, so the shim asks here. Queues find
//! the way into theirs by its pipe's inode, and all see the end when the device has gone, those
//! without a queue as well.

use std::any::Any;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::own;
use crate::tuning::LOOK_AGAIN;
use crate::verbs::events::EventPipe;

/// Those that are open.
static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());

/// How long to wait for them. In a forked child a thread that is no more may have them, for good.
const PATIENCE: Duration = Duration::from_millis(10);

/// Whose a channel is, who is not known here.
pub(super) type Device = Weak<dyn Any + Send + Sync>;

struct Made {
    /// The consumer's.
    fd: RawFd,
    inode: u64,
    device: Device,
    pipe: Arc<EventPipe<8>>,
}

/// A completion channel of a device: its end for the program, close-on-exec and blocking.
pub(super) fn make(device: Device) -> Result<OwnedFd> {
    let (fd, pipe) = EventPipe::make(LOOK_AGAIN)?;
    let (_, inode) = own::file_of(fd.as_raw_fd()).ok_or(Error::Dead)?;
    let made = Made {
        fd: fd.as_raw_fd(),
        inode,
        device,
        pipe: Arc::new(pipe),
    };
    let mut all = all().ok_or(Error::Dead)?;
    let stale: Vec<_> = all
        .extract_if(.., |one| {
            one.fd == made.fd || one.device.strong_count() == 0
        })
        .collect();
    all.push(made);
    drop(all);
    drop(stale);
    Ok(fd)
}

/// A descriptor is about to be closed that is a completion channel, as far as the caller knows.
pub fn channel_closed(fd: RawFd) {
    let Some(mut all) = MADE.try_lock() else {
        return;
    };
    let closed = all.iter().position(|one| one.fd == fd);
    let closed = closed.map(|i| all.swap_remove(i));
    drop(all);
    drop(closed);
}

/// The way into a channel.
pub(super) fn find(inode: u64) -> Option<Arc<EventPipe<8>>> {
    let all = all()?;
    let found = all.iter().find(|one| one.inode == inode);
    found.map(|one| one.pipe.clone())
}

/// Has all channels of the device at this place end.
pub(crate) fn end_of<D>(device: *const D) {
    let all = all();
    let theirs = all.iter().flat_map(|all| all.iter());
    let theirs = theirs.filter(|one| std::ptr::addr_eq(one.device.as_ptr(), device));
    let pipes: Vec<_> = theirs.map(|one| one.pipe.clone()).collect();
    drop(all);
    pipes.iter().for_each(|pipe| pipe.end());
}

fn all() -> Option<MutexGuard<'static, Vec<Made>>> {
    MADE.try_lock_for(PATIENCE)
}

/// A channel of no device, for tests.
#[cfg(test)]
pub(super) fn channel() -> OwnedFd {
    let (fd, pipe) = EventPipe::make(LOOK_AGAIN).unwrap();
    MADE.lock().push(Made {
        fd: fd.as_raw_fd(),
        inode: own::file_of(fd.as_raw_fd()).unwrap().1,
        device: Weak::<()>::new(),
        pipe: Arc::new(pipe),
    });
    fd
}
