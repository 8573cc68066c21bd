//! The helper's io_uring: multishot receives into a ring of provided buffers, and a sleep that ends
//! with the next timer.
//!
//! Only the helper enters the ring, and with deferred task work only then does the kernel take
//! datagrams off the sockets. While the helper stands by, a polling thread may read the same
//! sockets with `recvmsg`: an armed multishot receive then finds nothing and stays armed, and no
//! datagram waits in a buffer here while a later one is handled there.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferroce_control::switches;
use ferroce_control::uring::{self, Buffers};
use ferroce_transport::Time;
use io_uring::types::{Fd, RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use crate::datapath::rx::state::MAX_DATAGRAM;
use crate::hca::Hca;
use crate::own::Mark;
use crate::port::receiver::Receiver;
use crate::port::recvmsg::{CONTROL, describe};
use crate::progress::round::{Round, timespec_until};
use crate::progress::timers;
use crate::tuning::{DATAGRAMS_PER_ROUND, RECEIVE_BUFFERS};
use crate::verbs::qp::Qp;

const NAME: usize = size_of::<libc::sockaddr_in6>();
/// `struct io_uring_recvmsg_out`, then name, control data and payload.
const BUFFER: usize = 16 + NAME + CONTROL + MAX_DATAGRAM;
const GROUP: u16 = 0;
/// `user_data` of what is not a receiver.
const WAKE: u64 = u64::MAX;
const CONTROL_EVENT: u64 = u64::MAX - 1;
const CANCEL: u64 = u64::MAX - 2;

/// A receiver's receive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receive {
    Idle,
    Armed,
    /// Armed, and told to end.
    Ending,
}

/// The helper's ring.
pub(crate) struct Uring {
    // dropped first
    ring: IoUring,
    buffers: Buffers<RECEIVE_BUFFERS, BUFFER>,
    /// Template that every multishot receive refers to.
    message: Box<libc::msghdr>,
    /// Receivers by descriptor, and each one's receive, which holds the socket: nobody else closes
    /// it meanwhile.
    armed: HashMap<RawFd, (Arc<Receiver<Qp>>, Receive)>,
    wake_armed: bool,
    control_armed: bool,
    mark: Mark,
}

impl Uring {
    /// Sets the ring up on the calling thread, which alone may use it.
    pub(crate) fn new() -> Result<Uring, String> {
        if !switches::enabled(switches::IO_URING) {
            return Err(format!("{}=off", switches::IO_URING));
        }

        let ring = uring::open()?;
        let mut buffers = Buffers::new();

        // SAFETY: the buffers live as long as `Uring`, which drops the ring first.
        unsafe { buffers.register(&ring, GROUP) }?;

        // SAFETY: all zeroes is a valid msghdr.
        let mut message: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        message.msg_namelen = NAME as u32;
        message.msg_controllen = CONTROL as _;
        let mut uring = Uring {
            mark: Mark::of(&ring),
            ring,
            buffers,
            message,
            armed: HashMap::new(),
            wake_armed: false,
            control_armed: false,
        };

        uring::probe(&mut uring.ring, &mut uring.buffers, &uring.message, GROUP)?;
        Ok(uring)
    }

    /// Gives it back, unless the program has closed its descriptor: then the number is another
    /// file's, and what is mapped of the ring keeps it, and the kernel in our buffers, for good.
    pub(crate) fn end(self) {
        if !self.mark.is_ours() {
            std::mem::forget(self);
        }
    }

