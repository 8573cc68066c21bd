//! Reliable multi-packet transactions (RMPP): a message longer than a MAD as segments, acknowledged
//! and repeated.
//!
//! A [`Sender`] holds one message, a [`Receiver`] puts one together. Whose message it is, when to
//! give up and where MADs go is for the host to say; there is no clock here. A receiver takes
//! segments in order, acknowledges what it has, and has the sender repeat the rest; transfers in
//! both directions within one transaction (double-sided) are not spoken.

use ferroce_wire::mad::{self, Mad};

/// End of the RMPP header, which follows the common MAD header.
pub const HEADER_END: usize = 36;
/// The only version.
const VERSION: u8 = 1;
/// What a segment's PayloadLength counts at most: everything behind the RMPP header.
const SEGMENT: usize = mad::LEN - HEADER_END;
/// The longest message that a receiver puts together, in bytes.
pub const MAX_MESSAGE: usize = 383 * 1024;
/// How many segments may be under way to a receiver.
const WINDOW: u32 = 64;

const FLAG_ACTIVE: u8 = 1;
const FLAG_FIRST: u8 = 2;
const FLAG_LAST: u8 = 4;

/// What an RMPP MAD is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A segment.
    Data,
    /// An acknowledgement.
    Ack,
    /// The receiver stops, or either side aborts.
    Stop,
    /// Something that makes no sense.
    Unknown,
}

/// Why a transfer was aborted, as the RMPPStatus of the ABORT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Abort {
    /// The last segment's number and length do not fit the first segment's.
    BadLength = 119,
    /// Segment number or flags make no sense.
    BadSegment = 120,
    /// The type is not known.
    BadType = 121,
    /// The new window is less than the segment that is acknowledged.
    WindowTooSmall = 122,
    /// A segment is acknowledged that was not sent.
    SegmentTooBig = 123,
    /// The version is not known.
    Version = 125,
}

/// Where the data of a class begins in a MAD.
pub const fn data_offset(class: u8) -> usize {
    match class {
        0x03 => 56,
        0x06 | 0x10 | 0x12 => 64,
        0x30..=0x4f => 40,
        _ => mad::HEADER_LEN,
    }
}

/// Whether MADs of a class have an RMPP header.
pub const fn has_header(class: u8) -> bool {
    matches!(class, 0x03 | 0x06 | 0x10 | 0x12 | 0x30..=0x4f)
}

/// Whether this MAD, of a class with an RMPP header, is part of an RMPP transfer.
pub fn is_active(mad: &[u8]) -> bool {
    mad.get(26).is_some_and(|flags| flags & FLAG_ACTIVE != 0)
}

/// What an active RMPP MAD is.
pub fn kind(mad: &Mad) -> Kind {
    match mad[25] {
        1 => Kind::Data,
        2 => Kind::Ack,
        3 | 4 => Kind::Stop,
        _ => Kind::Unknown,
    }
}

fn word(mad: &Mad, at: usize) -> u32 {
    u32::from_be_bytes([mad[at], mad[at + 1], mad[at + 2], mad[at + 3]])
}

