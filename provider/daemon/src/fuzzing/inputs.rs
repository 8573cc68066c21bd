//! What inputs are made of, and what is looked at of answers.

use std::os::fd::OwnedFd;

use ferroce_cabi::ucma_frame::{OTHER_VERSION, Reply, Request, VERSION};
use ferroce_control::seqpacket::{self, Wait};
use ferroce_wire::mad::{self, Mad};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use zerocopy::{FromBytes, IntoBytes};

use crate::mads::{Incoming, Outgoing};

/// The steps of an input: a byte that says what, one that says of what, two of length, the lower
/// first, and so many bytes. One byte of length would keep the longer commands out, and whole MADs.
pub(crate) fn steps(mut input: &[u8]) -> impl Iterator<Item = (u8, u8, &[u8])> {
    std::iter::from_fn(move || {
        let [what, which, low, high, rest @ ..] = input else {
            return None;
        };
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        let (bytes, rest) = rest.split_at(rest.len().min(len));
        input = rest;
        Some((*what, *which, bytes))
    })
}

/// A connection: the server's end, and the program's.
pub(crate) fn connection() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .expect("a pair of sockets")
}

/// A frame on its way: its head with some numbers changed, unless it is too short to have one.
/// `repair`: all that follows the head is the command, and the head says so.
pub(crate) fn frame(bytes: &[u8], repair: bool, change: impl FnOnce(&mut Request)) -> Vec<u8> {
    let Ok((mut head, body)) = Request::read_from_prefix(bytes) else {
        return bytes.to_vec();
    };
    change(&mut head);
    if repair {
        (head.command_len, head.option_len) = (body.len() as u32, 0);
    }
    [head.as_bytes(), body].concat()
}

/// What came back for a request, if anything but that it is of another version: head, answer,
/// descriptors.
pub(crate) fn reply(end: &OwnedFd) -> Option<(Reply, Vec<u8>, Vec<OwnedFd>)> {
    let mut buffer = [0; 2048];
    let received = seqpacket::receive(end, &mut buffer, Wait::Not).ok()?;
    let (head, answer) = Reply::read_from_prefix(&buffer[..received.len]).expect("a whole head");
    let again = seqpacket::receive(end, &mut [0; 16], Wait::Not);
    assert!(again.is_err(), "two replies to one request");
    if head.result == OTHER_VERSION {
        assert!(head.answer_len == VERSION && answer.is_empty() && received.fds.is_empty());
        return None;
    }
    Some((head, answer.to_vec(), received.fds))
}

/// Takes out what is in descriptors that the server writes to.
pub(crate) fn drain<'a>(ends: impl Iterator<Item = &'a OwnedFd>) {
    let mut record = [0; 4096];
    for end in ends {
        while rustix::net::recv(end, &mut record[..], RecvFlags::DONTWAIT)
            .is_ok_and(|(len, _)| len > 0)
        {}
    }
}

/// What was sent comes back, perhaps as a response.
pub(crate) fn returned(sent: Outgoing, response: bool) -> Incoming {
    let mut mad = sent.mad;
    mad[3] ^= if response { 0x80 } else { 0 };
    Incoming {
        port: sent.port,
        qpn: sent.qpn,
        from: sent.to,
        mad,
    }
}

/// A MAD that begins with some bytes.
pub(crate) fn mad(bytes: &[u8]) -> Mad {
    let mut mad = [0; mad::LEN];
    let n = bytes.len().min(mad::LEN);
    mad[..n].copy_from_slice(&bytes[..n]);
    mad
}