    fn push(&mut self, entry: io_uring::squeue::Entry) -> io::Result<()> {
        // SAFETY: every entry refers to the message template and to descriptors that outlive it:
        // receivers are kept in `armed`.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
            // SAFETY: as above.
            unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn arm(&mut self, hca: &Hca) -> io::Result<()> {
        if !std::mem::replace(&mut self.wake_armed, true) {
            self.push(
                opcode::PollAdd::new(Fd(hca.driver.event().as_raw_fd()), libc::POLLIN as u32)
                    .build()
                    .user_data(WAKE),
            )?;
        }

        if let (false, Some(fd)) = (self.control_armed, hca.control_fd()) {
            let poll = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32);
            self.push(poll.build().user_data(CONTROL_EVENT))?;
            self.control_armed = true;
        }

        for receiver in hca.receivers.read().iter() {
            self.armed
                .entry(receiver.socket.as_raw_fd())
                .or_insert_with(|| (receiver.clone(), Receive::Idle));
        }

        // One that is closed and armed ends with a completion of its own. That its socket is shut
        // down does not end it: it finds nothing, as ever.
        let mut wanted = Vec::new();
        self.armed.retain(|fd, (receiver, receive)| {
            let closed = receiver.closed.load(Ordering::Relaxed);
            match (closed, *receive) {
                (false, Receive::Idle) => wanted.push((*fd, Receive::Armed)),
                (true, Receive::Armed) => wanted.push((*fd, Receive::Ending)),
                _ => {}
            }
            !closed || *receive != Receive::Idle
        });

        for (fd, next) in wanted {
            let entry = match next {
                Receive::Armed => opcode::RecvMsgMulti::new(Fd(fd), &*self.message, GROUP)
                    .build()
                    .user_data(fd as u64),
                _ => opcode::AsyncCancel::new(fd as u64)
                    .build()
                    .user_data(CANCEL),
            };
            self.push(entry)?;
            self.armed.get_mut(&fd).expect("just listed").1 = next;
        }

        Ok(())
    }

    /// Sleeps until something comes or `until`, then handles what came.
    pub(crate) fn round(&mut self, hca: &Hca, until: Time) -> io::Result<Round> {
        self.arm(hca)?;
        let waited = match timespec_until(until) {
            None => self.ring.submitter().submit_and_wait(1),
            Some(t) => {
                let t = Timespec::new().sec(t.tv_sec as u64).nsec(t.tv_nsec as u32);
                self.ring
                    .submitter()
                    .submit_with_args(1, &SubmitArgs::new().timespec(&t))
            }
        };

        hca.driver.awake();
        let woken = timers::now();
        match waited {
            Err(e)
                if !matches!(
                    e.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) =>
            {
                Err(e)
            }
            _ => {
                let handled = self.reap(hca)?;
                Ok(Round { woken, handled })
            }
        }
    }

    /// Handles what came; returns how many datagrams there were.
    fn reap(&mut self, hca: &Hca) -> io::Result<usize> {
        let mut rx = None;
        let mut handled = 0;
        let mut outcome = Ok(());
        while let Some(cqe) = { self.ring.completion().next() } {
            match cqe.user_data() {
                WAKE => {
                    hca.driver.clear_wake();
                    self.wake_armed = false;
                }
                CONTROL_EVENT => {
                    self.control_armed = false;
                    hca.control_events();
                }
                CANCEL => {}
                fd => {
                    let Some((receiver, receive)) = self.armed.get_mut(&(fd as RawFd)) else {
                        continue;
                    };

                    if !cqueue::more(cqe.flags()) {
                        *receive = Receive::Idle;
                    }
                    let receiver = receiver.clone();
                    let closed = receiver.closed.load(Ordering::Relaxed);
                    if closed && *receive == Receive::Idle {
                        self.armed.remove(&(fd as RawFd));
                    }

                    // ENOBUFS: all buffers are on this queue; they come back below
                    if cqe.result() < 0
                        && cqe.result() != -libc::ENOBUFS
                        && cqe.result() != -libc::EAGAIN
                        && !closed
                    {
                        outcome = Err(io::Error::from_raw_os_error(-cqe.result()));
                        break;
                    }

                    let Some(id) = cqueue::buffer_select(cqe.flags()) else {
                        continue;
                    };

                    let rx = rx.get_or_insert_with(|| hca.rx.lock());
                    if let Ok(out) = RecvMsgOut::parse(self.buffers.bytes(id), &self.message) {
                        let datagram = describe(out.name_data(), out.control_data());
                        hca.process(rx, &receiver, &datagram, out.payload_data().into());
                    }

                    self.buffers.provide(id);
                    handled += 1;
                    if handled % DATAGRAMS_PER_ROUND == 0 {
                        hca.answer(rx);
                    }
                }
            }
        }

        if let Some(mut rx) = rx {
            hca.answer(&mut rx);
        }

        outcome.map(|()| handled)
    }
}
