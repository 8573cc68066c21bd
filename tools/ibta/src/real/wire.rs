//! What carries packets between the transport tester and a device: RoCEv2, or a cable to an
//! InfiniBand port.

use super::cable::Cables;
use super::roce::Roce;
use crate::mad::{SM_LID, lid_of};
use crate::packet::TxPacket;
use crate::trace::Carrier;
use anyhow::{Context, Result};
use ferroce_wire::Bth;
use ferroce_wire::grh::Grh;
use ferroce_wire::link::{Head, LinkPacket, MANAGEMENT_LANE};
use ferroce_wire::lrh::{Lrh, NextHeader};
use ferroce_wire::mad::QP1;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// A packet of the device.
pub(super) struct Arrived {
    /// When it came.
    pub at: Instant,
    /// What carried it.
    pub carrier: Carrier,
    /// As it was carried.
    pub whole: Vec<u8>,
    /// From the BTH to the ICRC; of what is not for a queue pair of the tester's, none.
    pub transport: Option<Vec<u8>>,
    /// The ICRC is right.
    pub intact: bool,
}

/// The tester's end of the way to a device.
pub(super) trait Wire {
    /// A packet as it is carried, right or wrong.
    fn encode(&self, packet: &TxPacket) -> Vec<u8>;
    /// What carries packets to the device.
    fn outward(&self) -> Carrier;
    /// Sends what was encoded.
    ///
    /// # Errors
    /// If there is no way to the device.
    fn send(&mut self, bytes: &[u8]) -> Result<()>;
    /// The next packet of the device, if one has come.
    ///
    /// # Errors
    /// The host's.
    fn receive(&mut self) -> Result<Option<Arrived>>;
    /// Waits until something may have come.
    ///
    /// # Errors
    /// The host's.
    fn wait(&mut self, within: Duration) -> Result<()>;
}

impl Wire for &mut Roce {
    fn encode(&self, packet: &TxPacket) -> Vec<u8> {
        Roce::encode(self, packet)
    }

    fn outward(&self) -> Carrier {
        let (from, to) = Roce::outward(self);
        Carrier::Roce { from, to }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Roce::send(self, bytes)
    }

    fn receive(&mut self) -> Result<Option<Arrived>> {
        let to = self.here();
        let datagram = Roce::receive(self)?;
        Ok(datagram.map(|datagram| {
            // The device's host may ask the tester's who it is, or for a path; no test is about
            // that.
            let bth = Bth::parse(&datagram.bytes);
            let for_management = bth.is_some_and(|bth| bth.dest_qp == QP1);
            Arrived {
                at: datagram.at,
                carrier: Carrier::Roce {
                    from: datagram.from,
                    to,
                },
                transport: (!for_management).then(|| datagram.bytes.clone()),
                whole: datagram.bytes,
                intact: datagram.intact,
            }
        }))
    }

    fn wait(&mut self, within: Duration) -> Result<()> {
        let mut waiting = [PollFd::new(&**self, PollFlags::IN)];
        match poll(&mut waiting, Some(&Timespec::try_from(within)?)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("waiting for packets"),
        }
    }
}

/// A cable whose port the tester has configured: LIDs as the MAD tester gives them, service level
/// and lane 0.
pub(super) struct OnCable<'a> {
    cables: &'a Cables,
    port: u8,
    head: Head,
    /// What came while it was waited.
    arrived: Option<(Instant, Vec<u8>)>,
}

impl<'a> OnCable<'a> {
    /// The cable to a port. Packets have a GRH with these GIDs.
    pub(super) fn new(
        cables: &'a Cables,
        port: u8,
        tester: [u8; 16],
        device: [u8; 16],
    ) -> OnCable<'a> {
        let lrh = Lrh {
            vl: 0,
            version: 0,
            sl: 0,
            next: NextHeader::Global,
            dlid: lid_of(port),
            words: 0,
            slid: SM_LID,
        };

        let grh = Grh {
            version: 6,
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
            next_header: 0,
            hop_limit: 64,
            sgid: tester,
            dgid: device,
        };

        OnCable {
            cables,
            port,
            head: Head {
                lrh,
                grh: Some(grh),
            },
            arrived: None,
        }
    }
}

impl Wire for OnCable<'_> {
    fn encode(&self, packet: &TxPacket) -> Vec<u8> {
        let mut whole = vec![0; self.head.len()];
        let transport = packet.encode(|len| self.head.emit(len, &mut whole));
        whole.extend_from_slice(&transport);
        whole
    }

    fn outward(&self) -> Carrier {
        Carrier::Cable { port: self.port }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.cables.send(self.port, bytes)
    }

    fn receive(&mut self) -> Result<Option<Arrived>> {
        let now = Instant::now();
        let arrived = self.arrived.take();
        let arrived = arrived.or_else(|| self.cables.receive(self.port, now));
        Ok(arrived.map(|(at, whole)| {
            let packet = LinkPacket::parse(&whole);
            let for_tester = |packet: &LinkPacket<'_>| {
                let bth = Bth::parse(packet.transport);
                packet.lrh.vl != MANAGEMENT_LANE && bth.is_some_and(|bth| bth.dest_qp > 1)
            };
            let packet = packet.filter(for_tester);
            Arrived {
                at,
                carrier: Carrier::Cable { port: self.port },
                transport: packet.map(|packet| packet.transport.to_vec()),
                intact: packet.is_some_and(|packet| packet.is_intact()),
                whole,
            }
        }))
    }

    fn wait(&mut self, within: Duration) -> Result<()> {
        if self.arrived.is_none() {
            self.arrived = self.cables.receive(self.port, Instant::now() + within);
        }
        Ok(())
    }
}
