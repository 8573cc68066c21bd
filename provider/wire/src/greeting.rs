//! What ferroce's daemons ask each other: a Get of a vendor's class, at QP1, and its answer.
//!
//! Management classes 0x09 to 0x0f are vendors' own, and those need no OUI. Others may use
//! the same one, so each message begins with a word that only ferroce knows; what lacks it is not
//! meant for us. Who is no ferroce refuses the question (section 13.4.7) or says nothing.

use crate::mad::{BASE_VERSION, HEADER_LEN, LEN, Mad, MadHeader, method};

/// Management class.
pub const CLASS: u8 = 0x0f;
/// Version of that class.
pub const CLASS_VERSION: u8 = 1;
/// The only attribute.
pub const ATTRIBUTE: u16 = 0x0010;
/// [`Greeting::features`]: programs understand selective acknowledgements, unless they are told not
/// to.
pub const SELECTIVE: u32 = 1;

const WORD: [u8; 8] = *b"ferroce\0";
const FEATURES: usize = HEADER_LEN + WORD.len();

/// A question, or the answer to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// An answer.
    pub answer: bool,
    /// Transaction identifier: an answer has its question's.
    pub tid: u64,
    /// What the sender's side can do: bits. Those that are not known are ignored.
    pub features: u32,
}

impl Greeting {
    /// Writes a MAD of its own.
    pub fn emit(&self) -> Mad {
        let mut mad = [0; LEN];
        MadHeader {
            base_version: BASE_VERSION,
            class: CLASS,
            class_version: CLASS_VERSION,
            method: if self.answer {
                method::GET_RESP
            } else {
                method::GET
            },
            tid: self.tid,
            attribute: ATTRIBUTE,
            ..MadHeader::default()
        }
        .emit(&mut mad);
        mad[HEADER_LEN..FEATURES].copy_from_slice(&WORD);
        mad[FEATURES..FEATURES + 4].copy_from_slice(&self.features.to_be_bytes());
        mad
    }

    /// Reads a MAD; `None`: it is something else, or a refusal.
    pub fn parse(mad: &Mad) -> Option<Greeting> {
        let header = MadHeader::parse(mad)?;
        let answer = match header.method {
            method::GET => false,
            method::GET_RESP => true,
            _ => return None,
        };
        let about = (header.base_version, header.class, header.class_version);
        let meant = about == (BASE_VERSION, CLASS, CLASS_VERSION)
            && header.attribute == ATTRIBUTE
            && mad[HEADER_LEN..FEATURES] == WORD
            && (!answer || header.status == 0);
        let features = mad[FEATURES..].first_chunk().copied().unwrap_or_default();
        meant.then_some(Greeting {
            answer,
            tid: header.tid,
            features: u32::from_be_bytes(features),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: Greeting = Greeting {
        answer: false,
        tid: 0x0102_0304_0506_0708,
        features: 0x8000_0001,
    };

    #[test]
    fn a_question_lies_where_it_should() {
        let mad = QUESTION.emit();
        let mut expected = vec![1, 0x0f, 1, 0x01, 0, 0, 0, 0];
        expected.extend(1..=8); // transaction
        expected.extend([0, 0x10, 0, 0, 0, 0, 0, 0]);
        expected.extend(b"ferroce\0");
        expected.extend([0x80, 0, 0, 1]);
        assert_eq!(mad[..expected.len()], expected);
        assert!(mad[expected.len()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn both_survive_the_round_trip() {
        for answer in [false, true] {
            let greeting = Greeting { answer, ..QUESTION };
            assert_eq!(Greeting::parse(&greeting.emit()), Some(greeting));
        }
    }

    /// Each byte that says what it is counts: with another one it is somebody else's.
    #[test]
    fn what_is_not_ours_is_left_alone() {
        let ours = QUESTION.emit();
        for place in [0, 1, 2, 3, 17, 24, 31] {
            let mut other = ours;
            other[place] ^= 0x40;
            assert_eq!(Greeting::parse(&other), None, "byte {place}");
        }
    }

    #[test]
    fn a_refusal_is_no_answer() {
        let mut refusal = QUESTION.emit();
        refusal[3] = method::GET_RESP;
        assert!(Greeting::parse(&refusal).is_some());
        refusal[5] = 0x0c;
        assert_eq!(Greeting::parse(&refusal), None);
    }
}
