//! The rings that lead to one process.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_control::{ControlError, InboxHead};

use super::receiver::{Arrived, Nonsense, RingReceiver};
use crate::progress::marks;

/// All rings that lead to this process.
pub(crate) struct Inbox {
    pub(super) head: InboxHead,
    /// The receiver has stopped somewhere in the middle.
    unfinished: AtomicBool,
}

/// What the receiver knows of the rings, under the lock of receiving.
#[derive(Default)]
pub(crate) struct Rings {
    rings: Vec<(u8, RingReceiver)>,
    /// Marks that were cleared in the head, of rings that may hold more.
    marked: [u64; 4],
    /// The slot whose turn is next, so that a busy sender does not keep others waiting.
    next: u8,
}

impl Inbox {
    pub(crate) fn new(memory: OwnedFd) -> Result<Inbox, ControlError> {
        Ok(Inbox {
            head: InboxHead::map(memory)?,
            unfinished: AtomicBool::new(false),
        })
    }

    /// Whether there may be something to take.
    pub(crate) fn is_marked(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
            || (0..4).any(|word| self.head.pending(word).load(Ordering::Relaxed) != 0)
    }

    /// Announces a sleep. `false`: there is something to take first.
    pub(crate) fn falling_asleep(&self) -> bool {
        marks::announce(self.head.sleeping(), || self.is_marked())
    }

    pub(crate) fn awake(&self) {
        marks::over(self.head.sleeping());
    }

    /// Gives records to `f`, from one marked ring after the other, until it says that this is
    /// enough or nothing is left. `broken` is called for a ring that made no sense.
    pub(crate) fn take(
        &self,
        rings: &mut Rings,
        mut f: impl FnMut(Arrived<'_>) -> bool,
        mut broken: impl FnMut(),
    ) {
        for word in 0..4 {
            rings.marked[word] |= marks::take(self.head.pending(word));
        }

        'rings: for slot in rings.in_turn() {
            let (word, bit) = (usize::from(slot) / 64, 1 << (slot % 64));
            let Some(ring) = self.ring(rings, slot) else {
                rings.marked[word] &= !bit;
                broken();
                continue;
            };

            loop {
                match ring.take(&mut f) {
                    Ok(Some(true)) => {}
                    Ok(Some(false)) => {
                        rings.next = slot.wrapping_add(1);
                        break 'rings;
                    }
                    Ok(None) => {
                        ring.restate();
                        break;
                    }
                    Err(Nonsense) => broken(),
                }
            }

            rings.marked[word] &= !bit;
        }

        let unfinished = rings.marked != [0; 4];
        self.unfinished.store(unfinished, Ordering::Relaxed);
    }

    fn ring<'a>(&self, rings: &'a mut Rings, slot: u8) -> Option<&'a mut RingReceiver> {
        let rings = &mut rings.rings;
        let found = rings.iter().position(|(known, _)| *known == slot);
        let index = match found {
            Some(index) => index,
            None => {
                let memory = self.head.ring(slot).ok()?;
                rings.push((slot, RingReceiver::new(memory)));
                rings.len() - 1
            }
        };
        Some(&mut rings[index].1)
    }
}

impl Rings {
    /// The slots of the marked rings, from `next` on and around.
    fn in_turn(&self) -> impl Iterator<Item = u8> + use<> {
        let (marked, next) = (self.marked, self.next);
        let from = |slot: u8| {
            let (word, bit) = (usize::from(slot) / 64, slot % 64);
            let rest = marked[word] >> bit << bit;
            let later = (word + 1..4).map(move |word| (word, marked[word]));
            std::iter::once((word, rest)).chain(later)
        };
        let before = move |slot: &u8| *slot < next;
        bits(from(next)).chain(bits(from(0)).take_while(before))
    }
}

/// The numbers of the bits that are set.
fn bits(words: impl Iterator<Item = (usize, u64)>) -> impl Iterator<Item = u8> {
    words.flat_map(|(word, mut left)| {
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some((word * 64) as u8 + bit as u8)
        })
    })
}
