//! What the tests of the transport over RoCE share: the agent, the tester's end of the wire, and
//! how a port of the device is reached from an address of the tester's.

use super::agent::Agent;
use super::own::{self, OwnDevice};
use super::rig::Way;
use super::roce::{Ends, Roce};
use super::{Options, agent_of, gid, info, own_agent, port_state};
use crate::protocol::{AddressVector, DeviceInfo, PortState};
use crate::report::about::{Over, Reached, Tested};
use anyhow::{Context, Error, Result, bail};
use ferroce_wire::ROCE_V2_PORT;
use std::net::{IpAddr, SocketAddr};

/// What the tests of the transport share. The agent goes before the device.
pub(super) struct Transport {
    pub(super) agent: Agent,
    pub(super) wire: Roce,
    pub(super) way: Way,
    pub(super) tested: Tested,
    _own: Option<OwnDevice>,
}

impl Transport {
    pub(super) fn new(options: &Options) -> Result<Transport> {
        let (mut agent, own, tester) = device_side(options)?;
        let info = info(&mut agent)?;
        let port = options.port;
        if port > info.ports {
            bail!(
                "{} has {} and no port {port}",
                info.name,
                info.ports_in_words()
            );
        }

        let state = port_state(&mut agent, port)?;
        if !state.ethernet {
            bail!("port {port} of {} is no RoCE port", info.name);
        }
        if state.state != PORT_ACTIVE {
            bail!("port {port} of {} is not active", info.name);
        }

        let peer = agent.addresses().map(|(_, peer)| peer.ip());
        let (sgid_index, device) = source_gid(&mut agent, &info, port, &state, tester.ip(), peer)?;
        let way = Way {
            path: AddressVector {
                dgid: Some(gid_of(tester.ip())),
                sgid_index,
                hop_limit: 64,
                port,
                ..AddressVector::default()
            },
            port,
            mtu: state.active_mtu,
        };

        let tested = Tested {
            own: own.is_some(),
            agent: options.agent,
            reached: vec![Reached {
                port,
                gid: gid_of(device).into(),
                over: Over::Roce {
                    tester: tester.ip(),
                    device,
                },
            }],
            ..Tested::new(&info)
        };

        Ok(Transport {
            agent,
            wire: Roce::new(Ends { tester, device })?,
            way,
            tested,
            _own: own,
        })
    }
}

/// `IBV_PORT_ACTIVE`.
const PORT_ACTIVE: u32 = 4;

/// The agent, the device that was started for it, and where the tester is.
fn device_side(options: &Options) -> Result<(Agent, Option<OwnDevice>, SocketAddr)> {
    let tester = match &options.tester {
        Some(tester) => Some(tester.at_port(ROCE_V2_PORT).map_err(Error::msg)?),
        None => None,
    };

    if let Some(address) = options.agent {
        let agent = Agent::connect(address)?;
        let ours = agent.addresses().map(|(mut ours, _)| {
            ours.set_port(ROCE_V2_PORT);
            ours
        });
        let tester = tester.or(ours).context("no address for the tester")?;
        return Ok((agent, None, tester));
    }

    if let Some(name) = &options.device {
        let Some(tester) = tester else {
            bail!(
                "which address may the tester have? Say so with --tester: it must reach {name}, and no RDMA device may be there"
            );
        };
        return Ok((agent_of(name)?, None, tester));
    }

    let [device, free] = own::free_addresses()?;
    let own = OwnDevice::roce(device)?;
    let agent = own_agent(&own)?;
    let free = SocketAddr::new(free, ROCE_V2_PORT);
    Ok((agent, Some(own), tester.unwrap_or(free)))
}

/// The device's GID from which it reaches the tester: its index, and its address. Of several it is
/// that of the agent's own address, or else the one that has most in common with the tester's.
fn source_gid(
    agent: &mut Agent,
    info: &DeviceInfo,
    port: u8,
    state: &PortState,
    tester: IpAddr,
    agent_at: Option<IpAddr>,
) -> Result<(u8, IpAddr)> {
    let wanted = gid_of(tester);
    let mut best: Option<((bool, u32), u8, IpAddr)> = None;
    for index in 0..state.gid_tbl_len.min(256) {
        let (gid, roce_v2) = gid(agent, port, index)?;
        let address = address_of(gid);
        if !roce_v2 || address.is_ipv4() != tester.is_ipv4() || gid == [0; 16] {
            continue;
        }
        let common = (u128::from_be_bytes(gid) ^ u128::from_be_bytes(wanted)).leading_zeros();
        let likeness = (agent_at == Some(address), common);
        if best.is_none_or(|(most, ..)| likeness > most) {
            best = Some((likeness, index as u8, address));
        }
    }

    match best {
        Some((_, _, address)) if address == tester => {
            bail!(
                "{tester} is the address of {}: give the tester another",
                info.name
            )
        }
        Some((_, index, address)) => Ok((index, address)),
        None => bail!(
            "port {port} of {} has no RoCE v2 GID of the family of {tester}",
            info.name
        ),
    }
}

/// A GID of RoCE v2.
fn gid_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn address_of(gid: [u8; 16]) -> IpAddr {
    std::net::Ipv6Addr::from(gid).to_canonical()
}
