//! `/dev/infiniband/rdma_cm`: opening it, and the commands that librdmacm writes to it.
//!
//! The descriptor is one end of a socket pair that ferroced made, out of which events come, so that
//! it polls as the kernel's does, whoever polls. Only fetching an event happens here, in the
//! descriptor itself, so that signals and `O_NONBLOCK` mean what they always mean; other commands
//! are carried to ferroced, unless the answer came along with an event. As with the kernel, a
//! forked child can close the descriptor but not use it (`EACCES`).

mod awake;
mod fetch;
mod gone;
mod index;
mod post;

use crate::answers::{self, Question};
use crate::carrier::RDMA_CM;
use crate::channels::{self, Channel};
use crate::{descriptors, next, sys};
use ferroce_cabi::ucma::*;
use ferroce_cabi::ucma_frame::{COMMAND, NO_CHANNEL, OPEN, Request, VERSION};
use fetch::throw_away;
use libc::{c_int, c_void, iovec};
use std::mem::size_of;
use std::ptr::null_mut;
use std::time::Duration;

/// The numbers that a channel shows as its device's: those of the image's device files.
pub(crate) const DEVICE: libc::dev_t = libc::makedev(1, 3);

const NOTHING: iovec = iovec {
    iov_base: null_mut(),
    iov_len: 0,
};

fn bytes(base: *const c_void, len: usize) -> iovec {
    iovec {
        iov_base: base.cast_mut(),
        iov_len: len,
    }
}

/// Opens a channel, with `O_CLOEXEC` and `O_NONBLOCK` as they are in `flags`; -1 and `errno` on
/// failure.
pub(crate) fn open(flags: c_int) -> c_int {
    let request = Request {
        version: VERSION,
        kind: OPEN,
        ..Request::default()
    };
    let cloexec = if flags & libc::O_CLOEXEC != 0 {
        libc::MSG_CMSG_CLOEXEC
    } else {
        0
    };
    let me = ferroce_process::generation();
    let mut carrier = RDMA_CM.lock();
    let (reply, [fd, page]) = match carrier.open(&request, cloexec) {
        Ok(opened) => opened,
        Err(errno) => return sys::fail(errno),
    };
    if let Some(page) = page {
        answers::adopt(page);
        sys::close(page);
    }
    drop(carrier);
    let fd = match (reply.result, fd) {
        (0, Some(fd)) => fd,
        // The kernel had no number left to give it.
        (0, None) => return sys::fail(libc::EMFILE),
        (errno, fd) => {
            fd.into_iter().for_each(sys::close);
            return sys::fail(errno.wrapping_neg());
        }
    };
    if flags & libc::O_NONBLOCK != 0 {
        sys::set_nonblocking(fd);
    }
    let number = reply.answer_len as u16;
    channels::by_number(number).open(me, sys::inode(fd).unwrap_or(0));
    if !descriptors::set_rdma_cm(fd, number) {
        sys::close(fd);
        return sys::fail(libc::EMFILE);
    }
    fd
}

