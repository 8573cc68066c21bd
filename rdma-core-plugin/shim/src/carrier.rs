//! The process's own connections to ferroced, over which commands of the rdma_cm and umad ABIs
//! travel: one request at a time on each, and one reply to it. They are made when they are first
//! needed, and anew in a forked child, when the program closed them or ferroced has gone: there may
//! be another by then.
//!
//! What the commands mean is nothing to this module.

use crate::image::IMAGE;
use crate::lock::{self, Lock};
use crate::sys;
use ferroce_cabi::ucma_frame::{self, Reply, Request};
use libc::{c_int, iovec, msghdr};
use std::cell::UnsafeCell;
use std::io::Write;
use std::mem::{MaybeUninit, size_of};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Stands for the generation that the state belongs to while a child puts it in order.
const CHANGING: u32 = u32::MAX;

/// One connection.
pub(crate) struct Carrier {
    name: &'static str,
    owner: AtomicU32,
    lock: Lock,
    socket: UnsafeCell<Socket>,
}

/// The connection's descriptor and the inode number by which it is known to be still the same.
#[derive(Clone, Copy)]
struct Socket {
    fd: c_int,
    inode: u64,
}

// SAFETY: the socket is reached through `Guard` only, of which there is one at a time.
unsafe impl Sync for Carrier {}

/// For `rdma_cm`.
pub(crate) static RDMA_CM: Carrier = Carrier::new(ucma_frame::SOCKET);
/// For `umadN` and `issmN`.
pub(crate) static UMAD: Carrier = Carrier::new(ucma_frame::UMAD_SOCKET);

/// The right to use a connection.
pub(crate) struct Guard(&'static Carrier, #[allow(dead_code)] lock::Guard<'static>);

impl Carrier {
    const fn new(name: &'static str) -> Self {
        Carrier {
            name,
            owner: AtomicU32::new(0),
            lock: Lock::new(),
            socket: UnsafeCell::new(Socket { fd: -1, inode: 0 }),
        }
    }

    /// Waits for the connection to be free.
    pub(crate) fn lock(&'static self) -> Guard {
        let me = ferroce_process::generation();
        loop {
            let owner = self.owner.load(Ordering::Acquire);
            if owner == me {
                break;
            }

            // A forked child: threads that held the lock do not exist here, and the connection is
            // the parent's.
            if owner != CHANGING
                && self
                    .owner
                    .compare_exchange(owner, CHANGING, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                // SAFETY: this thread alone has moved the owner to CHANGING, and others wait for it
                // to become `me`.
                let socket = unsafe { &mut *self.socket.get() };
                close(socket);
                self.lock.reset();
                self.owner.store(me, Ordering::Release);
            }
        }

        Guard(self, self.lock.lock())
    }
}

/// Closes the connection, unless the program has and the number is another's now.
fn close(socket: &mut Socket) {
    if socket.fd >= 0 && sys::socket_inode(socket.fd) == Some(socket.inode) {
        sys::close(socket.fd);
    }
    socket.fd = -1;
}

impl Guard {
    /// The connection, made if there is none. The error is an errno.
    fn socket(&mut self) -> Result<c_int, c_int> {
        // SAFETY: the guard is the right to use it.
        let socket = unsafe { &mut *self.0.socket.get() };
        if socket.fd < 0 || sys::socket_inode(socket.fd) != Some(socket.inode) {
            let directory = IMAGE.directory().ok_or(libc::ENODEV)?;
            let fd = sys::connect(directory, self.0.name.as_bytes())?;
            if self.0.name == ucma_frame::UMAD_SOCKET {
                sys::enlarge_send_buffer(fd, 2 * ucma_frame::MAX_UMAD as c_int);
            }
            let Some(inode) = sys::socket_inode(fd) else {
                sys::close(fd);
                return Err(libc::ENODEV);
            };
            *socket = Socket { fd, inode };
        }

        Ok(socket.fd)
    }

    /// Has ferroced open a file, and returns what [`exchange`](Self::exchange) does. The error is
    /// an errno; `ENODEV` without a ferroced.
    pub(crate) fn open(
        &mut self,
        request: &Request,
        flags: c_int,
    ) -> Result<(Reply, [Option<c_int>; 2]), c_int> {
        let nothing = iovec {
            iov_base: null_mut(),
            iov_len: 0,
        };
        let ask = |guard: &mut Self| {
            // SAFETY: nothing of the program's is read or written.
            unsafe { guard.exchange(request, [nothing; 2], nothing, flags) }
        };

        let connected = self.socket().map(drop);
        let mut asked = connected.and_then(|()| ask(self));
        if matches!(asked, Err(libc::EIO)) {
            // Of the ferroced that there was, whose end is noticed now.
            let connected = self.socket().map(drop);
            asked = connected.and_then(|()| ask(self));
        }

        asked.map_err(|errno| match errno {
            libc::EIO | libc::ENOENT | libc::ECONNREFUSED => libc::ENODEV,
            errno => errno,
        })
    }

    /// Gives up a connection that failed, so that the next request makes another. What the program
    /// is told.
    fn failed(&mut self, errno: c_int) -> c_int {
        if matches!(errno, libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN) {
            self.close();
        }
        gone(errno)
    }

    fn close(&mut self) {
        // SAFETY: the guard is the right to use it.
        close(unsafe { &mut *self.0.socket.get() });
    }

