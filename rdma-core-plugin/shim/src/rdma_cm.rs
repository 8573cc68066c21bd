//! `/dev/infiniband/rdma_cm`: opening it, and the commands that librdmacm writes to it.
//!
//! The descriptor is one end of a socket pair that ferroced made. It holds a byte for each event that waits, so that it polls
//! as the kernel's does, whoever polls. A write to it is carried to ferroced; only waiting for an event happens here, in
//! the descriptor itself, so that signals and `O_NONBLOCK` mean what they always mean. As with the kernel, a forked
//! child can close the descriptor but not use it (`EACCES`, which ferroced says).

use crate::carrier::{self, RDMA_CM};
use crate::{descriptors, sys};
use ferroce_cabi::ucma::*;
use ferroce_cabi::ucma_frame::{COMMAND, NO_CHANNEL, OPEN, Reply, Request, VERSION};
use libc::{c_int, c_void, iovec};
use std::mem::size_of;
use std::ptr::null_mut;

/// The numbers that a channel shows as its device's: those of the image's device files.
pub const DEVICE: libc::dev_t = libc::makedev(1, 3);

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

/// Opens a channel, with `O_CLOEXEC` and `O_NONBLOCK` as they are in `flags`; -1 and `errno` on failure.
pub fn open(flags: c_int) -> c_int {
    let request = Request {
        version: VERSION,
        kind: OPEN,
        channel: 0,
        from: 0,
        command_len: 0,
        option_len: 0,
    };
    let cloexec = if flags & libc::O_CLOEXEC != 0 {
        libc::MSG_CMSG_CLOEXEC
    } else {
        0
    };
    // SAFETY: nothing of the program's is read or written.
    let exchanged = unsafe {
        RDMA_CM
            .lock()
            .exchange(&request, [NOTHING; 2], NOTHING, cloexec)
    };
    let fd = match exchanged {
        Ok((Reply { result: 0, .. }, Some(fd))) => fd,
        // The kernel had no number left to give it.
        Ok((Reply { result: 0, .. }, None)) => return sys::fail(libc::EMFILE),
        Ok((reply, received)) => {
            received.into_iter().for_each(sys::close);
            return sys::fail(reply.result.wrapping_neg());
        }
        // Without a ferroced there is no such device.
        Err(libc::EIO) => return sys::fail(libc::ENODEV),
        Err(errno) => return sys::fail(errno),
    };
    if flags & libc::O_NONBLOCK != 0 {
        sys::set_nonblocking(fd);
    }
    if !descriptors::set_rdma_cm(fd) {
        sys::close(fd);
        return sys::fail(libc::EMFILE);
    }
    fd
}

