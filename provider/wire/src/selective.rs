//! What a selective acknowledgement says: which request packets beyond the expected one have come.
//!
//! It is the payload of an opcode of the manufacturers' range, a bitmap behind the AETH. The AETH
//! and the BTH's PSN say what an acknowledgement's say: everything up to that PSN has been carried
//! out. The PSN after it is missing. Bit *i*, the most significant of a byte first, stands for the
//! PSN *i* further: set, its packet has come and will not have to come again.
//!
//! There is one form for each set of packets: no word at the end is empty.

use crate::Octets;

/// Bytes of the longest bitmap: what fits into the smallest path MTU.
pub const MAX_BITMAP: usize = 256;

/// PSNs beyond the missing one that a bitmap can tell of.
pub const REACH: u32 = MAX_BITMAP as u32 * 8;

/// Bytes in a word, by which bitmaps grow.
const WORD: usize = 4;

/// The packets that have come, as offsets from the PSN after the missing one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    bits: [u8; MAX_BITMAP],
    /// Bytes up to the last one that is not empty.
    used: usize,
}

impl Default for Came {
    fn default() -> Came {
        Came {
            bits: [0; MAX_BITMAP],
            used: 0,
        }
    }
}

impl Came {
    /// Takes a payload; `None` if it is not the one form of what it says.
    pub fn parse(payload: Octets<'_>) -> Option<Came> {
        let len = payload.len();
        if len == 0 || len > MAX_BITMAP || !len.is_multiple_of(WORD) {
            return None;
        }

        let mut came = Came::default();
        payload.copy_to(&mut came.bits);
        let last = came.bits.iter().rposition(|byte| *byte != 0)?;
        came.used = last + 1;
        (came.as_bytes().len() == len).then_some(came)
    }

    /// Notes that a packet has come. One that is out of reach is not noted.
    pub fn set(&mut self, offset: u32) {
        if offset < REACH {
            let at = offset as usize / 8;
            self.bits[at] |= 0x80 >> (offset % 8);
            self.used = self.used.max(at + 1);
        }
    }

    /// Whether a packet has come.
    pub fn contains(&self, offset: u32) -> bool {
        offset < REACH && self.bits[offset as usize / 8] & 0x80 >> (offset % 8) != 0
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The packets that have come, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let bytes = self.bits[..self.used].iter().zip((0u32..).step_by(8));
        bytes.flat_map(|(byte, at)| {
            let set = move |bit: &u32| byte & 0x80 >> bit != 0;
            (0..8).filter(set).map(move |bit| at + bit)
        })
    }

    /// The payload: 4 to [`MAX_BITMAP`] bytes, a multiple of 4; none if nothing has come.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bits[..self.used.next_multiple_of(WORD)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Option<Vec<u32>> {
        Came::parse(bytes.into()).map(|came| came.iter().collect())
    }

    #[test]
    fn bytes_of_some_sets() {
        let mut came = Came::default();
        assert!(came.is_empty() && came.as_bytes().is_empty());
        came.set(0);
        assert_eq!(came.as_bytes(), [0x80, 0, 0, 0]);
        came.set(31);
        assert_eq!(came.as_bytes(), [0x80, 0, 0, 1]);
        came.set(33);
        assert_eq!(came.as_bytes(), [0x80, 0, 0, 1, 0x40, 0, 0, 0]);
        assert_eq!(parse(came.as_bytes()), Some(vec![0, 31, 33]));
        came.set(REACH);
        assert_eq!(came.as_bytes().len(), 8);
        came.set(REACH - 1);
        assert_eq!(came.as_bytes().len(), MAX_BITMAP);
        assert!(came.contains(REACH - 1) && !came.contains(REACH) && !came.contains(1));
    }

    #[test]
    fn there_is_one_form() {
        let mut long = [0; MAX_BITMAP + WORD];
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[0; 4]), None, "nothing has come");
        assert_eq!(parse(&[0x80, 0, 0]), None, "not a word");
        assert_eq!(parse(&[0x80, 0, 0, 0, 0, 0, 0, 0]), None, "an empty word");
        assert_eq!(parse(&[0, 0, 0, 1]), Some(vec![31]));
        long[MAX_BITMAP + WORD - 1] = 1;
        assert_eq!(parse(&long), None, "too long");
        assert_eq!(parse(&long[WORD..]), Some(vec![REACH - 1]));
    }
}
