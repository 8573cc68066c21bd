//! Netlink messages: what a program sent, taken apart as the kernel does, and what goes back. Which
//! command means what is nothing to this module.

use netlink_packet_core::{NLA_ALIGNTO, NLA_HEADER_SIZE, NetlinkBuffer, NlasIterator};
use rustix::io::Errno;

use crate::users::Whose;

/// Bytes of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;
/// The most that one answer holds in bytes, as with the kernel (`NLMSG_GOODSIZE`): so it fits every
/// program's buffer.
pub(super) const ROOM: usize = 3776;

/// Types of messages with which an answer ends.
pub(super) mod end {
    /// `NLMSG_ERROR`: a refusal, or the confirmation that was asked for.
    pub(crate) const ERROR: u16 = 2;
    /// `NLMSG_DONE`: the end of a listing.
    pub(crate) const DONE: u16 = 3;
}

/// The first type that is not netlink's own (`NLMSG_MIN_TYPE`).
const FIRST_TYPE: u16 = 0x10;

/// Flags of messages, with the kernel's values.
pub(super) mod flag {
    pub(crate) use netlink_packet_core::{
        NLM_F_ACK as ACK, NLM_F_ACK_TLVS as ACK_TLVS, NLM_F_CAPPED as CAPPED, NLM_F_DUMP as DUMP,
        NLM_F_MULTIPART as MULTI, NLM_F_REQUEST as REQUEST,
    };
}

/// Attributes of an error (`enum nlmsgerr_attrs`): words about it, and where in the request the
/// culprit is.
const ERROR_WORDS: u16 = 1;
const ERROR_OFFSET: u16 = 2;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) errno: Errno,
    /// What the program may show its user.
    pub(super) words: Option<&'static str>,
    /// Where in the request the attribute is that is wrong.
    pub(super) offset: Option<u32>,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Refusal {
            errno,
            words: None,
            offset: None,
        }
    }
}

impl Refusal {
    /// One with words.
    pub(super) const fn new(errno: Errno, words: &'static str) -> Self {
        Refusal {
            errno,
            words: Some(words),
            offset: None,
        }
    }
}

/// One message of a program's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// All of it, with its header.
    pub(super) bytes: &'a [u8],
    pub(super) message_type: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
}

impl<'a> Request<'a> {
    /// The requests in a datagram, in order. As with the kernel, one that is cut short is where it
    /// ends.
    pub(super) fn all(mut datagram: &'a [u8]) -> impl Iterator<Item = Request<'a>> {
        std::iter::from_fn(move || {
            let buffer = NetlinkBuffer::new_checked(datagram).ok()?;
            let len = buffer.length() as usize;
            let bytes = datagram.get(..len)?;
            // The last need not be filled up.
            let next = len.next_multiple_of(NLA_ALIGNTO).min(datagram.len());
            datagram = datagram.get(next..).unwrap_or_default();
            Some(Request {
                bytes,
                message_type: buffer.message_type(),
                flags: buffer.flags(),
                sequence: buffer.sequence_number(),
            })
        })
    }

    /// Whether anything is asked at all.
    pub(super) fn asks(&self) -> bool {
        self.flags & flag::REQUEST != 0 && self.message_type >= FIRST_TYPE
    }

    /// Whether a listing is asked for. One of the two bits is enough.
    pub(super) fn is_dump(&self) -> bool {
        self.flags & flag::DUMP != 0
    }

    /// An attribute's value and its place in the message. Of several the last counts, of unknown
    /// ones none, and what is left of a message after an attribute that makes no sense is passed
    /// over.
    fn attribute(&self, kind: u16) -> Option<(&'a [u8], u32)> {
        let mut at = HEADER;
        let mut found = None;
        for attribute in NlasIterator::new(self.bytes.get(HEADER..)?).map_while(Result::ok) {
            let len = usize::from(attribute.length());
            if attribute.kind() == kind {
                found = Some((at + NLA_HEADER_SIZE..at + len, at));
            }
            at += len.next_multiple_of(NLA_ALIGNTO);
        }
        let (value, at) = found?;
        Some((self.bytes.get(value)?, at as u32))
    }

    /// Whether there is such an attribute.
    pub(super) fn has(&self, kind: u16) -> bool {
        self.attribute(kind).is_some()
    }

    /// A number of 32 bits. One that is too short is `EINVAL`.
    pub(super) fn u32(&self, kind: u16) -> Result<Option<u32>, Refusal> {
        let Some((value, at)) = self.attribute(kind) else {
            return Ok(None);
        };
        match value.first_chunk() {
            Some(bytes) => Ok(Some(u32::from_ne_bytes(*bytes))),
            None => Err(invalid(at)),
        }
    }

    /// Text, which must have its end.
    pub(super) fn text(&self, kind: u16) -> Result<Option<&'a [u8]>, Refusal> {
        let Some((value, at)) = self.attribute(kind) else {
            return Ok(None);
        };
        match value.iter().position(|byte| *byte == 0) {
            Some(end) => Ok(value.get(..end)),
            None => Err(invalid(at)),
        }
    }
}

