//! Reading memory that another process may write to meanwhile.
//!
//! To the language that is a data race, whatever the other process means by it: a reference to such
//! bytes (`&[u8]`) would promise that they stay, and a plain load may be made twice, or be torn. So
//! there are three ways to read it, and no other:
//!
//! - words that are shared by design (positions, marks) by atomic operations;
//! - what decides anything (a record's header, a packet's headers) once, by relaxed atomic loads,
//!   to memory of our own, where it is checked and used;
//! - payload by [`guard::copy`](crate::memory::guard::copy), from a raw pointer to the registered
//!   memory that it is for, once. Nothing here looks at it, before or after.
//!
//! With a neighbour who keeps to the rules nothing races: what he has put in he has published, and
//! leaves alone until it has been taken out. One who does not gets packets accepted that he could
//! as well have sent.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ferroce_wire::{MAX_HEADER, Octets, Packet, ParseError};

/// Takes apart a packet that came through memory. Its headers are read once.
#[inline]
pub(crate) fn parse(packet: Octets<'_>) -> Result<Packet<'_>, ParseError> {
    match packet {
        Octets::Private(bytes) => Packet::parse(bytes),
        Octets::Shared(bytes) => {
            let mut head = [0; MAX_HEADER];
            let len = copy(bytes, &mut head);
            Packet::parse_with(&head[..len], packet)
        }
    }
}

/// Copies as many bytes as there are and as `to` takes, each read once; returns how many. In words
/// where they are aligned, as packets in a ring are.
#[inline]
pub(crate) fn copy(from: &[AtomicU8], to: &mut [u8]) -> usize {
    const WORD: usize = size_of::<u32>();

    let len = from.len().min(to.len());
    let words = match from.as_ptr().cast::<AtomicU32>().is_aligned() {
        true => len / WORD,
        false => 0,
    };
    let (whole, rest) = to[..len].split_at_mut(words * WORD);
    for (n, to) in whole.chunks_exact_mut(WORD).enumerate() {
        // SAFETY: the word lies in `from`, is aligned as its start is, and is memory that may
        // change at any moment, as an atomic's may; nobody in this process writes to it.
        let word = unsafe { &*from.as_ptr().cast::<AtomicU32>().add(n) };
        to.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }

    for (to, from) in rest.iter_mut().zip(&from[words * WORD..]) {
        *to = from.load(Ordering::Relaxed);
    }
    len
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
