//! The device is a verbs device, real or ferroce's, and the tester reaches it over the wire.
//!
//! - `agent`: the connection to the agent, which plays the device's side;
//! - `roce`: the tester's end of RoCEv2; `rig`: both together, for a test;
//! - `own`: a ferroce device of the tester's own, where none is named;
//! - this module: which device, which port, which addresses, and what to say if there is none.

pub mod agent;
pub mod own;
mod rig;
mod roce;

use crate::protocol::{AddressVector, Command, DeviceInfo, PortState, Reply};
use crate::rig::{Backend, MadRig, TransportRig};
use agent::Agent;
use anyhow::{Context, Result, bail};
use own::OwnDevice;
use rig::{RealRig, Way};
use roce::{Ends, Roce};
use std::net::{IpAddr, SocketAddr};
use std::process;

/// Which device is tested, and from where.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// The device, as `ibv_devices` lists it [default: start a ferroce device for the purpose, and stop it again]
    #[arg(long, value_name = "NAME", conflicts_with = "agent")]
    pub device: Option<String>,
    /// The device's port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub port: u8,
    /// The tester's own address, at which there must be no RDMA device [default: one that leads to the agent, else a
    /// free loopback address]
    #[arg(long, value_name = "ADDRESS")]
    pub tester: Option<IpAddr>,
    /// An agent on another host, or in another namespace, that was started by `ferroce-ibta agent --listen`
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub agent: Option<SocketAddr>,
}

/// Rigs on a real device.
pub struct RealBackend {
    options: Options,
    /// The transport tester, once it was needed.
    transport: Option<Transport>,
    /// Why there is none, after it was tried.
    given_up: Option<String>,
}

/// What the tests of the transport share. The agent goes before the device.
struct Transport {
    agent: Agent,
    wire: Roce,
    way: Way,
    _own: Option<OwnDevice>,
}

impl RealBackend {
    /// A backend; nothing is started before it is needed.
    pub fn new(options: Options) -> RealBackend {
        RealBackend {
            options,
            transport: None,
            given_up: None,
        }
    }

    /// Finds the device, starts or calls its agent, and takes the tester's address: what can be wrong with these is known before
    /// the first test.
    ///
    /// # Errors
    /// No such device or port, nobody at the agent's address, an address in use, an agent that does not answer, …
    pub fn prepare_transport(&mut self) -> Result<()> {
        if self.transport.as_ref().is_some_and(|t| t.agent.is_there()) {
            return Ok(());
        }
        if let Some(why) = &self.given_up {
            bail!("{why}");
        }
        self.transport = None;
        match Transport::new(&self.options) {
            Ok(transport) => self.transport = Some(transport),
            Err(error) => {
                self.given_up = Some(format!("{error:#}"));
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Backend for RealBackend {
    fn transport(&mut self) -> Result<Box<dyn TransportRig + '_>> {
        // An agent that was lost in a test is replaced once; where that fails too, no test waits again.
        self.prepare_transport()?;
        let transport = self.transport.as_mut().context("no transport tester")?;
        let rig = RealRig::new(&mut transport.agent, &mut transport.wire, transport.way)?;
        Ok(Box::new(rig))
    }

    fn mad(&mut self, ports: u8, _lanes: u8) -> Result<Box<dyn MadRig + '_>> {
        bail!("there is no MAD tester with {ports} cables to real devices yet");
    }
}

impl Transport {
    fn new(options: &Options) -> Result<Transport> {
        let (mut agent, own, tester) = device_side(options)?;
        let info = info(&mut agent)?;
        let port = options.port;
        if port > info.ports {
            bail!("{} has {} and no port {port}", info.name, ports(info.ports));
        }
        let state = port_state(&mut agent, port)?;
        if !state.ethernet {
            bail!("port {port} of {} is no RoCE port", info.name);
        }
        if state.state != PORT_ACTIVE {
            bail!("port {port} of {} is not active", info.name);
        }
        let peer = agent.addresses().map(|(_, peer)| peer);
        let (sgid_index, device) = source_gid(&mut agent, &info, port, &state, tester, peer)?;
        let way = Way {
            path: AddressVector {
                dgid: Some(gid_of(tester)),
                sgid_index,
                hop_limit: 64,
                port,
                ..AddressVector::default()
            },
            port,
            mtu: state.active_mtu,
        };
        Ok(Transport {
            agent,
            wire: Roce::new(Ends { tester, device })?,
            way,
            _own: own,
        })
    }
}

/// `IBV_PORT_ACTIVE`.
const PORT_ACTIVE: u32 = 4;

/// The agent, the device that was started for it, and the tester's address.
fn device_side(options: &Options) -> Result<(Agent, Option<OwnDevice>, IpAddr)> {
    if let Some(address) = options.agent {
        let agent = Agent::connect(address)?;
        let tester = options.tester.or(agent.addresses().map(|(ours, _)| ours));
        return Ok((agent, None, tester.context("no address for the tester")?));
    }
    let program = std::env::current_exe().context("finding this program")?;
    if let Some(name) = &options.device {
        let Some(tester) = options.tester else {
            bail!(
                "which address may the tester have? Say so with --tester: it must reach {name}, and no RDMA device may be there"
            );
        };
        let mut command = process::Command::new(program);
        command.args(["agent", "--device", name]);
        return Ok((Agent::spawn(command)?, None, tester));
    }
    let [device, free] = own::free_addresses()?;
    let own = OwnDevice::roce(device)?;
    let mut command = own.run(&program);
    command.args(["agent", "--device", own::NAME]);
    let agent = Agent::spawn(command)?;
    Ok((agent, Some(own), options.tester.unwrap_or(free)))
}

/// Asks the agent what must succeed.
fn ask(agent: &mut Agent, command: &Command) -> Result<Reply> {
    match agent.call(command)? {
        Reply::Errno { code, what } => {
            bail!("{what}: {}", std::io::Error::from_raw_os_error(code))
        }
        reply => Ok(reply),
    }
}

fn info(agent: &mut Agent) -> Result<DeviceInfo> {
    match ask(agent, &Command::Device)? {
        Reply::Device(info) => Ok(info),
        reply => bail!("the agent says {reply:?} when asked for its device"),
    }
}

fn port_state(agent: &mut Agent, port: u8) -> Result<PortState> {
    match ask(agent, &Command::QueryPort { port })? {
        Reply::Port(state) => Ok(state),
        reply => bail!("the agent says {reply:?} when asked for a port"),
    }
}

/// The device's GID from which it reaches the tester: its index, and its address. Of several it is that of the agent's own
/// address, or else the one that has most in common with the tester's.
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
        let (gid, roce_v2) = match ask(agent, &Command::QueryGid { port, index })? {
            Reply::Gid { gid, roce_v2 } => (gid, roce_v2),
            reply => bail!("the agent says {reply:?} when asked for a GID"),
        };
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

fn ports(count: u8) -> String {
    match count {
        1 => "one port".to_owned(),
        n => format!("{n} ports"),
    }
}
