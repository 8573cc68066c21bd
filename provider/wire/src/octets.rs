//! Bytes of a packet that came, wherever they lie: in memory of our own, or in memory that another
//! process may write to while we read.
//!
//! Of the second kind nothing may be believed to stay: a reference to such bytes says that they do
//! not change, so there is none. What decides anything is copied out once and looked at in the
//! copy; the rest, the payload, goes on as this type, which tells its length and is copied to where
//! it belongs. Only the bytes can change meanwhile, never where they are or how many.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

/// A run of bytes.
#[derive(Clone, Copy, Debug)]
pub enum Octets<'a> {
    /// Nobody changes them.
    Private(&'a [u8]),
    /// Another process may change them at any moment. Two looks at the same byte may differ.
    Shared(&'a [AtomicU8]),
}

impl<'a> Octets<'a> {
    /// How many bytes they are.
    pub fn len(self) -> usize {
        match self {
            Octets::Private(bytes) => bytes.len(),
            Octets::Shared(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The bytes themselves, if nobody changes them.
    pub fn private(self) -> Option<&'a [u8]> {
        match self {
            Octets::Private(bytes) => Some(bytes),
            Octets::Shared(_) => None,
        }
    }

    /// Some of them.
    ///
    /// # Panics
    /// If the range is not inside.
    pub fn part(self, range: Range<usize>) -> Octets<'a> {
        match self {
            Octets::Private(bytes) => Octets::Private(&bytes[range]),
            Octets::Shared(bytes) => Octets::Shared(&bytes[range]),
        }
    }

    /// The first `at` of them, and the others.
    ///
    /// # Panics
    /// If there are less than `at`.
    pub fn split_at(self, at: usize) -> (Octets<'a>, Octets<'a>) {
        (self.part(0..at), self.part(at..self.len()))
    }

    /// Pieces of `size` bytes, the last of which may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn chunks(self, size: usize) -> impl Iterator<Item = Octets<'a>> {
        let len = self.len();
        let starts = (0..len).step_by(size);
        starts.map(move |start| self.part(start..len.min(start + size)))
    }

    /// Copies as many as there are, at most as many as `to` takes, looking at each once; returns
    /// how many. For headers; the engine has a faster way for payload.
    pub fn copy_to(self, to: &mut [u8]) -> usize {
        let len = self.len().min(to.len());
        match self {
            Octets::Private(bytes) => to[..len].copy_from_slice(&bytes[..len]),
            Octets::Shared(bytes) => {
                for (to, from) in to.iter_mut().zip(bytes) {
                    *to = from.load(Ordering::Relaxed);
                }
            }
        }
        len
    }

    /// A copy of all.
    pub fn to_vec(self) -> Vec<u8> {
        let mut copy = vec![0; self.len()];
        self.copy_to(&mut copy);
        copy
    }

    /// A copy, if they are exactly so many.
    pub fn to_array<const N: usize>(self) -> Option<[u8; N]> {
        let mut array = [0; N];
        (self.len() == N).then(|| self.copy_to(&mut array))?;
        Some(array)
    }

    /// Where they begin, for raw copies.
    pub fn as_ptr(self) -> *const u8 {
        match self {
            Octets::Private(bytes) => bytes.as_ptr(),
            Octets::Shared(bytes) => bytes.as_ptr().cast(),
        }
    }
}

/// As the bytes are at the moment, each looked at once.
impl PartialEq<[u8]> for Octets<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        match self {
            Octets::Private(bytes) => *bytes == other,
            Octets::Shared(bytes) => {
                let same = |(a, b): (&AtomicU8, &u8)| a.load(Ordering::Relaxed) == *b;
                bytes.len() == other.len() && bytes.iter().zip(other).all(same)
            }
        }
    }
}

impl PartialEq<&[u8]> for Octets<'_> {
    fn eq(&self, other: &&[u8]) -> bool {
        *self == **other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Octets<'_> {
    fn eq(&self, other: &[u8; N]) -> bool {
        *self == other[..]
    }
}

impl<'a> From<&'a [u8]> for Octets<'a> {
    fn from(bytes: &'a [u8]) -> Octets<'a> {
        Octets::Private(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_cut_and_copied_alike() {
        let own: Vec<u8> = (0..100).collect();
        let shared: Vec<AtomicU8> = own.iter().map(|byte| AtomicU8::new(*byte)).collect();
        for octets in [Octets::Private(&own), Octets::Shared(&shared)] {
            assert_eq!((octets.len(), octets.is_empty()), (100, false));
            let mut to = [0xff; 120];
            assert_eq!(octets.copy_to(&mut to), 100);
            assert_eq!((&to[..100], to[100]), (&own[..], 0xff));
            assert_eq!(octets.copy_to(&mut to[..3]), 3);
            let lens: Vec<usize> = octets.chunks(30).map(Octets::len).collect();
            assert_eq!(lens, [30, 30, 30, 10]);
            let (head, rest) = octets.split_at(96);
            assert_eq!(head.to_array::<4>(), None);
            assert_eq!(rest.to_array(), Some([96, 97, 98, 99]));
            assert!(octets.part(100..100).is_empty());
            assert_eq!(octets.to_vec(), own);
            assert!(octets == own[..] && octets != own[..99] && octets != [0; 100]);
        }

        assert_eq!(Octets::Private(&own).private(), Some(&own[..]));
        assert!(Octets::Shared(&shared).private().is_none());
    }

    #[test]
    fn a_copy_stays_when_the_bytes_change() {
        let shared = [const { AtomicU8::new(1) }; 8];
        let copy = Octets::Shared(&shared).to_array::<8>();
        shared[3].store(9, Ordering::Relaxed);
        assert_eq!(copy, Some([1; 8]));
    }
}
