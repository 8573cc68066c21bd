//! What a client counts at each InfiniBand port, in the same page as its other counters, and keys
//! that were wrong.
//!
//! A mailbox holds one report at a time: what the data path finds while it is full is counted only,
//! so that a flood costs nothing but a number. The daemon empties it and tells the subnet manager.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::CounterPage;

/// The most ports of one InfiniBand device.
pub const MAX_PORTS: usize = 8;

/// Where the ports' part of the page begins, and how much of it is one port's, in words of 8 bytes.
const FIRST: usize = 64;
const WORDS: usize = 32;
/// The first word behind it.
pub(crate) const END: usize = FIRST + MAX_PORTS * WORDS;
/// Where a port's mailboxes are in its part, and how long one is.
const MAIL: usize = 16;
const MAIL_WORDS: usize = 8;

/// States of a mailbox, its first word.
const FREE: u64 = 0;
const WRITING: u64 = 1;
const FULL: u64 = 2;

/// What is counted at a port. The position is the position in the page, so new ones go at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum PortCounter {
    /// Packets sent. In a page without those to groups; a sum has them all.
    TxPackets,
    /// Bytes of those, from the LRH to the ICRC.
    TxBytes,
    /// Packets received.
    RxPackets,
    /// Bytes of those, from the LRH to the ICRC.
    RxBytes,
    /// Packets received that were damaged or malformed.
    RxErrors,
    /// Packets that the kernel would not send.
    TxDiscards,
    /// Packets that the kernel dropped as the socket's buffer was full.
    Overruns,
    /// Packets received with a P_Key that is not the queue pair's.
    WrongPkey,
    /// Datagrams received with a Q_Key that is not the queue pair's.
    WrongQkey,
    /// Packets sent to multicast groups. Those received for groups the daemon counts.
    TxMulticast,
}

impl PortCounter {
    /// All, in the page's order.
    pub const ALL: &'static [PortCounter; Self::COUNT] = &[
        PortCounter::TxPackets,
        PortCounter::TxBytes,
        PortCounter::RxPackets,
        PortCounter::RxBytes,
        PortCounter::RxErrors,
        PortCounter::TxDiscards,
        PortCounter::Overruns,
        PortCounter::WrongPkey,
        PortCounter::WrongQkey,
        PortCounter::TxMulticast,
    ];

    /// How many there are.
    pub const COUNT: usize = PortCounter::TxMulticast as usize + 1;
}

const _: () = assert!(PortCounter::COUNT <= MAIL);
const _: () = assert!(MAIL + 2 * MAIL_WORDS <= WORDS);
const _: () = assert!(crate::Counter::ALL.len() <= FIRST);
const _: () = assert!(END <= CounterPage::WORDS);

/// Which key of a packet was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The P_Key.
    Partition,
    /// The Q_Key.
    Queue,
}

impl Key {
    /// Both.
    pub const ALL: [Key; 2] = [Key::Partition, Key::Queue];

    /// What counts them.
    pub const fn counter(self) -> PortCounter {
        match self {
            Key::Partition => PortCounter::WrongPkey,
            Key::Queue => PortCounter::WrongQkey,
        }
    }
}

/// A packet with a wrong key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrongKey {
    /// Where it came from.
    pub slid: u16,
    /// Where it was to go.
    pub dlid: u16,
    /// The key that it had.
    pub key: u32,
    /// Its service level.
    pub sl: u8,
    /// The queue pair that sent it, 24 bits; 0 if the packet does not say.
    pub source_qp: u32,
    /// The queue pair that it was for, 24 bits.
    pub dest_qp: u32,
    /// Its GRH's source; zero without.
    pub sgid: [u8; 16],
    /// Its GRH's destination; zero without.
    pub dgid: [u8; 16],
}

impl WrongKey {
    fn words(&self) -> [u64; 6] {
        let [s0, s1] = halves(&self.sgid);
        let [d0, d1] = halves(&self.dgid);
        [
            u64::from(self.slid) << 48 | u64::from(self.dlid) << 32 | u64::from(self.key),
            u64::from(self.sl) << 48
                | u64::from(self.source_qp & 0xff_ffff) << 24
                | u64::from(self.dest_qp & 0xff_ffff),
            s0,
            s1,
            d0,
            d1,
        ]
    }

