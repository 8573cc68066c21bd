//! Questions of rtnetlink(7), which anybody may ask: a message goes to the kernel, and what it
//! answers is taken apart. What is asked for is nothing to this module. It reads only, and never
//! waits: the kernel has answered when a question has been sent.
//!
//! The engine asks in the midst of programs: by system calls of its own, as a program's functions
//! for sockets may be anybody's, and no thread is cancelled in them.

use std::cell::{Cell, OnceCell};
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

pub use netlink_packet_core::DefaultNla as Attribute;
use netlink_packet_core::{
    Emitable, ErrorBuffer, NLA_ALIGNTO, NLA_HEADER_SIZE, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE,
    NLMSG_ERROR, NetlinkBuffer, NlasIterator,
};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Room for one datagram: no answer takes more, and no part of a listing does.
const DATAGRAM: usize = 32 * 1024;

/// A socket for questions, opened with the first.
#[derive(Debug, Default)]
pub struct Socket {
    opened: OnceCell<OwnedFd>,
    /// The last question's number. What answers an earlier one is not this one's answer.
    sequence: Cell<u32>,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// `RTM_GET*`.
    pub request: u16,
    /// The structure that the type of message begins with, in the machine's byte order.
    pub header: &'a [u8],
    /// What follows it.
    pub attributes: &'a [Attribute],
}

impl Socket {
    /// The message that answers a question, from behind its netlink header on. Errors are the
    /// kernel's, as `ENOENT` of what there is not, those of sockets, and `InvalidData` of an answer
    /// that is none.
    pub fn ask(&self, question: &Question<'_>) -> io::Result<Vec<u8>> {
        let mut answer = None;
        self.exchange(question, NLM_F_REQUEST, |body| {
            answer = Some(body.to_vec());
            ControlFlow::Break(())
        })?;
        answer.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Has everything of a kind listed, and hands what is behind the netlink header of each message
    /// to `each`. Errors as above.
    pub fn list(&self, question: &Question<'_>, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.exchange(question, NLM_F_REQUEST | NLM_F_DUMP, |body| {
            each(body);
            ControlFlow::Continue(())
        })
    }

    /// Asks, and hands over what answers until that is broken off, or ends.
    fn exchange(
        &self,
        question: &Question<'_>,
        flags: u16,
        mut each: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let socket = self.opened()?;
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        rustix::net::send(
            socket,
            &question.message(flags, sequence),
            SendFlags::empty(),
        )?;

        let mut datagram = Vec::with_capacity(DATAGRAM);
        loop {
            datagram.clear();
            let room = rustix::buffer::spare_capacity(&mut datagram);
            if rustix::net::recv(socket, room, RecvFlags::DONTWAIT)?.1 == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut all = messages(&datagram).filter(|answer| answer.sequence_number() == sequence);
            let end = all.try_for_each(|answer| match answer.message_type() {
                NLMSG_DONE => ControlFlow::Break(Ok(())),
                NLMSG_ERROR => ControlFlow::Break(Err(error_of(answer.payload()))),
                kind if kind == question.answer() => each(answer.payload()).map_break(Ok),
                _ => ControlFlow::Continue(()),
            });
            if let ControlFlow::Break(end) = end {
                return end;
            }
        }
    }

    fn opened(&self) -> rustix::io::Result<&OwnedFd> {
        if let Some(socket) = self.opened.get() {
            return Ok(socket);
        }
        let socket = open()?;
        Ok(self.opened.get_or_init(|| socket))
    }
}

impl Question<'_> {
    /// `RTM_NEW*`: of each kind of thing the types are that, `RTM_DEL*`, `RTM_GET*`.
    fn answer(&self) -> u16 {
        self.request - (libc::RTM_GETLINK - libc::RTM_NEWLINK)
    }

    fn message(&self, flags: u16, sequence: u32) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes.extend(self.header);
        bytes.extend(emitted(self.attributes));

        let len = bytes.len() as u32;
        let mut message = NetlinkBuffer::new(&mut bytes);
        message.set_length(len);
        message.set_message_type(self.request);
        message.set_flags(flags);
        message.set_sequence_number(sequence);
        bytes
    }
}

