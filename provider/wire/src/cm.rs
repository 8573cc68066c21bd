//! The messages of the communication manager (management class 7): one type for each, parsed from
//! and emitted as whole MADs.
//!
//! Bits that are reserved are ignored when parsed and zero when emitted. What the numbers mean for
//! a connection is not known here.
//!
//! ```
//! use ferroce_wire::cm::{Message, PrivateData, Rtu};
//!
//! let rtu = Message::Rtu(Rtu { local_comm_id: 7, remote_comm_id: 9, private_data: PrivateData::new(b"hello").unwrap() });
//! let mad = rtu.emit(0x1234);
//! let (header, message) = Message::parse(&mad).unwrap();
//! assert_eq!((header.tid, message), (0x1234, rtu));
//! ```

mod codes;
mod convert;
mod convert_handshake;
mod convert_lap;
mod convert_sidr;
mod messages;
mod raw;

pub use codes::*;
pub use messages::*;

use crate::mad::{self, Mad, MadHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Why bytes are no message of the communication manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CmParseError {
    /// Not 256 bytes.
    #[error("not the length of a MAD")]
    Length,
    /// Another class or base version.
    #[error("not of the class of communication management")]
    Class,
    /// A class version other than 2.
    #[error("class version {0} is not known")]
    ClassVersion(u8),
    /// A method other than Send.
    #[error("method {0:#x} is not known")]
    Method(u8),
    /// An attribute that has no place in this class.
    #[error("attribute {0:#x} is not known")]
    Attribute(u16),
    /// A transport service that does not exist.
    #[error("the transport service does not exist")]
    Transport,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // all are of the size of a MAD, and none is kept
#[allow(missing_docs)] // each is documented at its type
pub enum Message {
    Req(Req),
    Mra(Mra),
    Rej(Rej),
    Rep(Rep),
    Rtu(Rtu),
    Dreq(Dreq),
    Drep(Drep),
    SidrReq(SidrReq),
    SidrRep(SidrRep),
    Lap(Lap),
    Apr(Apr),
}

impl Message {
    /// Reads a whole MAD, of 256 bytes.
    ///
    /// # Errors
    /// See [`CmParseError`].
    pub fn parse(bytes: &[u8]) -> Result<(MadHeader, Message), CmParseError> {
        let mad: &Mad = bytes.try_into().map_err(|_| CmParseError::Length)?;
        let header = MadHeader::parse(mad).ok_or(CmParseError::Length)?;
        if header.base_version != mad::BASE_VERSION || header.class != mad::CLASS_CM {
            return Err(CmParseError::Class);
        }
        if header.class_version != mad::CLASS_VERSION_CM {
            return Err(CmParseError::ClassVersion(header.class_version));
        }
        if header.method != mad::method::SEND {
            return Err(CmParseError::Method(header.method));
        }

        let modifier = header.modifier;
        let message = match header.attribute {
            attribute::REQ => Message::Req(Req::from_raw(body(mad)?, modifier)?),
            attribute::MRA => Message::Mra(Mra::from_raw(body(mad)?)),
            attribute::REJ => Message::Rej(Rej::from_raw(body(mad)?)),
            attribute::REP => Message::Rep(Rep::from_raw(body(mad)?, modifier)),
            attribute::RTU => Message::Rtu(Rtu::from_raw(body(mad)?)),
            attribute::DREQ => Message::Dreq(Dreq::from_raw(body(mad)?)),
            attribute::DREP => Message::Drep(Drep::from_raw(body(mad)?)),
            attribute::SIDR_REQ => Message::SidrReq(SidrReq::from_raw(body(mad)?)),
            attribute::SIDR_REP => Message::SidrRep(SidrRep::from_raw(body(mad)?, modifier)),
            attribute::LAP => Message::Lap(Lap::from_raw(body(mad)?)),
            attribute::APR => Message::Apr(Apr::from_raw(body(mad)?)),
            other => return Err(CmParseError::Attribute(other)),
        };

        Ok((header, message))
    }

    /// The whole MAD, of transaction `tid`.
    pub fn emit(&self, tid: u64) -> Mad {
        let mut mad = [0; mad::LEN];
        MadHeader::cm(self.attribute(), tid, self.modifier()).emit(&mut mad);
        let rest = &mut mad[mad::HEADER_LEN..];
        match self {
            Message::Req(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::Mra(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::Rej(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::Rep(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::Rtu(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::Dreq(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::Drep(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::SidrReq(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::SidrRep(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::Lap(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
            Message::Apr(m) => rest.copy_from_slice(m.to_raw().as_bytes()),
        }

        mad
    }

    /// The attribute that stands for it in the header.
    pub fn attribute(&self) -> u16 {
        match self {
            Message::Req(_) => attribute::REQ,
            Message::Mra(_) => attribute::MRA,
            Message::Rej(_) => attribute::REJ,
            Message::Rep(_) => attribute::REP,
            Message::Rtu(_) => attribute::RTU,
            Message::Dreq(_) => attribute::DREQ,
            Message::Drep(_) => attribute::DREP,
            Message::SidrReq(_) => attribute::SIDR_REQ,
            Message::SidrRep(_) => attribute::SIDR_REP,
            Message::Lap(_) => attribute::LAP,
            Message::Apr(_) => attribute::APR,
        }
    }

    /// The attribute modifier of the header: the enhanced connection's attributes, where a message
    /// has them.
    fn modifier(&self) -> u32 {
        match self {
            Message::Req(m) => m.ece.attributes,
            Message::Rep(m) => m.ece.attributes,
            Message::SidrRep(m) => m.ece.attributes,
            _ => 0,
        }
    }
}

/// What lies behind the header.
fn body<T>(mad: &Mad) -> Result<&T, CmParseError>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_bytes(&mad[mad::HEADER_LEN..]).map_err(|_| CmParseError::Length)
}

/// The communication IDs of the sender and, where the message has it, of the receiver: the first
/// two words behind the header, whatever the message; `None` if the bytes are too few.
pub fn comm_ids(mad: &[u8]) -> Option<(u32, u32)> {
    let (local, rest) = mad.get(mad::HEADER_LEN..)?.split_first_chunk()?;
    let remote = rest.first_chunk()?;
    Some((u32::from_be_bytes(*local), u32::from_be_bytes(*remote)))
}
