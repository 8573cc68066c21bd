//! Ports of an InfiniBand device: what the daemon says of them, where packets go, and which may be
//! taken.
//!
//! The daemon trains the ports and lets a subnet manager configure them; here is only what the data
//! path needs to know.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ferroce_control::{IbPort, WrongKey};
use ferroce_transport::AddressVector;
use ferroce_wire::Lrh;
use ferroce_wire::Packet;
use ferroce_wire::grh::Grh;
use ferroce_wire::link::{Head, LinkPacket, MANAGEMENT_LANE};
use ferroce_wire::lrh::NextHeader;
use ferroce_wire::pkey;
use ferroce_wire::smp::{is_multicast_lid, path_bits};
use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::port::address::PathKey;

/// `enum ibv_port_state`: data may go out and come in.
const ACTIVE: u8 = 4;

/// Whose address a datagram at a port's end has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// That of the cable's other end.
    Far,
    /// The port's own: what it sends to itself does not leave by the cable.
    Own,
    /// Nobody's who has anything to say here.
    Stranger,
}

/// One port.
pub(crate) struct Port {
    pub(crate) number: u8,
    pub(crate) active: AtomicBool,
    state: RwLock<IbPort>,
}

/// What a path over LIDs adds to its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lids {
    pub(crate) port: u8,
    pub(crate) slid: u16,
    pub(crate) dlid: u16,
    sl: u8,
    lane: u8,
    pub(crate) global: Option<Global>,
}

/// What a GRH says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Global {
    sgid: [u8; 16],
    pub(crate) dgid: [u8; 16],
    traffic_class: u8,
    flow_label: u32,
    hop_limit: u8,
}

/// What a completion says of where a datagram came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) path_bits: u8,
    pub(crate) has_grh: bool,
}

impl Origin {
    /// Over Ethernet there are no LIDs, and nobody sees a service level. Adapters (mlx5) leave the
    /// kind of the IP header in `sl`: 1 for IPv6, 2 for IPv4. Programs go by it to find the
    /// sender's GID in the 40 bytes before the payload (UCX).
    pub(crate) fn of_roce(from: IpAddr) -> Origin {
        Origin {
            slid: 0,
            sl: if from.is_ipv4() { 2 } else { 1 },
            path_bits: 0,
            has_grh: true,
        }
    }
}

impl Port {
    pub(crate) fn new(port: IbPort) -> Port {
        Port {
            number: port.number,
            active: AtomicBool::new(port.state == ACTIVE),
            state: RwLock::new(port),
        }
    }

    /// Takes what the daemon says now.
    pub(crate) fn update(&self, port: IbPort) {
        self.active.store(port.state == ACTIVE, Relaxed);
        *self.state.write() = port;
    }

    /// The port as it is now.
    pub(crate) fn state(&self) -> IbPort {
        self.state.read().clone()
    }

    /// The key of the P_Key table's entry.
    pub(crate) fn p_key(&self, index: u16) -> Result<u16> {
        let state = self.state.read();
        let key = state.p_keys.get(usize::from(index)).copied();
        key.filter(|key| pkey::is_valid(*key)).ok_or(Error::Invalid(
            "pkey_index: no such entry in the P_Key table",
        ))
    }

    /// The path that an address vector names.
    pub(crate) fn path_key(&self, av: &AddressVector, slot: u8) -> Result<PathKey> {
        let state = self.state.read();
        if av.dlid == 0 || av.dlid == 0xffff {
            return Err(Error::Invalid("dlid: LIDs are 1 to 0xfffe"));
        }

        if is_multicast_lid(av.dlid) && !(av.is_global && av.dgid[0] == 0xff) {
            return Err(Error::Invalid(
                "dlid: with a multicast LID goes a GRH with the group's GID",
            ));
        }

        let sl = av.sl & 0x0f;
        let lane = state.lanes[usize::from(sl)];
        if lane >= MANAGEMENT_LANE {
            return Err(Error::Invalid("sl: the port drops this service level"));
        }

        let global = match av.is_global {
            false => None,
            true => {
                let index = u16::from(av.sgid_index);
                let sgid = state.gids.iter().find(|(at, _)| *at == index);
                let (_, sgid) =
                    sgid.ok_or(Error::Invalid("sgid_index: no such entry in the GID table"))?;
                Some(Global {
                    sgid: *sgid,
                    dgid: av.dgid,
                    traffic_class: av.traffic_class,
                    flow_label: av.flow_label & 0xf_ffff,
                    hop_limit: av.hop_limit,
                })
            }
        };

        let own = has_lid(&state, av.dlid);
        Ok(PathKey {
            local: state.local.ip(),
            // What is for this very port does not leave by the cable.
            remote: if own {
                state.local.ip()
            } else {
                state.remote.ip()
            },
            slot,
            traffic_class: 0,
            hop_limit: 0,
            lids: Some(Lids {
                port: self.number,
                slid: state.lid | u16::from(av.src_path_bits) & path_bits(state.lmc),
                dlid: av.dlid,
                sl,
                lane,
                global,
            }),
        })
    }

    /// The endpoint to which packets of a path are sent.
    pub(crate) fn destination(&self, lids: &Lids) -> SocketAddr {
        let state = self.state.read();
        match has_lid(&state, lids.dlid) {
            true => state.local,
            false => state.remote,
        }
    }

    /// By which the daemon knows it, where others have an index into the GID table.
    pub(crate) fn index(&self) -> u16 {
        u16::from(self.number) - 1
    }