fn invalid(at: u32) -> Refusal {
    Refusal {
        errno: Errno::INVAL,
        words: Some("Attribute failed policy validation"),
        offset: Some(at),
    }
}

/// Attributes, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    bytes: Vec<u8>,
}

impl Attributes {
    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether this fits a message beside its header.
    pub(super) fn fits(&self) -> bool {
        HEADER + self.len() <= ROOM
    }

    pub(super) fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let len = NLA_HEADER_SIZE + value.len();
        // A length that 16 bits do not hold belongs to what does not fit anyway.
        self.bytes.extend((len as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes
            .resize(self.bytes.len().next_multiple_of(NLA_ALIGNTO), 0);
        self
    }

    pub(super) fn u8(&mut self, kind: u16, value: u8) -> &mut Self {
        self.bytes(kind, &[value])
    }

    pub(super) fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(super) fn u64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(super) fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// Adds all of others.
    pub(super) fn append(&mut self, others: &Attributes) {
        self.bytes.extend(&others.bytes);
    }

    pub(super) fn nest(&mut self, kind: u16, inner: &Attributes) -> &mut Self {
        self.bytes(kind, &inner.bytes)
    }
}

/// Who asks, and how he wants the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asker {
    /// The port number of the program's socket.
    pub(super) port: u32,
    /// Errors without what was sent (`NETLINK_CAP_ACK`).
    pub(super) capped: bool,
    /// Errors with attributes (`NETLINK_EXT_ACK`).
    pub(super) extended: bool,
    /// Whether he has `CAP_NET_ADMIN`.
    pub(super) net_admin: bool,
    /// Whose objects he is told of.
    pub(super) whose: Whose,
}

fn message(to: Asker, request: &Request<'_>, kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(request.sequence.to_ne_bytes());
    bytes.extend(to.port.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

/// An answer with attributes.
pub(super) fn answer(
    to: Asker,
    request: &Request<'_>,
    kind: u16,
    attributes: &Attributes,
) -> Vec<u8> {
    let flags = match request.is_dump() {
        true => flag::MULTI,
        false => 0,
    };
    message(to, request, kind, flags, &attributes.bytes)
}

/// The end of a listing, which may have failed.
pub(super) fn done(to: Asker, request: &Request<'_>, failed: Option<Refusal>) -> Vec<u8> {
    let mut payload = result(failed);
    let mut flags = flag::MULTI;
    if let Some(attributes) = failed.and_then(|refusal| explain(to, &refusal)) {
        flags |= flag::ACK_TLVS;
        payload.extend(attributes.bytes);
    }
    message(to, request, end::DONE, flags, &payload)
}

/// A refusal, or the confirmation that a request was carried out.
pub(super) fn acknowledge(to: Asker, request: &Request<'_>, failed: Option<Refusal>) -> Vec<u8> {
    let mut payload = result(failed);
    let mut flags = 0;
    if failed.is_none() || to.capped {
        flags |= flag::CAPPED;
        payload.extend(&request.bytes[..HEADER]);
    } else {
        payload.extend(request.bytes);
        payload.resize(payload.len().next_multiple_of(NLA_ALIGNTO), 0);
    }
    if let Some(attributes) = failed.and_then(|refusal| explain(to, &refusal)) {
        flags |= flag::ACK_TLVS;
        payload.extend(attributes.bytes);
    }
    message(to, request, end::ERROR, flags, &payload)
}

fn result(failed: Option<Refusal>) -> Vec<u8> {
    let errno = failed.map_or(0, |refusal| refusal.errno.raw_os_error());
    (-errno).to_ne_bytes().to_vec()
}

fn explain(to: Asker, refusal: &Refusal) -> Option<Attributes> {
    let mut attributes = Attributes::default();
    if let Some(words) = refusal.words {
        attributes.text(ERROR_WORDS, words);
    }
    if let Some(offset) = refusal.offset {
        attributes.u32(ERROR_OFFSET, offset);
    }
    (to.extended && attributes.len() > 0).then_some(attributes)
}
