//! Request packets that came before an earlier one: kept as they came, and carried out in order
//! once the gap has closed.
//!
//! What is kept stays until it is carried out or the connection ends, so a requester that was told
//! need not send it again. Nothing of it is looked at before its turn: keys, rights and lengths are
//! checked, and memory is written, in the order of the PSNs.

use crate::tuning::{EARLY_UNTOLD, REORDER_PACKETS};
use ferroce_wire::selective::{Came, REACH};
use ferroce_wire::{Bth, Ext, OpcodeInfo, Packet, Psn};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Memory for packets that came early, shared by all queue pairs that are told of it. A queue pair
/// takes 2,048 packets at most.
#[derive(Debug)]
pub struct EarlyMemory {
    left: AtomicUsize,
}

impl EarlyMemory {
    /// So many bytes.
    pub const fn new(bytes: usize) -> EarlyMemory {
        EarlyMemory {
            left: AtomicUsize::new(bytes),
        }
    }

    fn take(&self, bytes: usize) -> bool {
        let rest = |left: usize| left.checked_sub(bytes);
        self.left.fetch_update(Relaxed, Relaxed, rest).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.left.fetch_add(bytes, Relaxed);
    }
}

/// A packet that is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    bth: Bth,
    info: &'static OpcodeInfo,
    ext: Ext,
    payload: Vec<u8>,
    memory: &'static EarlyMemory,
}

impl Kept {
    /// Bytes that are counted for a packet.
    fn cost(payload: usize) -> usize {
        payload + size_of::<Kept>()
    }

    /// The packet as it came.
    pub(crate) fn packet(&self) -> Packet<'_> {
        Packet {
            bth: self.bth,
            info: self.info,
            ext: self.ext,
            payload: self.payload[..].into(),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.memory.give(Kept::cost(self.payload.len()));
    }
}

/// The packets that came early. Copies of a queue pair share what was kept.
#[derive(Clone, Debug)]
pub(crate) struct Early {
    memory: &'static EarlyMemory,
    /// PSN of the first slot.
    base: Psn,
    slots: VecDeque<Option<Arc<Kept>>>,
    /// Slots that are not empty.
    count: usize,
    /// Packets that have come since the peer was told, and whether one of them cannot wait.
    untold: usize,
    urgent: bool,
}

impl Early {
    pub(crate) fn new(memory: &'static EarlyMemory) -> Early {
        Early {
            memory,
            base: Psn::default(),
            slots: VecDeque::new(),
            count: 0,
            untold: 0,
            urgent: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keeps a packet whose PSN lies beyond `expected`, if it is within reach, there is memory, and
    /// it is not there yet. Returns whether it is there now.
    pub(crate) fn keep(&mut self, expected: Psn, packet: &Packet<'_>) -> bool {
        self.move_to(expected);
        let at = Psn::new(packet.bth.psn).forward_from(expected) as usize;
        if at > REACH as usize {
            return false;
        }
        if self.slots.get(at).is_some_and(Option::is_some) {
            return true;
        }
        if !self.memory.take(Kept::cost(packet.payload.len())) {
            return false;
        }

        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.slots[at] = Some(Arc::new(Kept {
            bth: packet.bth,
            info: packet.info,
            ext: packet.ext,
            payload: packet.payload.to_vec(),
            memory: self.memory,
        }));
        self.count += 1;
        true
    }

    /// Another packet has come. `asks`: for an acknowledgement, as the last of a message does.
    pub(crate) fn another(&mut self, asks: bool) {
        self.untold += 1;
        self.urgent |= asks || self.count as u64 <= REORDER_PACKETS;
    }

    /// A gap has closed, and there is another.
    pub(crate) fn moved_on(&mut self) {
        self.urgent = true;
    }

    /// Whether the peer is to be told at once: of the first packets, which show it the gap, of one
    /// that asks, of every few, and of a gap that has closed.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent || self.untold >= EARLY_UNTOLD
    }

    /// The peer is told.
    pub(crate) fn told(&mut self) {
        (self.untold, self.urgent) = (0, false);
    }

    /// Takes the packet that is expected out, if it is there.
    pub(crate) fn take(&mut self, expected: Psn) -> Option<Arc<Kept>> {
        self.move_to(expected);
        let kept = self.slots.front_mut()?.take()?;
        self.count -= 1;
        Some(kept)
    }

    /// What has come beyond the PSN that is expected.
    pub(crate) fn came(&self, expected: Psn) -> Came {
        let passed = expected.forward_from(self.base) as usize;
        let mut came = Came::default();
        let beyond = self.slots.iter().skip(passed + 1);
        for (offset, _) in (0..).zip(beyond).filter(|(_, slot)| slot.is_some()) {
            came.set(offset);
        }
        came
    }

    /// Forgets what lies before `expected`.
    fn move_to(&mut self, expected: Psn) {
        let passed = expected.forward_from(self.base) as usize;
        let gone = self.slots.drain(..passed.min(self.slots.len()));
        self.count -= gone.filter(Option::is_some).count();
        self.base = expected;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_wire::opcode;

    fn packet(psn: u32, payload: &[u8]) -> Packet<'_> {
        Packet {
            bth: Bth {
                psn: psn & 0xff_ffff,
                ..Bth::default()
            },
            info: opcode::info(opcode::RC_SEND_MIDDLE).expect("a row"),
            ext: Ext::default(),
            payload: payload.into(),
        }
    }

    #[test]
    fn what_came_early_comes_out_in_order_across_the_wrap() {
        static MEMORY: EarlyMemory = EarlyMemory::new(1 << 20);
        let at = |n: u32| Psn::new(0xff_fffe).add(n);
        let mut early = Early::new(&MEMORY);
        for n in [5u32, 1, 2, 4, 2] {
            assert!(early.keep(at(0), &packet(at(n).value(), &[n as u8; 9])));
        }

        assert!(early.came(at(0)).iter().eq([0, 1, 3, 4]));
        assert!(early.take(at(0)).is_none());
        for n in [1, 2, 4, 5] {
            if n == 4 {
                assert!(early.take(at(3)).is_none());
                assert!(early.came(at(3)).iter().eq([0, 1]));
            }
            let kept = early.take(at(n)).expect("kept");
            assert!(kept.packet().payload == [n as u8; 9]);
        }
        assert!(early.is_empty());
        assert_eq!(MEMORY.left.load(Relaxed), 1 << 20);
    }

    #[test]
    fn there_are_bounds() {
        static MEMORY: EarlyMemory = EarlyMemory::new(4 * (size_of::<Kept>() + 100));
        let expected = Psn::new(7);
        let mut early = Early::new(&MEMORY);
        assert!(early.keep(expected, &packet(7 + REACH, &[1; 100])));
        assert!(!early.keep(expected, &packet(8 + REACH, &[1; 100])));
        for psn in [9, 10, 11] {
            assert!(early.keep(expected, &packet(psn, &[1; 100])));
        }

        assert!(!early.keep(expected, &packet(12, &[])), "no memory");
        assert!(early.keep(expected, &packet(9, &[1; 100])), "there already");
        assert_eq!(early.came(expected).as_bytes().len(), 256);

        // What was passed over without being taken gives its memory back.
        assert!(early.keep(Psn::new(11), &packet(12, &[1; 100])));
        drop(early);
        assert_eq!(MEMORY.left.load(Relaxed), 4 * (size_of::<Kept>() + 100));
    }
}