/// Carries out a write to a channel. `None`: the descriptor is no channel any more, and the write is not ours. The
/// error is an errno.
///
/// # Safety
/// `command` is readable for `len` bytes, and the addresses in it are as the rdma_cm ABI asks.
pub unsafe fn write(fd: c_int, command: *const c_void, len: usize) -> Option<Result<usize, c_int>> {
    let channel = sys::socket_inode(fd)?;
    if len < size_of::<rdma_ucm_cmd_hdr>() {
        return Some(Err(libc::EINVAL));
    }
    if command.is_null() {
        return Some(Err(libc::EFAULT));
    }
    // SAFETY: long enough; the caller's buffer may be unaligned.
    let header = unsafe { command.cast::<rdma_ucm_cmd_hdr>().read_unaligned() };
    let whole = size_of::<rdma_ucm_cmd_hdr>() + usize::from(header.r#in);
    if header.cmd > RDMA_USER_CM_CMD_JOIN_MCAST || whole > len {
        return Some(Err(libc::EINVAL));
    }
    let mut call = Call {
        fd,
        from: -1,
        request: Request {
            version: VERSION,
            kind: COMMAND,
            channel,
            from: 0,
            command_len: whole as u32,
            option_len: 0,
        },
        parts: [bytes(command, whole), NOTHING],
        answer: NOTHING,
    };
    // SAFETY: the command follows the header, as its length says.
    let done = unsafe {
        match call.prepare(&header, command.byte_add(size_of::<rdma_ucm_cmd_hdr>())) {
            Err(errno) => Some(Err(errno)),
            Ok(()) if header.cmd == RDMA_USER_CM_CMD_GET_EVENT => call.next_event(),
            Ok(()) => call.run(&mut RDMA_CM.lock()),
        }
    };
    let failed = matches!(done, None | Some(Err(libc::EIO)));
    let done = match failed && sys::is_at_end(fd) {
        // SAFETY: as the caller promises.
        true => Some(unsafe { call.afterwards(header.cmd) }),
        false => done,
    };
    Some(done?.map(|()| len))
}

/// One command under way.
struct Call {
    fd: c_int,
    /// `MIGRATE_ID`: the descriptor in the command.
    from: c_int,
    request: Request,
    parts: [iovec; 2],
    answer: iovec,
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
            self.from = command.fd.cast_signed();
            self.request.from = sys::socket_inode(self.from).unwrap_or(0);
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

    /// Has the command carried out; `None`: ferroced knows of no such channel.
    ///
    /// # Safety
    /// As [`write`].
    unsafe fn run(&self, carrier: &mut carrier::Guard) -> Option<Result<(), c_int>> {
        // SAFETY: as the caller promises.
        let exchanged = unsafe {
            carrier.exchange(
                &self.request,
                self.parts,
                self.answer,
                libc::MSG_CMSG_CLOEXEC,
            )
        };
        let reply = match exchanged {
            Ok((reply, received)) => {
                received.into_iter().for_each(sys::close);
                reply
            }
            Err(errno) => return Some(Err(errno)),
        };
        if reply.result == NO_CHANNEL {
            return None;
        }
        // Under the lock, so that no other thread takes these bytes for an event's.
        let _ = sys::take_bytes(self.fd, reply.take);
        let _ = sys::take_bytes(self.from, reply.take_from);
        Some(match reply.result {
            0 => Ok(()),
            errno => Err(errno.wrapping_neg()),
        })
    }

    /// What is said of a channel whose ferroced has left, whether or not there is another one: nothing can be done with its ids
    /// but letting go of them, which always can.
    ///
    /// # Safety
    /// As [`write`].
    unsafe fn afterwards(&self, command: u32) -> Result<(), c_int> {
        let lets_go = [RDMA_USER_CM_CMD_DESTROY_ID, RDMA_USER_CM_CMD_LEAVE_MCAST];
        if !lets_go.contains(&command) {
            return Err(libc::EIO);
        }
        // No event is awaited any more.
        let nothing = rdma_ucm_destroy_id_resp { events_reported: 0 };
        if self.answer.iov_len >= size_of_val(&nothing) {
            // SAFETY: the caller's structure, whose place may be unaligned.
            unsafe {
                self.answer
                    .iov_base
                    .cast::<rdma_ucm_destroy_id_resp>()
                    .write_unaligned(nothing)
            };
        }
        Ok(())
    }

    /// Waits for an event, if the descriptor is a blocking one, and fetches it. As in the kernel, the channel stays open
    /// while somebody waits, whatever other threads close meanwhile: their number may be another file's by then.
    ///
    /// # Safety
    /// As [`write`].
    unsafe fn next_event(&mut self) -> Option<Result<(), c_int>> {
        let mut held = None;
        let done = loop {
            // Without an event the lock is of no use, and others might close the channel while it is awaited.
            if sys::has_bytes(self.fd) {
                let mut carrier = RDMA_CM.lock();
                if sys::take_bytes(self.fd, 1) == Ok(1) {
                    // SAFETY: as the caller promises.
                    match unsafe { self.run(&mut carrier) } {
                        Some(Err(libc::EAGAIN)) => continue,
                        done => break done,
                    }
                }
            }
            if held.is_none() {
                held = sys::duplicate(self.fd);
                self.fd = held.unwrap_or(self.fd);
            }
            match sys::wait_for_bytes(self.fd) {
                Ok(true) => {}
                // Nothing more will come: ferroced has gone.
                Ok(false) => break Some(Err(libc::EIO)),
                Err(errno) => break Some(Err(errno)),
            }
        };
        held.into_iter().for_each(sys::close);
        done
    }
}
