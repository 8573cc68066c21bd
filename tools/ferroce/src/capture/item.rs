//! Something that was captured, and what of it is to be shown: by whom, of which queue pair, and
//! once.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use ferroce_control::capture::CaptureSource;
use ferroce_control::capture::record::{Medium, Packet, Record, What};
use ferroce_wire::{Bth, Packet as Transport};

use super::arguments::Capture;
use super::frame::transport;

/// A record, and whose it is.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) source: Rc<CaptureSource>,
    pub(super) record: Record,
    pub(super) data: Vec<u8>,
}

/// Which are shown.
#[derive(Debug)]
pub(super) struct Filter {
    qps: Vec<u32>,
    programs: Vec<String>,
    /// Packets within the device are shown once.
    once: Option<Once>,
}

impl Filter {
    pub(super) fn new(options: &Capture) -> Filter {
        Filter {
            qps: options.qps.clone(),
            programs: options.programs.clone(),
            once: (!options.both).then(Once::default),
        }
    }

    /// The device has these addresses now.
    pub(super) fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        if let Some(once) = &mut self.once {
            once.addresses = addresses;
        }
    }

    /// Whether what a program does is of interest at all.
    pub(super) fn wants(&self, source: &CaptureSource) -> bool {
        self.programs.is_empty() || self.programs.contains(&source.name)
    }

    /// Whether to show this. Asked once for each, in the order of time.
    pub(super) fn admits(&mut self, item: &Item) -> bool {
        self.is_of_pair(item)
            && match (&mut self.once, &item.record.what) {
                (Some(once), What::Packet(packet)) => once.admits(item, packet),
                _ => true,
            }
    }

    /// Whether it is from or to a queue pair that is asked for.
    fn is_of_pair(&self, item: &Item) -> bool {
        if self.qps.is_empty() || self.qps.contains(&item.record.qpn) {
            return true;
        }
        let What::Packet(packet) = &item.record.what else {
            return false;
        };
        let bytes = transport(packet, &item.data);
        let dest = Bth::parse(bytes).map(|bth| bth.dest_qp);
        let source = Transport::parse(bytes).ok();
        let source = source.and_then(|packet| Some(packet.ext.deth?.src_qp));
        [dest, source]
            .iter()
            .flatten()
            .any(|number| self.qps.contains(number))
    }
}

/// What makes a packet the same where it was sent and where it came: addresses, length, BTH.
type Key = (IpAddr, IpAddr, u32, [u8; 12]);

/// How long a packet may be on its way, in nanoseconds.
const UNDER_WAY: u64 = 2_000_000_000;

/// Shows a packet from one program of the device to another where it was sent; where that was not
/// seen, as its sender is not captured or his buffer was full, where it came.
#[derive(Debug, Default)]
struct Once {
    addresses: Vec<IpAddr>,
    /// How often each was sent lately. It comes as often at most, or to a group's members.
    sent: HashMap<Key, u32>,
    /// When, to be forgotten in this order.
    times: VecDeque<(u64, Key)>,
}

impl Once {
    fn admits(&mut self, item: &Item, packet: &Packet) -> bool {
        let Some(bth) = transport(packet, &item.data).first_chunk() else {
            return true;
        };
        let key = (packet.from, packet.to, packet.original, *bth);
        match packet.incoming {
            false => {
                if self.comes_here(packet) {
                    self.remember(item.record.time, key);
                }
                true
            }
            true => !self.sent.contains_key(&key),
        }
    }

    fn comes_here(&self, packet: &Packet) -> bool {
        packet.medium == Medium::Memory
            || packet.to.is_multicast()
            || packet.from == packet.to
            || self.addresses.contains(&packet.to)
    }

    fn remember(&mut self, time: u64, key: Key) {
        while let Some((then, old)) = self.times.front() {
            if time.saturating_sub(*then) < UNDER_WAY {
                break;
            }
            if let Some(count) = self.sent.get_mut(old) {
                *count -= 1;
                if *count == 0 {
                    self.sent.remove(old);
                }
            }
            self.times.pop_front();
        }
        *self.sent.entry(key).or_default() += 1;
        self.times.push_back((time, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Item {
        /// Something of queue pair 7 of a program.
        pub(in crate::capture) fn of_rping(time: u64, what: What, data: &[u8]) -> Item {
            Item {
                source: Rc::new(CaptureSource {
                    slot: 1,
                    pid: 2,
                    name: "rping".to_owned(),
                }),
                record: Record { time, qpn: 7, what },
                data: data.to_vec(),
            }
        }
    }

    const OWN: &str = "192.0.2.1";

    fn filter() -> Filter {
        let mut filter = Filter {
            qps: Vec::new(),
            programs: Vec::new(),
            once: Some(Once::default()),
        };
        filter.set_addresses(vec![OWN.parse().unwrap()]);
        filter
    }

    /// A SEND to queue pair 5 with a PSN below 256.
    fn item(time: u64, incoming: bool, to: &str, psn: u8) -> Item {
        let packet = Packet {
            incoming,
            refused: false,
            medium: Medium::Udp(1),
            original: 16,
            from: OWN.parse().unwrap(),
            to: to.parse().unwrap(),
            traffic_class: 0,
            hop_limit: 64,
            id: 0,
            flow_label: 0,
        };
        let data = [4, 0, 0xff, 0xff, 0, 0, 0, 5, 0, 0, 0, psn, 0, 0, 0, 0];
        Item::of_rping(time, What::Packet(packet), &data)
    }

    #[test]
    fn a_packet_within_the_device_is_shown_where_it_was_sent() {
        let mut filter = filter();
        assert!(filter.admits(&item(1, false, OWN, 1)));
        assert!(!filter.admits(&item(2, true, OWN, 1)));
        // Sent by somebody who is not captured.
        assert!(filter.admits(&item(3, true, OWN, 2)));
        // Another time, another packet.
        assert!(filter.admits(&item(4 + UNDER_WAY, false, OWN, 3)));
        assert!(filter.admits(&item(5 + UNDER_WAY, true, OWN, 1)));
    }

    #[test]
    fn a_packet_for_a_group_comes_to_several() {
        let mut filter = filter();
        assert!(filter.admits(&item(1, false, "239.0.0.1", 1)));
        assert!(!filter.admits(&item(2, true, "239.0.0.1", 1)));
        assert!(!filter.admits(&item(3, true, "239.0.0.1", 1)));
    }

    #[test]
    fn nothing_is_remembered_of_what_goes_to_others() {
        let mut filter = filter();
        for psn in 0..100 {
            assert!(filter.admits(&item(1, false, "192.0.2.2", psn)));
        }
        assert!(filter.once.unwrap().sent.is_empty());
    }

    #[test]
    fn a_queue_pair_has_what_it_sends_and_what_is_for_it() {
        let admits = |qp| {
            let mut filter = filter();
            filter.qps = vec![qp];
            filter.admits(&item(1, false, OWN, 1))
        };
        assert_eq!([5, 6, 7].map(admits), [true, false, true]);
    }
}
