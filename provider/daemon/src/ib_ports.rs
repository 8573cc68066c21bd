//! The InfiniBand ports of a device, and how programs, the image and the connection manager see
//! them.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use ferroce_control::{CounterPage, GidEntry, IbPort, Key, MAX_PORTS};
use ferroce_fabric::sma::Port;
use ferroce_wire::mtu;
use ferroce_wire::smp::phys_state::LINK_UP;

use crate::gids::GidTable;
use crate::ib::{Fabric, Happened};
use crate::totals::Totals;

/// The ports; of a RoCE device there are none.
#[derive(Debug, Default)]
pub(crate) struct IbPorts {
    pub(crate) fabric: Option<Fabric>,
    /// The ports as the image shows them.
    pub(crate) shown: Vec<IbPort>,
    /// Their GIDs, with the IP addresses that go with them.
    pub(crate) gids: GidTable,
    /// Packets with wrong keys that the subnet manager has been told of, by port and key.
    pub(crate) reported: [[u64; 2]; MAX_PORTS],
}

impl IbPorts {
    /// When there is something to do at them.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.fabric.as_ref()?.next_timeout()
    }

    /// Takes what has happened since the last time.
    pub(crate) fn happened(&mut self) -> Vec<Happened> {
        self.fabric.as_mut().map_or(Vec::new(), Fabric::happened)
    }

    /// Tells the agent of packets with wrong keys that there have been since the last time: how
    /// many, by what was counted, and one of each kind, as the pages of processes have it.
    pub(crate) fn take_reports(&mut self, totals: &Totals, pages: &[&CounterPage]) {
        let Some(fabric) = &mut self.fabric else {
            return;
        };

        for (port, reported) in (1..=fabric.ports()).zip(&mut self.reported) {
            for (key, reported) in Key::ALL.into_iter().zip(reported) {
                let total = totals.at(port, key.counter());
                let new = total.wrapping_sub(std::mem::replace(reported, total));
                // Reports that wait beside the first are of the same time, and not needed.
                let mut reports = pages.iter().filter_map(|page| page.take_report(port, key));
                let first = reports.next();
                reports.for_each(drop);
                if new > 0 {
                    let times = u16::try_from(new).unwrap_or(u16::MAX);
                    fabric.wrong_key(port, key, times, &first.unwrap_or_default());
                }
            }
        }
    }

    /// Behind which ports a subnet manager works, as of now.
    pub(crate) fn update_sm(&mut self, is_sm: impl Fn(u8) -> bool) {
        if let Some(fabric) = &mut self.fabric {
            for port in 1..=fabric.ports() {
                fabric.set_is_sm(port, is_sm(port));
            }
        }
    }

    /// Takes the GIDs from what is shown, with the ports' IP addresses.
    pub(crate) fn update_gids(&mut self, addrs: &[IpAddr]) {
        let mut entries = Vec::new();
        for (at, port) in self.shown.iter().enumerate() {
            for (index, gid) in port.gids.iter().filter(|(index, _)| *index < 256) {
                // The port's address goes with its first GID.
                let addr = addrs.get(at).copied().filter(|_| *index == 0);
                entries.push(GidEntry {
                    index: (at as u16) << 8 | index,
                    gid: *gid,
                    addr: addr.unwrap_or(Ipv6Addr::from(*gid).into()),
                    scope_id: 0,
                    ifindex: 0,
                    ifname: String::new(),
                });
            }
        }

        self.gids = GidTable::of(entries);
    }

    /// The ports as programs see them.
    pub(crate) fn described(&self) -> Vec<IbPort> {
        let Some(fabric) = &self.fabric else {
            return Vec::new();
        };
        fabric
            .node()
            .ports()
            .filter_map(|port| describe(port, fabric))
            .collect()
    }

    /// The ports without what counts: a number that grows with every wrong packet is no reason to
    /// write the image anew.
    pub(crate) fn state(&self) -> Vec<IbPort> {
        let mut ports = self.described();
        for port in &mut ports {
            (port.p_key_violations, port.q_key_violations) = (0, 0);
        }
        ports
    }
}

fn describe(port: &Port, fabric: &Fabric) -> Option<IbPort> {
    let info = port.info();
    let cable = fabric.cable(port.number())?;
    let up = info.port_physical_state == LINK_UP;

    // The largest MTU is what both ends agreed upon through the subnet manager; before, what the
    // port can.
    let mtu = if up { info.neighbor_mtu } else { info.mtu_cap };
    Some(IbPort {
        number: port.number(),
        state: info.port_state,
        phys_state: info.port_physical_state,
        lid: info.lid,
        lmc: info.lmc,
        sm_lid: info.master_sm_lid,
        sm_sl: info.master_sm_sl,
        max_mtu: mtu::bytes(info.mtu_cap).unwrap_or(mtu::LEAST),
        active_mtu: mtu::bytes(mtu).unwrap_or(mtu::LEAST),
        capabilities: info.capability_mask,
        subnet_timeout: info.subnet_timeout,
        init_type_reply: info.init_type_reply,
        width: info.link_width_active,
        speed: speed(info.link_speed_active, info.link_speed_ext_active),
        vl_cap: info.vl_cap,
        p_keys: port.p_keys().to_vec(),
        gids: port
            .gids()
            .map(|(index, gid)| (index as u16, gid))
            .collect(),
        gid_tbl_len: port.guids().len() as u16,
        lanes: std::array::from_fn(|sl| port.virtual_lane(0, sl as u8).unwrap_or(15)),
        p_key_violations: info.p_key_violations,
        q_key_violations: info.q_key_violations,
        local: cable.local,
        remote: cable.remote,
    })
}

/// Speeds as verbs have them: extended ones follow upon the others.
fn speed(plain: u8, extended: u8) -> u8 {
    match extended {
        0 => plain,
        extended => extended << 4,
    }
}