/// A socket that the kernel tells of changes to things of some groups, `RTMGRP_*`.
pub fn subscribe(groups: u32) -> io::Result<OwnedFd> {
    let socket = open()?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

fn open() -> rustix::io::Result<OwnedFd> {
    // The protocol of number 0 is NETLINK_ROUTE.
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)
}

/// An address as messages have it, with its family.
pub fn address(ip: IpAddr) -> (u8, Vec<u8>) {
    match ip {
        IpAddr::V4(ip) => (libc::AF_INET as u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6 as u8, ip.octets().to_vec()),
    }
}

/// Attributes as they stand in a message.
pub fn emitted(attributes: &[Attribute]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// The types of attributes, and their values; what makes no sense ends them.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let all = NlasIterator::new(bytes).map_while(Result::ok);
    all.map(|attribute| {
        let (kind, len) = (attribute.kind(), attribute.length());
        (kind, &attribute.into_inner()[NLA_HEADER_SIZE..len.into()])
    })
}

/// The messages of a datagram, likewise.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = NetlinkBuffer<&[u8]>> {
    std::iter::from_fn(move || {
        let message = NetlinkBuffer::new_checked(rest).ok()?;
        let next = (message.length() as usize).next_multiple_of(NLA_ALIGNTO);
        rest = rest.get(next..).unwrap_or_default();
        Some(message)
    })
}

