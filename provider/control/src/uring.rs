//! What of io_uring a program's helper needs to receive: a ring with deferred task work, provided
//! buffers, and multishot receives into them; and whether the kernel has it all. What comes is the
//! engine's.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

/// The buffers of [`check`], and what each has room for.
const FEW: u16 = 2;
const SMALL: usize = 256;

/// The provided buffers and the ring through which the kernel takes them: so many, a power of two,
/// of so many bytes each.
#[derive(Debug)]
pub struct Buffers<const COUNT: u16, const SIZE: usize> {
    entries: *mut BufRingEntry,
    entries_layout: Layout,
    memory: Box<[u8]>,
    tail: u16,
}

impl<const COUNT: u16, const SIZE: usize> Buffers<COUNT, SIZE> {
    /// Makes them; the kernel has none yet.
    #[expect(
        clippy::new_without_default,
        reason = "they are made where a ring is, not by default"
    )]
    pub fn new() -> Self {
        const { assert!(COUNT.is_power_of_two()) };
        let entries_layout =
            Layout::from_size_align(size_of::<BufRingEntry>() * usize::from(COUNT), 4096)
                .expect("a small array at page alignment");

        // SAFETY: the layout is not empty.
        let entries = unsafe { alloc_zeroed(entries_layout) }.cast::<BufRingEntry>();
        if entries.is_null() {
            std::alloc::handle_alloc_error(entries_layout);
        }

        Self {
            entries,
            entries_layout,
            memory: vec![0; SIZE * usize::from(COUNT)].into_boxed_slice(),
            tail: 0,
        }
    }

    /// Tells the kernel of the ring, as that of this group, and gives it all the buffers.
    ///
    /// # Errors
    /// In words; for a kernel of before 5.19.
    ///
    /// # Safety
    /// The buffers must be dropped after the ring that takes from them.
    pub unsafe fn register(&mut self, ring: &IoUring, group: u16) -> Result<(), String> {
        // SAFETY: the entries are there for as long as the ring, as the caller promises.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(self.entries as u64, COUNT, group, 0)
        }
        .map_err(|e| format!("registering a buffer ring (Linux 5.19): {e}"))?;

        for id in 0..COUNT {
            self.provide(id);
        }
        Ok(())
    }

    /// A buffer's bytes.
    pub fn bytes(&self, id: u16) -> &[u8] {
        &self.memory[usize::from(id) * SIZE..][..SIZE]
    }

    /// Gives a buffer to the kernel.
    pub fn provide(&mut self, id: u16) {
        let addr = self.memory[usize::from(id) * SIZE..].as_ptr() as u64;
        // SAFETY: the index is masked to the ring, which is ours; the kernel reads an entry only
        // after the tail passes it.
        unsafe {
            let entry = &mut *self.entries.add(usize::from(self.tail & (COUNT - 1)));
            entry.set_addr(addr);
            entry.set_len(SIZE as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

impl<const COUNT: u16, const SIZE: usize> Drop for Buffers<COUNT, SIZE> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the ring, and so the kernel's use, has gone before.
        unsafe { dealloc(self.entries.cast(), self.entries_layout) };
    }
}

/// A ring for the calling thread, which alone may use it.
///
/// # Errors
/// In words; for a kernel of before 6.1, or one that refuses io_uring to this process.
pub fn open() -> Result<IoUring, String> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(256)
        .build(64)
        .map_err(|e| format!("io_uring_setup (deferred task work, Linux 6.1): {e}"))
}

/// Tries a multishot receive on a socket that has a datagram waiting. The ring is as it was
/// afterwards; it must have nothing else to do.
///
/// # Errors
/// In words; for a kernel of before 6.0.
pub fn probe<const COUNT: u16, const SIZE: usize>(
    ring: &mut IoUring,
    buffers: &mut Buffers<COUNT, SIZE>,
    message: &libc::msghdr,
    group: u16,
) -> Result<(), String> {
    receive_once(ring, buffers, message, group)
        .map_err(|e| format!("multishot receive (Linux 6.0): {e}"))
}

fn receive_once<const COUNT: u16, const SIZE: usize>(
    ring: &mut IoUring,
    buffers: &mut Buffers<COUNT, SIZE>,
    message: &libc::msghdr,
    group: u16,
) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.send_to(b"probe", socket.local_addr()?)?;
    let receive = opcode::RecvMsgMulti::new(Fd(socket.as_raw_fd()), message, group).build();

    // SAFETY: message and socket outlive the receive, which is cancelled below.
    unsafe { ring.submission().push(&receive) }.map_err(io::Error::other)?;

    let second = Timespec::new().sec(1);
    ring.submitter()
        .submit_with_args(1, &SubmitArgs::new().timespec(&second))?;
    let entries: Vec<_> = ring.completion().collect();
    for cqe in &entries {
        if let Some(id) = cqueue::buffer_select(cqe.flags()) {
            buffers.provide(id);
        }
    }

    let done = entries.first().ok_or(io::ErrorKind::TimedOut)?;
    if done.result() < 0 {
        return Err(io::Error::from_raw_os_error(-done.result()));
    }

    if cqueue::more(done.flags()) {
        // Ends the receive, so that nothing refers to the socket any more.
        ring.submitter()
            .register_sync_cancel(Some(second), CancelBuilder::any())?;
        // its last completion, should it be there already
        ring.completion().for_each(drop);
    }

    Ok(())
}

/// Whether a helper could receive by io_uring here.
///
/// # Errors
/// In words, what is missing.
pub fn check() -> Result<(), String> {
    // Dropped in the reverse order: the ring first.
    let mut buffers = Buffers::<FEW, SMALL>::new();
    let mut ring = open()?;
    // SAFETY: as the order of the two says.
    unsafe { buffers.register(&ring, 0) }?;
    // SAFETY: all zeroes is a valid msghdr.
    let message: libc::msghdr = unsafe { std::mem::zeroed() };
    probe(&mut ring, &mut buffers, &message, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is waiting comes into a buffer, and the buffer back: more often than there are any.
    #[test]
    fn a_ring_that_was_probed_is_as_it_was() {
        let mut buffers = Buffers::<FEW, SMALL>::new();
        let mut ring = match open() {
            Ok(ring) => ring,
            Err(why) => {
                assert_eq!(check(), Err(why));
                return;
            }
        };

        // SAFETY: the ring is dropped first.
        unsafe { buffers.register(&ring, 7) }.unwrap();

        // SAFETY: all zeroes is a valid msghdr.
        let message: libc::msghdr = unsafe { std::mem::zeroed() };
        for _ in 0..3 * FEW {
            probe(&mut ring, &mut buffers, &message, 7).unwrap();
        }
        assert!(ring.completion().next().is_none());
        assert_eq!(check(), Ok(()));
    }
}