fn set_word(mad: &mut Mad, at: usize, value: u32) {
    mad[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The head of an answer to an RMPP MAD: direction turned, type and flags set, no data. The class's
/// own header goes back as well: by the OUI in it a vendor's agent is found.
fn answer(to: &Mad, kind: u8, status: u8) -> Mad {
    let mut mad = [0; mad::LEN];
    let headers = data_offset(to[1]).max(HEADER_END);
    mad[..headers].copy_from_slice(&to[..headers]);
    mad[3] ^= mad::method::RESPONSE;
    mad[24] = VERSION;
    mad[25] = kind;
    mad[26] = FLAG_ACTIVE;
    mad[27] = status;
    set_word(&mut mad, 28, 0);
    set_word(&mut mad, 32, 0);
    mad
}

/// The ABORT that answers an RMPP MAD.
pub fn abort(to: &Mad, why: Abort) -> Mad {
    answer(to, 4, why as u8)
}

/// What became of a transfer when an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It goes on, with segments acknowledged that were not before; send what [`Sender::next`]
    /// gives.
    Going,
    /// Nothing more has been acknowledged; send what [`Sender::next`] gives.
    Waiting,
    /// The answer was an old one.
    Old,
    /// The receiver has everything.
    Done,
    /// The receiver will not have it.
    Stopped,
    /// The answer makes no sense; send this ABORT and give up.
    Abort(Abort),
}

/// One message on its way out.
#[derive(Clone, Debug)]
pub struct Sender {
    /// The message: the class's headers, then its data.
    message: Vec<u8>,
    offset: usize,
    segments: u32,
    acked: u32,
    /// The last segment that may be sent.
    window: u32,
    sent: u32,
}

impl Sender {
    /// A message from its MAD header on. `None`: it is shorter than its class's headers, or longer
    /// than 2^32 segments.
    pub fn new(message: Vec<u8>) -> Option<Sender> {
        let class = *message.get(1)?;
        let offset = data_offset(class);
        let data = message.len().checked_sub(offset)?;
        let segments = data.div_ceil(mad::LEN - offset).max(1);
        Some(Sender {
            segments: u32::try_from(segments).ok()?,
            message,
            offset,
            acked: 0,
            window: 1,
            sent: 0,
        })
    }

    /// The next segment that the receiver has room for.
    #[expect(clippy::should_implement_trait, reason = "more come after an answer")]
    pub fn next(&mut self) -> Option<Mad> {
        if self.sent >= self.window.min(self.segments) {
            return None;
        }

        let room = mad::LEN - self.offset;
        let from = self.offset + self.sent as usize * room;
        let to = self.message.len().min(from + room);
        self.sent += 1;
        let mut mad = [0; mad::LEN];
        mad[..self.offset].copy_from_slice(&self.message[..self.offset]);
        mad[self.offset..self.offset + to - from].copy_from_slice(&self.message[from..to]);
        let class_header = self.offset - HEADER_END;
        let mut flags = FLAG_ACTIVE;
        let mut payload = 0;
        if self.sent == 1 {
            flags |= FLAG_FIRST;
            let data = self.message.len() - self.offset;
            payload = data + class_header * self.segments as usize;
        }

        if self.sent == self.segments {
            flags |= FLAG_LAST;
            payload = to - from + class_header;
        }

        mad[24] = VERSION;
        mad[25] = 1;
        mad[26] = mad[26] & !7 | flags;
        mad[27] = 0;
        set_word(&mut mad, 28, self.sent);
        set_word(&mut mad, 32, payload as u32);
        Some(mad)
    }

    /// An ACK, STOP or ABORT has come.
    pub fn answered(&mut self, mad: &Mad) -> Progress {
        match kind(mad) {
            Kind::Ack => {}
            Kind::Stop => return Progress::Stopped,
            _ => return Progress::Abort(Abort::BadType),
        }

        let (segment, window) = (word(mad, 28), word(mad, 32));
        if window < segment {
            return Progress::Abort(Abort::WindowTooSmall);
        }
        if segment > self.sent {
            return Progress::Abort(Abort::SegmentTooBig);
        }
        if segment < self.acked || window < self.window {
            return Progress::Old;
        }

        let more = segment > self.acked;
        self.acked = segment;
        self.window = window;
        match self.acked == self.segments {
            true => Progress::Done,
            false if more => Progress::Going,
            false => Progress::Waiting,
        }
    }

    /// No answer came: what is not acknowledged goes again.
    pub fn again(&mut self) {
        self.sent = self.acked;
    }
}

/// What a segment leads to.
#[derive(Debug)]
pub struct Taken {
    /// What to answer.
    pub answer: Option<Mad>,
    /// The whole message, from its MAD header on, once; or an end without one.
    pub end: Option<Result<Vec<u8>, Abort>>,
}

/// One message on its way in.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    message: Vec<u8>,
    have: u32,
    done: bool,
}

impl Receiver {
    /// Takes a segment. After the end, repetitions are acknowledged again.
    pub fn take(&mut self, mad: &Mad) -> Taken {
        let give_up = |why| Taken {
            answer: Some(abort(mad, why)),
            end: Some(Err(why)),
        };
        if mad[24] != VERSION {
            return give_up(Abort::Version);
        }

        let segment = word(mad, 28);
        let flags = mad[26];
        let first = flags & FLAG_FIRST != 0;
        if segment == 0 || first != (segment == 1) {
            return give_up(Abort::BadSegment);
        }

        let mut end = None;
        if !self.done && segment == self.have + 1 {
            let offset = data_offset(mad[1]);
            let class_header = offset - HEADER_END;
            if first {
                self.message.extend_from_slice(&mad[..offset]);
            }

            let last = flags & FLAG_LAST != 0;
            let mut data = &mad[offset..];
            if last {
                // A length that cannot be means a whole segment, as others take it.
                let payload = word(mad, 32) as usize;
                if (class_header..=SEGMENT).contains(&payload) {
                    data = &data[..payload - class_header];
                }
            }

            if self.message.len() + data.len() > MAX_MESSAGE {
                return give_up(Abort::BadLength);
            }

            self.message.extend_from_slice(data);
            self.have = segment;
            if last {
                self.done = true;
                end = Some(Ok(std::mem::take(&mut self.message)));
            }
        }

        // In the middle of a window silence is an answer as well.
        let due = self.done
            || segment > self.have
            || self.have.is_multiple_of(WINDOW / 2)
            || segment == 1;

        let answer = due.then(|| {
            let mut ack = answer(mad, 2, 0);
            set_word(&mut ack, 28, self.have);
            set_word(&mut ack, 32, self.have + WINDOW);
            ack
        });
        Taken { answer, end }
    }

    /// Whether the message is complete.
    pub fn is_done(&self) -> bool {
        self.done
    }
}

#[cfg(test)]
#[path = "rmpp_tests.rs"]
mod tests;
