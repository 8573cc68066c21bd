//! Buffers that io_uring puts datagrams into, of its own choice: those of the engine's helper.

use ferroce_control::uring;

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
