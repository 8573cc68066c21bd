//! Buffers that io_uring puts datagrams into, of its own choice: those of the engine's helper.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use ferroce_control::uring;
use io_uring::types::{Fd, RecvMsgOut};
use io_uring::{cqueue, opcode, squeue};

use crate::MAX_DATAGRAM;

const NAME: usize = size_of::<libc::sockaddr_in6>();
const CONTROL: usize = 64;

/// Each holds the largest merged run.
pub(crate) type Buffers = uring::Buffers<16, { 16 + NAME + CONTROL + MAX_DATAGRAM }>;

/// The group that receives name.
pub(crate) const GROUP: u16 = 0;

/// What a receive of messages refers to.
pub(crate) fn message() -> Box<libc::msghdr> {
    // SAFETY: all zeroes is a valid msghdr.
    let mut message: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
    message.msg_namelen = NAME as u32;
    message.msg_controllen = CONTROL;
    message
}

/// A receive of all that comes. Socket and message outlive the ring's use.
pub(crate) fn receives(socket: &UdpSocket, message: &libc::msghdr) -> squeue::Entry {
    opcode::RecvMsgMulti::new(Fd(socket.as_raw_fd()), &raw const *message, GROUP).build()
}

/// The datagram that a completion tells of, if it does, and the buffer that it is in.
pub(crate) fn arrived<'a>(
    done: &cqueue::Entry,
    buffers: &'a Buffers,
    message: &libc::msghdr,
) -> Result<Option<(u16, RecvMsgOut<'a>)>> {
    let Some(id) = cqueue::buffer_select(done.flags()) else {
        return Ok(None);
    };
    let datagram = RecvMsgOut::parse(buffers.bytes(id), message)
        .ok()
        .context("a receive without its head")?;
    Ok(Some((id, datagram)))
}