    /// Sends a request with its parts, to which there is no reply. The error is an errno.
    ///
    /// # Safety
    /// The parts are the program's memory: the kernel checks them.
    pub(crate) unsafe fn send(
        &mut self,
        request: &Request,
        parts: [iovec; 2],
    ) -> Result<c_int, c_int> {
        let fd = self.socket().map_err(gone)?;
        let mut vector = [sys::vector_of(request), parts[0], parts[1]];
        // SAFETY: all zeros is a message without name, parts and control data.
        let mut message: msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_iov = vector.as_mut_ptr();
        message.msg_iovlen = vector.len() as _;
        match sys::sendmsg(fd, &message) {
            Ok(_) => Ok(fd),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Sends a request with its parts and waits for the reply, whose answer goes to `answer`.
    /// Descriptors that come with it are opened with `MSG_CMSG_CLOEXEC` or without, as `flags` say.
    /// The error is an errno.
    ///
    /// # Safety
    /// Parts and answer are the program's memory: the kernel checks them, but what lies there is
    /// overwritten.
    pub(crate) unsafe fn exchange(
        &mut self,
        request: &Request,
        parts: [iovec; 2],
        answer: iovec,
        flags: c_int,
    ) -> Result<(Reply, [Option<c_int>; 2]), c_int> {
        // SAFETY: as the caller promises.
        let fd = unsafe { self.send(request, parts) }?;

        // SAFETY: all zeros is a message without name, parts and control data.
        let mut message: msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut reply = MaybeUninit::<Reply>::uninit();
        let mut vector = [
            iovec {
                iov_base: reply.as_mut_ptr().cast(),
                iov_len: size_of::<Reply>(),
            },
            answer,
        ];

        let mut control = Control([0; CONTROL]);
        message.msg_iov = vector.as_mut_ptr();
        message.msg_iovlen = vector.len() as _;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        let n = sys::recvmsg(fd, &mut message, flags).map_err(|errno| self.failed(errno))?;
        let received = received_descriptors(&message);
        if n < size_of::<Reply>() {
            received.into_iter().flatten().for_each(sys::close);
            self.close();
            return Err(libc::EIO);
        }

        // SAFETY: as many bytes have been received.
        let reply = unsafe { reply.assume_init() };
        if reply.result == ucma_frame::OTHER_VERSION {
            received.into_iter().flatten().for_each(sys::close);
            self.close();
            say_other_version(reply.answer_len);
            return Err(libc::EPROTO);
        }

        Ok((reply, received))
    }
}

/// Once a process: programs say of such a device at most that there is none.
fn say_other_version(theirs: u32) {
    static SAID: AtomicBool = AtomicBool::new(false);

    if SAID.swap(true, Ordering::Relaxed) {
        return;
    }

    let mut line = [0; 256];
    let mut rest = &mut line[..];
    let ours = ucma_frame::VERSION;

    // A line that is cut short says enough.
    let _ = writeln!(
        rest,
        "ferroce: libferroce-shim.so speaks version {ours} of the connection manager's frames, the running ferroced version {theirs}: \
         they are of different builds; start the daemon anew (ferroce down, ferroce up)"
    );

    let left = rest.len();
    let len = line.len() - left;
    sys::say(&line[..len]);
}

/// What a program is told when ferroced has gone: what it would see of a device that was removed.
fn gone(errno: c_int) -> c_int {
    match errno {
        libc::EFAULT | libc::ENOMEM | libc::EMFILE | libc::ENFILE => errno,
        _ => libc::EIO,
    }
}

/// Room for two descriptors.
const CONTROL: usize = 24;

#[repr(align(8))]
struct Control([u8; CONTROL]);

fn received_descriptors(message: &msghdr) -> [Option<c_int>; 2] {
    // SAFETY: the kernel has put whole headers into the control buffer and set its length.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_SOCKET
            || (*header).cmsg_type != libc::SCM_RIGHTS
        {
            return [None; 2];
        }
        #[allow(clippy::unnecessary_cast, reason = "musl has 32 bits there")]
        let len = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
        let fds = libc::CMSG_DATA(header).cast::<c_int>();
        [0, 1].map(|i| (len >= (i + 1) * size_of::<c_int>()).then(|| fds.add(i).read_unaligned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection whose other end is in the test's hands.
    fn connected(carrier: &'static Carrier) -> c_int {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors.
        let r =
            unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, &raw mut ends[0]) };
        assert_eq!(r, 0);
        let guard = carrier.lock();
        let inode = sys::socket_inode(ends[0]).unwrap();
        // SAFETY: the guard is the right to use it.
        unsafe { *guard.0.socket.get() = Socket { fd: ends[0], inode } };
        ends[1]
    }

    fn is_given_up(guard: &Guard) -> bool {
        // SAFETY: the guard is the right to use it.
        unsafe { (*guard.0.socket.get()).fd < 0 }
    }

    #[test]
    fn a_connection_whose_ferroced_has_gone_is_given_up() {
        static SENDING: Carrier = Carrier::new("sending");
        static WAITING: Carrier = Carrier::new("waiting");
        let nothing = iovec {
            iov_base: null_mut(),
            iov_len: 0,
        };
        let request = Request::default();

        sys::close(connected(&SENDING));
        let mut guard = SENDING.lock();
        // SAFETY: there is no memory of the program's.
        let sent = unsafe { guard.send(&request, [nothing; 2]) };
        assert_eq!(sent, Err(libc::EIO));
        assert!(is_given_up(&guard));

        // One that goes without reading what it was asked is told of by an error, not by an end.
        let other = connected(&WAITING);
        let mut guard = WAITING.lock();
        let leaves = std::thread::spawn(move || {
            let mut asked = libc::pollfd {
                fd: other,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one descriptor.
            unsafe { libc::poll(&raw mut asked, 1, -1) };
            sys::close(other);
        });
        // SAFETY: there is no memory of the program's.
        let asked = unsafe { guard.exchange(&request, [nothing; 2], nothing, 0) };
        assert_eq!(asked.err(), Some(libc::EIO));
        assert!(is_given_up(&guard));
        leaves.join().unwrap();
    }
}
