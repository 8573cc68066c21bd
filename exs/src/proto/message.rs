//! What two ends say to each other: the header of every message and the hello that travels with a
//! connection request.
//!
//! All integers are big-endian. Parsing never panics: bytes that make no sense are `None`.

/// Bytes of a header; a [`Kind::Data`] message has its payload behind it.
pub const HEADER: usize = 32;
/// Bytes of a hello.
pub const HELLO: usize = 16;

const MAGIC: [u8; 4] = *b"EXS1";

/// Bits of each credit in an immediate: more than there are slots, which a hello limits.
const CREDIT_BITS: u32 = 14;
const CREDIT_MASK: u16 = (1 << CREDIT_BITS) - 1;
/// Where the control credit begins in one, and the data credit.
const CONTROL_AT: u32 = 3;
const DATA_AT: u32 = CONTROL_AT + CREDIT_BITS;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Bytes of the stream, in this message.
    Data = 1,
    /// Bytes of the stream, to be fetched by RDMA READ from the sender's memory.
    Source = 2,
    /// Bytes of the stream, which an RDMA WRITE has placed into the oldest advertised buffer.
    Written = 3,
    /// The oldest `Source` has been read to its end.
    ReadDone = 4,
    /// A receive buffer that may be written to.
    Advert = 5,
    /// Credits, and the bytes that have been taken of a `Source` of which others are left, where
    /// the peer asks no more for anything else.
    Credit = 6,
    /// The end of the stream.
    Fin = 7,
    /// The sender of this message takes no more data.
    Stop = 8,
    /// The answer to `Stop`: no advertised buffer will be written to any more.
    StopAck = 9,
}

impl Kind {
    fn parse(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Data,
            2 => Self::Source,
            3 => Self::Written,
            4 => Self::ReadDone,
            5 => Self::Advert,
            6 => Self::Credit,
            7 => Self::Fin,
            8 => Self::Stop,
            9 => Self::StopAck,
            _ => return None,
        })
    }
}

/// A message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// Data, Source, Written: a message of the application ends with these bytes.
    pub end: bool,
    /// Written: the buffer is finished; what follows goes to the next.
    pub consumed: bool,
    /// Written: the buffer was too small for the message, whose rest was dropped.
    pub truncated: bool,
    /// Advert: the buffer wants to be filled to its end.
    pub fill: bool,
    /// Data messages whose slots are free again, in all and modulo 2^16.
    pub data_credit: u16,
    /// Control messages whose slots are free again, in all and modulo 2^16.
    pub control_credit: u16,
    /// Bytes of the stream that it is about.
    pub length: u64,
    /// Source, Advert: where they are (or go).
    pub address: u64,
    /// Source, Advert: the remote key.
    pub key: u32,
    /// Advert: how many Data and Source messages its sender has seen, modulo 2^32.
    pub items: u32,
}

impl Header {
    /// A header with nothing in it yet.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            end: false,
            consumed: false,
            truncated: false,
            fill: false,
            data_credit: 0,
            control_credit: 0,
            length: 0,
            address: 0,
            key: 0,
            items: 0,
        }
    }

    /// The bytes that go out.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = self.kind as u8;
        bytes[1] = self.flags();
        bytes[2..4].copy_from_slice(&self.data_credit.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.control_credit.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.address.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.key.to_be_bytes());
        bytes[28..32].copy_from_slice(&self.items.to_be_bytes());
        bytes
    }

    fn flags(&self) -> u8 {
        u8::from(self.end)
            | u8::from(self.consumed) << 1
            | u8::from(self.truncated) << 2
            | u8::from(self.fill) << 3
    }

    /// Reads a whole message; a `Data` message must have as much behind its header as it says.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let header = message.first_chunk::<HEADER>()?;
        let flags = header[1];
        let parsed = Self {
            kind: Kind::parse(header[0])?,
            end: flags & 1 != 0,
            consumed: flags & 2 != 0,
            truncated: flags & 4 != 0,
            fill: flags & 8 != 0,
            data_credit: u16::from_be_bytes([header[2], header[3]]),
            control_credit: u16::from_be_bytes([header[4], header[5]]),
            length: long(&header[8..16]),
            address: long(&header[16..24]),
            key: u32::from_be_bytes([header[24], header[25], header[26], header[27]]),
            items: u32::from_be_bytes([header[28], header[29], header[30], header[31]]),
        };

        let behind = (message.len() - HEADER) as u64;
        let wanted = match parsed.kind {
            Kind::Data => parsed.length,
            _ => 0,
        };
        (flags < 16 && behind == wanted).then_some(parsed)
    }

    /// What a `Data` or `Written` says besides its length, as immediate data of the bytes that it
    /// is about: from the least significant bit on `end`, `consumed`, `truncated`, and 14 bits each
    /// of the control and of the data credit.
    pub fn immediate(&self) -> u32 {
        debug_assert!(matches!(self.kind, Kind::Data | Kind::Written));
        let credit = |credit: u16| u32::from(credit & CREDIT_MASK);
        // The fourth flag is an advert's.
        u32::from(self.flags())
            | credit(self.control_credit) << CONTROL_AT
            | credit(self.data_credit) << DATA_AT
    }

    /// The `Data` of a SEND, or the `Written` of an RDMA WRITE, of `length` bytes with this
    /// immediate data; its credits are those of a message modulo 2^14.
    pub fn of_immediate(kind: Kind, immediate: u32, length: u64) -> Option<Self> {
        let credit = |at: u32| (immediate >> at) as u16 & CREDIT_MASK;
        (immediate >> (DATA_AT + CREDIT_BITS) == 0).then(|| Self {
            end: immediate & 1 != 0,
            consumed: immediate & 2 != 0,
            truncated: immediate & 4 != 0,
            control_credit: credit(CONTROL_AT),
            data_credit: credit(DATA_AT),
            length,
            ..Self::new(kind)
        })
    }

    /// A credit of an immediate as a message would have it, `credited` being the last that is
    /// known.
    pub fn widened(credit: u16, credited: u16) -> u16 {
        credited.wrapping_add(credit.wrapping_sub(credited) & CREDIT_MASK)
    }
}

