//! How a packet came, for its delivery.

use std::net::IpAddr;

use ferroce_wire::grh::{self, Grh, IpHeader};
use ferroce_wire::link::LinkPacket;

use crate::port::ib::Port;
use crate::port::recvmsg::Datagram;

/// How a packet came.
pub(crate) struct Arrival<'a> {
    pub(crate) datagram: &'a Datagram,
    /// The address or group that it was sent to.
    pub(crate) local: IpAddr,
    /// Bytes of UDP payload.
    pub(crate) bytes: usize,
    /// IPv4's identification.
    pub(crate) id: u16,
    /// By an InfiniBand port: its headers.
    pub(crate) port: Option<(&'a Port, &'a LinkPacket<'a>)>,
}

impl Arrival<'_> {
    /// The 40 bytes that go before a datagram's payload.
    pub(crate) fn grh(&self) -> [u8; grh::LEN] {
        if let Some((_, packet)) = self.port {
            let mut bytes = [0; grh::LEN];
            packet.grh.as_ref().map(|grh: &Grh| grh.emit(&mut bytes));
            return bytes;
        }

        let header = IpHeader {
            source: self.datagram.from,
            destination: self.local,
            traffic_class: self.datagram.traffic_class,
            flow_label: self.datagram.flow_label,
            hop_limit: self.datagram.hop_limit,
            id: self.id,
            payload_len: u16::try_from(self.bytes).unwrap_or(u16::MAX),
        };

        header.grh()
    }
}