    fn from_words(words: [u64; 6]) -> WrongKey {
        WrongKey {
            slid: (words[0] >> 48) as u16,
            dlid: (words[0] >> 32) as u16,
            key: words[0] as u32,
            sl: (words[1] >> 48) as u8 & 0x0f,
            source_qp: (words[1] >> 24) as u32 & 0xff_ffff,
            dest_qp: words[1] as u32 & 0xff_ffff,
            sgid: whole([words[2], words[3]]),
            dgid: whole([words[4], words[5]]),
        }
    }
}

impl CounterPage {
    /// Adds to a port's counter, wrapping at 2^64. A port that there is not (1 to [`MAX_PORTS`]) is
    /// not counted.
    #[inline]
    pub fn add_at(&self, port: u8, counter: PortCounter, n: u64) {
        if let Some(first) = first(port) {
            self.word(first + counter as usize).fetch_add(n, Relaxed);
        }
    }

    /// A port's counter now; 0 of a port that there is not.
    pub fn read_at(&self, port: u8, counter: PortCounter) -> u64 {
        first(port).map_or(0, |first| self.word(first + counter as usize).load(Relaxed))
    }

    /// Counts a packet with a wrong key, and leaves a report of it if none waits.
    pub fn report(&self, port: u8, which: Key, report: &WrongKey) {
        self.add_at(port, which.counter(), 1);
        let Some(at) = mailbox(port, which) else {
            return;
        };

        let state = self.word(at);
        if state
            .compare_exchange(FREE, WRITING, Acquire, Relaxed)
            .is_err()
        {
            return;
        }

        for (i, word) in report.words().into_iter().enumerate() {
            self.word(at + 1 + i).store(word, Relaxed);
        }
        state.store(FULL, Release);
    }

    /// Takes the report that waits.
    pub fn take_report(&self, port: u8, which: Key) -> Option<WrongKey> {
        let at = mailbox(port, which)?;
        let state = self.word(at);
        if state.load(Acquire) != FULL {
            return None;
        }
        let words = std::array::from_fn(|i| self.word(at + 1 + i).load(Relaxed));
        state.store(FREE, Release);
        Some(WrongKey::from_words(words))
    }
}

/// Where a port's part begins.
fn first(port: u8) -> Option<usize> {
    let index = usize::from(port).checked_sub(1)?;
    (index < MAX_PORTS).then_some(FIRST + index * WORDS)
}

fn mailbox(port: u8, which: Key) -> Option<usize> {
    Some(first(port)? + MAIL + which as usize * MAIL_WORDS)
}

fn halves(gid: &[u8; 16]) -> [u64; 2] {
    let whole = u128::from_be_bytes(*gid);
    [(whole >> 64) as u64, whole as u64]
}

fn whole([high, low]: [u64; 2]) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counter;

    fn report(key: u32) -> WrongKey {
        WrongKey {
            slid: 0xbfff,
            dlid: 0x8001,
            key,
            sl: 15,
            source_qp: 0xff_fffe,
            dest_qp: 0x80_0001,
            sgid: std::array::from_fn(|i| i as u8 + 0x80),
            dgid: [0xff; 16],
        }
    }

    #[test]
    fn each_port_has_its_own() {
        let page = CounterPage::private().unwrap();
        for port in 0..=255 {
            page.add_at(port, PortCounter::TxPackets, u64::from(port));
            page.add_at(port, PortCounter::WrongQkey, 1);
        }
        for port in 0..=255u8 {
            let there = (1..=MAX_PORTS).contains(&usize::from(port));
            let sent = if there { u64::from(port) } else { 0 };
            assert_eq!(page.read_at(port, PortCounter::TxPackets), sent);
            assert_eq!(page.read_at(port, PortCounter::TxBytes), 0);
            assert_eq!(page.read_at(port, PortCounter::WrongQkey), u64::from(there));
        }
        assert!(Counter::ALL.iter().all(|&counter| page.read(counter) == 0));
    }

    #[test]
    fn the_first_of_many_reports_is_kept_until_it_is_taken() {
        let page = CounterPage::private().unwrap();
        for key in 1..=1000 {
            page.report(2, Key::Partition, &report(key));
        }
        page.report(2, Key::Queue, &report(0x8000_0001));
        assert_eq!(page.read_at(2, PortCounter::WrongPkey), 1000);
        assert_eq!(page.take_report(1, Key::Partition), None);
        assert_eq!(page.take_report(2, Key::Partition), Some(report(1)));
        assert_eq!(page.take_report(2, Key::Partition), None);
        assert_eq!(page.take_report(2, Key::Queue), Some(report(0x8000_0001)));
        page.report(2, Key::Partition, &report(u32::MAX));
        assert_eq!(page.take_report(2, Key::Partition), Some(report(u32::MAX)));
    }
}
