//! What programs of the simulated node are told and may ask.

use super::attributes::{EINVAL, EOPNOTSUPP};
use super::node::{Actions, MadSim};
use crate::protocol::{Command, PortState, Reply};
use ferroce_fabric::sma::Port;
use ferroce_wire::mtu;

impl MadSim {
    /// Carries out a command of the device side.
    pub(super) fn carry_out(&mut self, command: &Command) -> Reply {
        let refuse = |code, what: &str| Reply::Errno {
            code,
            what: what.to_owned(),
        };

        match *command {
            Command::Reset => {
                self.events.clear();
                Reply::Done
            }
            Command::Device => Reply::Device(self.identity.clone()),
            Command::QueryPort { port } => match self.node.port(port) {
                Some(port) => Reply::Port(port_state(port)),
                None => refuse(EINVAL, "ibv_query_port"),
            },
            Command::QueryPkey { port, index } => {
                let keys = self.node.port(port).map(Port::p_keys);
                match keys.and_then(|keys| keys.get(usize::from(index))) {
                    Some(pkey) => Reply::Pkey { pkey: *pkey },
                    None => refuse(EINVAL, "ibv_query_pkey"),
                }
            }
            Command::QueryGid { port, index } => {
                let Some(port) = self.node.port(port) else {
                    return refuse(EINVAL, "ibv_query_gid");
                };

                let mut gids = port.gids();
                let gid = gids.find(|(at, _)| *at as u32 == index).map(|(_, gid)| gid);
                match gid {
                    Some(gid) => Reply::Gid {
                        gid,
                        roce_v2: false,
                    },
                    None if index < port.guids().len() as u32 => Reply::Gid {
                        gid: [0; 16],
                        roce_v2: false,
                    },
                    None => refuse(EINVAL, "ibv_query_gid"),
                }
            }
            Command::IsSm { port, on } => {
                let (time, mut out) = (self.time(), Actions::default());
                self.node.set_is_sm(time, port, on, &mut out);
                self.settle(out);
                Reply::Done
            }
            Command::Events { within } => {
                if self.events.is_empty() {
                    self.advance(self.now + within);
                }
                Reply::Events {
                    events: self.events.drain(..).collect(),
                }
            }
            _ => refuse(EOPNOTSUPP, "the simulated node"),
        }
    }
}

fn port_state(port: &Port) -> PortState {
    let info = port.info();
    PortState {
        state: info.port_state.into(),
        active_mtu: mtu::bytes(info.neighbor_mtu).unwrap_or(0),
        gid_tbl_len: port.guids().len() as u32,
        pkey_tbl_len: port.p_keys().len() as u16,
        lid: info.lid,
        sm_lid: info.master_sm_lid,
        sm_sl: info.master_sm_sl,
        lmc: info.lmc,
        ethernet: false,
        capabilities: info.capability_mask,
        subnet_timeout: info.subnet_timeout,
        bad_pkeys: info.p_key_violations.into(),
        bad_qkeys: info.q_key_violations.into(),
        max_mtu: mtu::bytes(info.mtu_cap).unwrap_or(0),
        phys_state: info.port_physical_state,
        max_vl_num: info.vl_cap,
        active_width: info.link_width_active,
        init_type_reply: info.init_type_reply,
    }
}