/// Carries out a write to a channel, by the table the one with that number. `None`: the descriptor
/// is no channel any more, and the write is not ours. The error is an errno.
///
/// # Safety
/// `command` is readable for `len` bytes, and the addresses in it are as the rdma_cm ABI asks.
pub(crate) unsafe fn write(
    fd: c_int,
    number: u16,
    command: *const c_void,
    len: usize,
) -> Option<Result<usize, c_int>> {
    let inode = sys::socket_inode(fd)?;
    let channel = channels::by_number(number);
    // With the number of one of another ferroced's, which began to count anew.
    let outlived = channel.inode() != inode;
    if outlived && !sys::is_abandoned(fd, Duration::ZERO) {
        return None;
    }
    if len < size_of::<rdma_ucm_cmd_hdr>() {
        return Some(Err(libc::EINVAL));
    }
    if command.is_null() {
        return Some(Err(libc::EFAULT));
    }
    // SAFETY: long enough; the caller's buffer may be unaligned.
    let header = unsafe { command.cast::<rdma_ucm_cmd_hdr>().read_unaligned() };
    let whole = size_of::<rdma_ucm_cmd_hdr>() + usize::from(header.r#in);
    if header.cmd > RDMA_USER_CM_CMD_WRITE_CM_EVENT || whole > len {
        return Some(Err(libc::EINVAL));
    }
    let mut call = Call {
        me: ferroce_process::generation(),
        fd,
        number,
        channel,
        from: None,
        request: Request {
            version: VERSION,
            kind: COMMAND,
            channel: inode,
            command_len: whole as u32,
            ..Request::default()
        },
        parts: [bytes(command, whole), NOTHING],
        answer: NOTHING,
    };
    // SAFETY: the command follows the header, as its length says.
    let done = unsafe {
        let body = command.byte_add(size_of::<rdma_ucm_cmd_hdr>());
        let done = match call.prepare(&header, body) {
            Err(errno) => Some(Err(errno)),
            Ok(()) if outlived => Some(Err(libc::EIO)),
            Ok(()) if header.cmd == RDMA_USER_CM_CMD_GET_EVENT => Some(call.next_event()),
            Ok(()) => match call.known(&header, body) {
                Some(known) => Some(known),
                None if call.may_be_posted(&header, body) => Some(call.post()),
                None => call.carry(&header),
            },
        };
        if done == Some(Ok(())) && awake::is_answered(&header, body) {
            channel.expect_answer();
        }
        if next::is_late() && done == Some(Ok(())) {
            index::conceal(&header, body, &call.answer);
        }
        done
    };
    // SAFETY: as the caller promises.
    let done = match unsafe { call.without_ferroced(fd, header.cmd, &done) } {
        Some(said) => {
            if !outlived {
                answers::forget();
            }
            Some(said)
        }
        None => done,
    };
    Some(done?.map(|()| len))
}

/// How long a thread waits that comes for an event of a channel which another thread has closed.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Waits, if what was to be written to a descriptor that is not open asks a channel for its next
/// event. The error is `EBADF`, as by the kernel, but late. Programs that end close the channel
/// while a thread of theirs, having acknowledged the last event, comes back for the next; rping
/// does, and that thread's error would be the process's exit code. In the kernel it would be
/// waiting already but for a few instructions, for as long as the process lives. The time is for
/// the process to end.
///
/// # Safety
/// `command` is readable for `len` bytes.
#[cold]
pub(crate) unsafe fn nowhere(command: *const c_void, len: usize) {
    // The command is the place of the answer alone.
    let whole = size_of::<rdma_ucm_cmd_hdr>() + size_of::<u64>();
    if len != whole || command.is_null() {
        return;
    }
    // SAFETY: long enough; the caller's buffer may be unaligned.
    let header = unsafe { command.cast::<rdma_ucm_cmd_hdr>().read_unaligned() };
    if header.cmd == RDMA_USER_CM_CMD_GET_EVENT && usize::from(header.r#in) == size_of::<u64>() {
        sys::sleep(LAST_WAIT);
    }
}

/// One command under way.
struct Call {
    me: u32,
    fd: c_int,
    number: u16,
    channel: &'static Channel,
    /// `MIGRATE_ID`: the channel in the command, and the id.
    from: Option<From>,
    request: Request,
    parts: [iovec; 2],
    answer: iovec,
}

#[derive(Clone, Copy)]
struct From {
    fd: c_int,
    number: u16,
    id: u32,
}

impl Call {
    /// Looks at the addresses and descriptors in a command. The error is an errno.
    ///
    /// # Safety
    /// `body` is readable for `header.in` bytes.
    unsafe fn prepare(
        &mut self,
        header: &rdma_ucm_cmd_hdr,
        body: *const c_void,
    ) -> Result<(), c_int> {
        let answer_at = match header.cmd {
            RDMA_USER_CM_CMD_CREATE_ID => std::mem::offset_of!(rdma_ucm_create_id, response),
            RDMA_USER_CM_CMD_SET_OPTION => {
                // SAFETY: as the caller promises.
                return unsafe { self.prepare_option(header, body) };
            }
            _ => 0,
        };
        if usize::from(header.r#in) < answer_at + size_of::<u64>() || header.out == 0 {
            return Ok(());
        }
        // SAFETY: inside the command.
        let address = unsafe { body.byte_add(answer_at).cast::<u64>().read_unaligned() };
        self.answer = bytes(address as *const c_void, header.out.into());
        if header.cmd == RDMA_USER_CM_CMD_MIGRATE_ID
            && usize::from(header.r#in) >= size_of::<rdma_ucm_migrate_id>()
        {
            // SAFETY: inside the command.
            let command = unsafe { body.cast::<rdma_ucm_migrate_id>().read_unaligned() };
            let fd = command.fd.cast_signed();
            self.request.from = sys::socket_inode(fd).unwrap_or(0);
            self.from = descriptors::rdma_cm(fd)
                .filter(|number| channels::by_number(*number).inode() == self.request.from)
                .map(|number| From {
                    fd,
                    number,
                    id: command.id,
                });
        }
        Ok(())
    }

    /// # Safety
    /// As [`prepare`](Self::prepare).
    unsafe fn prepare_option(
        &mut self,
        header: &rdma_ucm_cmd_hdr,
        body: *const c_void,
    ) -> Result<(), c_int> {
        if usize::from(header.r#in) < size_of::<rdma_ucm_set_option>() {
            return Ok(());
        }
        // SAFETY: inside the command.
        let command = unsafe { body.cast::<rdma_ucm_set_option>().read_unaligned() };
        if command.optlen as usize > ferroce_cabi::ucma_frame::MAX_OPTION {
            return Err(libc::EINVAL);
        }
        self.parts[1] = bytes(command.optval as *const c_void, command.optlen as usize);
        self.request.option_len = command.optlen;
        Ok(())
    }

    /// Answers a question whose answer came along with an event; `None`: ferroced must be asked.
    ///
    /// # Safety
    /// As [`prepare`](Self::prepare).
    unsafe fn known(
        &self,
        header: &rdma_ucm_cmd_hdr,
        body: *const c_void,
    ) -> Option<Result<(), c_int>> {
        let has = |len| usize::from(header.r#in) >= len;
        let (id, question) = match header.cmd {
            RDMA_USER_CM_CMD_QUERY if has(size_of::<rdma_ucm_query>()) => {
                // SAFETY: inside the command.
                let command = unsafe { body.cast::<rdma_ucm_query>().read_unaligned() };
                (command.id, Question::Query(command.option))
            }
            RDMA_USER_CM_CMD_INIT_QP_ATTR if has(size_of::<rdma_ucm_init_qp_attr>()) => {
                // SAFETY: inside the command.
                let command = unsafe { body.cast::<rdma_ucm_init_qp_attr>().read_unaligned() };
                (command.id, Question::QpAttr(command.qp_state))
            }
            _ => return None,
        };
        if !self.channel.is_of(self.me) {
            return None;
        }
        let place = (self.answer.iov_base as u64, self.answer.iov_len);
        // A variable of `write`.
        let frame_end = std::ptr::from_ref(self).addr() + size_of::<Self>();
        // SAFETY: as the caller promises.
        unsafe { answers::give(self.number, id, question, place, frame_end) }
    }

    /// Has the command carried out by ferroced; `None`: it knows of no such channel. While a
    /// command may take events back, nobody else takes any.
    ///
    /// # Safety
    /// As [`write()`].
    unsafe fn carry(&mut self, header: &rdma_ucm_cmd_hdr) -> Option<Result<(), c_int>> {
        let takes_back = matches!(
            header.cmd,
            RDMA_USER_CM_CMD_DESTROY_ID
                | RDMA_USER_CM_CMD_LEAVE_MCAST
                | RDMA_USER_CM_CMD_MIGRATE_ID
        );
        let locked = |number: u16| {
            let channel = channels::by_number(number);
            (takes_back && channel.is_of(self.me)).then(|| channel.lock())
        };
        let other = self.from.filter(|from| from.number != self.number);
        // In the order of their numbers, lest two wait for each other.
        let (first, second) = match other {
            Some(from) if from.number < self.number => (from.number, Some(self.number)),
            Some(from) => (self.number, Some(from.number)),
            None => (self.number, None),
        };
        let _guards = (locked(first), second.and_then(locked));
        // SAFETY: as the caller promises.
        let done = unsafe { self.run() };
        if let (Some(Ok(())), Some(from)) = (&done, self.from) {
            answers::moved(from.number, self.number, from.id);
        }
        done
    }

    /// # Safety
    /// As [`write()`].
    unsafe fn run(&mut self) -> Option<Result<(), c_int>> {
        let from = self.from.map(|from| channels::by_number(from.number));
        self.request.taken = self.channel.taken();
        self.request.taken_from = from.map_or(0, Channel::taken);
        let flags = libc::MSG_CMSG_CLOEXEC;
        // SAFETY: as the caller promises.
        let exchanged = unsafe {
            RDMA_CM
                .lock()
                .exchange(&self.request, self.parts, self.answer, flags)
        };
        let reply = match exchanged {
            Ok((reply, received)) => {
                received.into_iter().flatten().for_each(sys::close);
                reply
            }
            Err(errno) => return Some(Err(errno)),
        };
        if reply.result == NO_CHANNEL {
            return None;
        }
        throw_away(self.fd, self.channel, reply.take);
        if let Some((from, channel)) = self.from.zip(from) {
            throw_away(from.fd, channel, reply.take_from);
        }
        Some(match reply.result {
            0 => Ok(()),
            errno => Err(errno.wrapping_neg()),
        })
    }
}