/// What a message of type `NLMSG_ERROR` says. There are no acknowledgements, as none are asked for.
fn error_of(body: &[u8]) -> io::Error {
    let code = ErrorBuffer::new_checked(body)
        .ok()
        .and_then(|error| error.code());
    match code.map(|code| code.get()) {
        Some(code) if code < 0 => io::Error::from_raw_os_error(code.saturating_neg()),
        _ => io::ErrorKind::InvalidData.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: u16 = libc::RTM_NEWROUTE;
    const QUESTION: Question<'_> = Question {
        request: libc::RTM_GETROUTE,
        header: &[2, 0, 0, 0],
        attributes: &[],
    };

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes.extend(body);
        let len = bytes.len() as u32;
        let mut message = NetlinkBuffer::new(&mut bytes);
        message.set_length(len);
        message.set_message_type(kind);
        message.set_sequence_number(sequence);
        bytes.resize(bytes.len().next_multiple_of(NLA_ALIGNTO), 0);
        bytes
    }

    /// A stand-in that has answered the first question already, as the kernel does.
    fn stand_in(says: &[&[u8]]) -> (Socket, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        for datagram in says {
            rustix::net::send(&theirs, datagram, SendFlags::empty()).unwrap();
        }
        let socket = Socket::default();
        socket.opened.set(ours).unwrap();
        (socket, theirs)
    }

    fn ask(says: &[&[u8]]) -> io::Result<Vec<u8>> {
        stand_in(says).0.ask(&QUESTION)
    }

    fn list(says: &[&[u8]]) -> (io::Result<()>, Vec<u8>) {
        let mut all = Vec::new();
        let end = stand_in(says).0.list(&QUESTION, |body| all.extend(body));
        (end, all)
    }

    #[test]
    fn a_question_is_a_message_with_filled_up_attributes() {
        let attributes = [
            Attribute::new(1, vec![10, 0, 0, 1]),
            Attribute::new(4, vec![9]),
        ];
        let question = Question {
            attributes: &attributes,
            ..QUESTION
        };
        let sent = question.message(NLM_F_REQUEST, 0x0707);
        let mut wanted = 36u32.to_ne_bytes().to_vec();
        wanted.extend(26u16.to_ne_bytes());
        wanted.extend(1u16.to_ne_bytes());
        wanted.extend(0x0707u32.to_ne_bytes());
        wanted.extend([0, 0, 0, 0, 2, 0, 0, 0]);
        for (len, kind, value) in [(8u16, 1u16, [10, 0, 0, 1]), (5, 4, [9, 0, 0, 0])] {
            wanted.extend(len.to_ne_bytes());
            wanted.extend(kind.to_ne_bytes());
            wanted.extend(value);
        }
        assert_eq!(sent, wanted);
        let found: Vec<_> = super::attributes(&sent[HEADER + 4..]).collect();
        assert_eq!(found, [(1, &[10, 0, 0, 1][..]), (4, &[9])]);

        for (request, answer) in [
            (libc::RTM_GETLINK, libc::RTM_NEWLINK),
            (libc::RTM_GETADDR, libc::RTM_NEWADDR),
            (libc::RTM_GETROUTE, libc::RTM_NEWROUTE),
            (libc::RTM_GETNEIGH, libc::RTM_NEWNEIGH),
        ] {
            let question = Question {
                request,
                ..QUESTION
            };
            assert_eq!(question.answer(), answer);
        }
    }

    #[test]
    fn the_answer_is_the_one_to_the_question() {
        let answer = message(NEW, 1, b"answer");
        assert_eq!(ask(&[&answer]).unwrap(), b"answer");
        // One that came late, and what was told unasked.
        let late = message(NEW, 0, b"late");
        assert_eq!(ask(&[&late, &answer]).unwrap(), b"answer");
        assert_eq!(ask(&[&[&late[..], &answer].concat()]).unwrap(), b"answer");
        let told = message(libc::RTM_NEWLINK, 1, b"link");
        assert_eq!(ask(&[&told, &answer]).unwrap(), b"answer");

        let (kernel, theirs) = stand_in(&[&answer]);
        kernel.ask(&QUESTION).unwrap();
        rustix::net::send(&theirs, &answer, SendFlags::empty()).unwrap();
        let second = message(NEW, 2, b"second");
        rustix::net::send(&theirs, &second, SendFlags::empty()).unwrap();
        assert_eq!(kernel.ask(&QUESTION).unwrap(), b"second");
    }

    #[test]
    fn errors_are_the_kernels_and_nothing_is_waited_for() {
        let error = |errno: i32| message(NLMSG_ERROR, 1, &errno.to_ne_bytes());
        let refused = ask(&[&error(-libc::ENOENT)]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOENT));
        for odd in [0, 7, i32::MIN] {
            let _ = ask(&[&error(odd)]).unwrap_err();
        }
        assert_eq!(
            ask(&[&error(0)]).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        assert_eq!(ask(&[]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let done = message(NLMSG_DONE, 1, &[0; 4]);
        assert_eq!(
            ask(&[&done]).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        let (kernel, theirs) = stand_in(&[]);
        drop(theirs);
        assert!(kernel.ask(&QUESTION).is_err());
    }

    #[test]
    fn a_listing_goes_on_until_its_end() {
        let one = message(NEW, 1, b"one.");
        let other = message(NEW, 1, b"other");
        let done = message(NLMSG_DONE, 1, &[0; 4]);
        let all = [&one[..], &other, &done].concat();
        for says in [
            &[&all[..]][..],
            &[&one, &all[one.len()..]],
            &[&one, &other, &done],
        ] {
            let (end, found) = list(says);
            assert!(end.is_ok() && found == b"one.other", "{end:?}");
        }
        let (end, found) = list(&[&one]);
        assert!(end.is_err() && found == b"one.");
    }

    #[test]
    fn what_is_cut_or_odd_is_no_answer_and_ends() {
        let odd = Attribute::new(77, vec![1, 2, 3, 4, 5]);
        let body = emitted(&[Attribute::new(1, vec![10, 0, 0, 1]), odd]);
        let whole = [message(NEW, 0, &body), message(NEW, 1, &body)].concat();
        assert_eq!(ask(&[&whole]).unwrap(), body);
        for at in 0..whole.len() {
            assert!(ask(&[&whole[..at]]).is_err());
            for wrong in [0, 1, 3, 15, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = wrong;
                if let Ok(body) = ask(&[&bytes]) {
                    attributes(&body).for_each(drop);
                }
            }
        }
    }
}