    /// Our own end of the cable.
    pub(crate) fn end(&self) -> SocketAddr {
        self.state.read().local
    }

    /// The address from which they are sent.
    pub(crate) fn local(&self) -> IpAddr {
        self.state.read().local.ip()
    }

    /// Whose address this is. The other end's processes send from source ports of their own, so
    /// addresses are all that there is to compare.
    pub(crate) fn source(&self, from: IpAddr) -> Source {
        let state = self.state.read();
        if from == state.remote.ip() {
            Source::Far
        } else if from == state.local.ip() {
            Source::Own
        } else {
            Source::Stranger
        }
    }

    /// Whether a packet off the cable is a data packet for this port. Whose it is, is told by its
    /// destination QP.
    pub(crate) fn takes(&self, packet: &LinkPacket<'_>) -> bool {
        self.active.load(Relaxed)
            && packet.lrh.vl != MANAGEMENT_LANE
            && has_lid(&self.state.read(), packet.lrh.dlid)
    }

    /// The same of a packet for a group.
    pub(super) fn takes_of_group(&self, packet: &LinkPacket<'_>) -> bool {
        self.active.load(Relaxed)
            && packet.lrh.vl != MANAGEMENT_LANE
            && is_multicast_lid(packet.lrh.dlid)
            && packet.grh.is_some()
    }

    /// Whether a packet was sent by this very port.
    pub(crate) fn sent(&self, packet: &LinkPacket<'_>) -> bool {
        has_lid(&self.state.read(), packet.lrh.slid)
    }

    /// What a completion says of a datagram.
    pub(crate) fn origin(&self, packet: &LinkPacket<'_>) -> Origin {
        let bits = packet.lrh.dlid & path_bits(self.state.read().lmc);
        Origin {
            slid: packet.lrh.slid,
            sl: packet.lrh.sl,
            path_bits: bits as u8,
            has_grh: packet.grh.is_some(),
        }
    }
}

impl Lids {
    /// What stands before the BTH.
    pub(crate) fn head(&self) -> Head {
        Head {
            lrh: Lrh {
                vl: self.lane,
                version: 0,
                sl: self.sl,
                next: NextHeader::Local,
                dlid: self.dlid,
                words: 0,
                slid: self.slid,
            },
            grh: self.global.map(|global| Grh {
                version: 6,
                traffic_class: global.traffic_class,
                flow_label: global.flow_label,
                payload_len: 0,
                next_header: 0,
                hop_limit: global.hop_limit,
                sgid: global.sgid,
                dgid: global.dgid,
            }),
        }
    }

    /// Whether a packet is from the other end of this path, as a connected queue pair demands.
    /// Ports may be on fabrics of their own, with the same LIDs.
    pub(crate) fn is_from_peer(&self, port: u8, packet: &LinkPacket<'_>) -> bool {
        let global = match (&self.global, &packet.grh) {
            (None, None) => true,
            (Some(own), Some(grh)) => own.dgid == grh.sgid && own.sgid == grh.dgid,
            _ => false,
        };
        global && port == self.port && packet.lrh.slid == self.dlid && packet.lrh.dlid == self.slid
    }
}

/// The port of that number.
pub(crate) fn find(ports: &[Arc<Port>], number: u8) -> Result<&Arc<Port>> {
    ports
        .iter()
        .find(|port| port.number == number)
        .ok_or(Error::Invalid("port_num: the device has no such port"))
}

/// What the subnet manager is told of a packet whose key was wrong.
pub(crate) fn wrong_key(local: &LinkPacket<'_>, packet: &Packet<'_>, key: u32) -> WrongKey {
    let (sgid, dgid) = local
        .grh
        .as_ref()
        .map_or_else(Default::default, |grh| (grh.sgid, grh.dgid));
    WrongKey {
        slid: local.lrh.slid,
        dlid: local.lrh.dlid,
        key,
        sl: local.lrh.sl,
        source_qp: packet.ext.deth.map_or(0, |deth| deth.src_qp),
        dest_qp: packet.bth.dest_qp,
        sgid,
        dgid,
    }
}

/// Whether this is one of the port's LIDs.
fn has_lid(port: &IbPort, lid: u16) -> bool {
    port.lid != 0 && (lid ^ port.lid) & !path_bits(port.lmc) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> IbPort {
        let end = ([127, 0, 0, 1], 7101).into();
        IbPort {
            number: 1,
            state: ACTIVE,
            phys_state: 5,
            lid: 0x20,
            lmc: 0,
            sm_lid: 1,
            sm_sl: 0,
            max_mtu: 4096,
            active_mtu: 4096,
            capabilities: 0,
            subnet_timeout: 18,
            init_type_reply: 0,
            width: 2,
            speed: 4,
            vl_cap: 1,
            p_keys: vec![0xffff],
            gids: Vec::new(),
            gid_tbl_len: 1,
            lanes: [0; 16],
            p_key_violations: 0,
            q_key_violations: 0,
            local: end,
            remote: end,
        }
    }

    /// ibacm gives a whole LID for its bits: of a port with one LID none counts, of one with four
    /// the lowest two do.
    #[test]
    fn of_source_path_bits_those_count_that_are_the_ports() {
        for (lmc, slid) in [(0, 0x20), (2, 0x23)] {
            let port = Port::new(IbPort { lmc, ..port() });
            let av = AddressVector {
                dlid: 7,
                src_path_bits: 0x47,
                ..AddressVector::default()
            };
            assert_eq!(port.path_key(&av, 0).unwrap().lids.unwrap().slid, slid);
        }
    }
}