/// What each end tells the other while they connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Whether message boundaries are kept (SOCK_SEQPACKET).
    pub messages: bool,
    /// Receive slots for data messages.
    pub data_slots: u16,
    /// Receive slots for control messages.
    pub control_slots: u16,
    /// Bytes of payload that a slot holds.
    pub payload: u32,
    /// Whether it takes [`Kind::Data`] and [`Kind::Written`] as immediate data.
    pub immediates: bool,
}

impl Hello {
    /// The private data of a request or reply.
    pub fn encode(&self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = u8::from(self.messages);
        bytes[5] = u8::from(self.immediates);
        bytes[6..8].copy_from_slice(&self.data_slots.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.control_slots.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.payload.to_be_bytes());
        bytes
    }

    /// Reads private data, of which the connection manager may have appended zeros.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<HELLO>()?;
        let hello = Self {
            messages: bytes[4] == 1,
            data_slots: u16::from_be_bytes([bytes[6], bytes[7]]),
            control_slots: u16::from_be_bytes([bytes[8], bytes[9]]),
            payload: u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]),
            // The other bits are for what later versions can do.
            immediates: bytes[5] & 1 != 0,
        };
        // Fewer slots than these, and the rules about credits no longer keep both ends going.
        let usable = hello.data_slots >= 2
            && (4..0x4000).contains(&hello.control_slots)
            && hello.data_slots < 0x4000
            && hello.payload >= 64;
        (bytes[..4] == MAGIC && bytes[4] <= 1 && usable).then_some(hello)
    }
}

fn long(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::FileFailurePersistence::WithSource;

    #[test]
    fn a_header_comes_back() {
        let header = Header {
            end: true,
            consumed: true,
            fill: true,
            data_credit: 0x1234,
            control_credit: 0xfedc,
            length: 0x0102_0304_0506_0708,
            address: u64::MAX - 1,
            key: 0xdead_beef,
            items: 7,
            ..Header::new(Kind::Advert)
        };

        assert_eq!(Header::parse(&header.encode()), Some(header));
        let mut longer = header.encode().to_vec();
        longer.push(0);
        assert_eq!(Header::parse(&longer), None);
    }

    #[test]
    fn a_notice_comes_back_of_its_immediate() {
        let mut header = Header {
            consumed: true,
            truncated: true,
            data_credit: 0x3fff,
            control_credit: 0x2001,
            length: 70_000,
            ..Header::new(Kind::Written)
        };
        assert_eq!(
            Header::of_immediate(Kind::Written, header.immediate(), 70_000),
            Some(header)
        );

        // Credits go on where 14 bits begin anew.
        for (credit, credited) in [(0x4003_u16, 0x3ffe_u16), (2, 0xfff0), (0xfff0, 0xfff0)] {
            header.data_credit = credit;
            let told = Header::of_immediate(Kind::Written, header.immediate(), 1).unwrap();
            assert_eq!(Header::widened(told.data_credit, credited), credit);
        }

        assert_eq!(Header::of_immediate(Kind::Data, 1 << 31, 1), None);
    }

    #[test]
    fn data_has_its_payload() {
        let header = Header {
            length: 3,
            ..Header::new(Kind::Data)
        };
        let mut message = header.encode().to_vec();
        assert_eq!(Header::parse(&message), None);
        message.extend(b"abc");
        assert_eq!(Header::parse(&message), Some(header));
    }

    #[test]
    fn a_hello_comes_back_and_nonsense_does_not() {
        let hello = Hello {
            messages: true,
            data_slots: 16,
            control_slots: 16,
            payload: 4096,
            immediates: true,
        };
        let mut padded = hello.encode().to_vec();
        padded.resize(56, 0);
        assert_eq!(Hello::parse(&padded), Some(hello));
        padded[0] ^= 1;
        assert_eq!(Hello::parse(&padded), None);
        assert_eq!(
            Hello::parse(
                &Hello {
                    control_slots: 1,
                    ..hello
                }
                .encode()
            ),
            None
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Header::parse(&bytes);
            let _ = Hello::parse(&bytes);
        }

        #[test]
        fn no_immediate_panics(immediate: u32, length: u64) {
            let back = Header::of_immediate(Kind::Data, immediate, length);
            assert!(back.is_none_or(|header| header.immediate() == immediate));
        }
    }
}
