//! The device is a verbs device, real or ferroce's, and the tester reaches it over the wire.
//!
//! - `agent`: the connection to the agent, which plays the device's side;
//! - `roce`: the tester's end of RoCEv2; `cable`: its ends of cables to InfiniBand ports; `wire`: either, for packets of queue pairs;
//! - `rig`: wire and agent, for a test of the transport; `mad`: cables and agent, for a test of management;
//! - `own`: a ferroce device of the tester's own, where none is named;
//! - this module: which device, which port, which addresses, and what to say if there is none.

pub mod agent;
mod cable;
mod mad;
pub mod own;
mod rig;
mod roce;
mod wire;

use crate::mad::{SM_LID, Tester};
use crate::protocol::{AddressVector, Command, DeviceInfo, PortState, Reply};
use crate::rig::{Backend, MadRig, TransportRig};
use crate::run::Stop;
use agent::Agent;
use anyhow::{Context, Result, bail};
use cable::Cables;
use ferroce_fabric::link::Cable;
use mad::RealMad;
use own::OwnDevice;
use rig::{RealRig, Way};
use roce::{Ends, Roce};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process;
use wire::OnCable;

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
    /// A cable to an InfiniBand port of the device, from the tester's end to the port's: 127.0.0.1:7201=127.0.0.1:7101. The
    /// first goes to port 1; repeat it for others. Without any the tests of management agents are for a device of the tester's own
    #[arg(long, value_name = "LOCAL=REMOTE")]
    pub cable: Vec<Cable>,
    /// Test the transport on the cable to the port too, and not over RoCE [default: if there are cables and no tester's address]
    #[arg(long, conflicts_with = "tester")]
    pub infiniband: bool,
}

/// Rigs on a real device.
pub struct RealBackend {
    options: Options,
    /// The transport tester, once it was needed.
    transport: Option<Transport>,
    /// Why there is none, after it was tried.
    given_up: Option<String>,
    /// The MAD tester, once it was needed.
    management: Option<Management>,
    /// Why there is none, after it was tried.
    unmanaged: Option<String>,
}

/// What the tests of management share.
struct Management {
    agent: Agent,
    cables: Cables,
    _own: Option<OwnDevice>,
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
            management: None,
            unmanaged: None,
        }
    }

    /// How many ports of the device the MAD tester has cables to; none if a device is named and no cable.
    pub fn mad_ports(&self) -> u8 {
        match self.options.cable.len() {
            0 if self.is_own() => OWN_PORTS,
            0 => 0,
            cables => u8::try_from(cables).unwrap_or(u8::MAX),
        }
    }

    /// Whether the transport is tested on a cable.
    fn on_cable(&self) -> bool {
        let options = &self.options;
        options.infiniband || !options.cable.is_empty() && options.tester.is_none()
    }

    fn is_own(&self) -> bool {
        self.options.device.is_none() && self.options.agent.is_none()
    }

    /// Takes the tester's ends of the cables and starts or calls the agent.
    ///
    /// # Errors
    /// No such device, nobody at the agent's address, an end in use, …
    pub fn prepare_mad(&mut self) -> Result<()> {
        if self.management.as_ref().is_some_and(|m| m.agent.is_there()) {
            return Ok(());
        }
        if let Some(why) = &self.unmanaged {
            bail!("{why}");
        }
        self.management = None;
        match Management::new(&self.options, self.is_own()) {
            Ok(management) => self.management = Some(management),
            Err(error) => {
                self.unmanaged = Some(format!("{error:#}"));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Finds the device, starts or calls its agent, and takes the tester's address: what can be wrong with these is known before
    /// the first test.
    ///
    /// # Errors
    /// No such device or port, nobody at the agent's address, an address in use, an agent that does not answer, …
    pub fn prepare_transport(&mut self) -> Result<()> {
        if self.on_cable() {
            return match self.mad_ports() {
                ports if ports >= self.options.port => self.prepare_mad(),
                _ => bail!(
                    "no cable leads to port {}: add --cable LOCAL=REMOTE",
                    self.options.port
                ),
            };
        }
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
        if self.on_cable() {
            let management = self.management.as_mut().context("no cables")?;
            return Ok(Box::new(management.transport(self.options.port)?));
        }
        let transport = self.transport.as_mut().context("no transport tester")?;
        let wire = Box::new(&mut transport.wire);
        let rig = RealRig::new(&mut transport.agent, wire, transport.way)?;
        Ok(Box::new(rig))
    }

    // However many ports a test is about: it says itself if there are too few.
    fn mad(&mut self, _ports: u8, _lanes: u8) -> Result<Box<dyn MadRig + '_>, Stop> {
        if self.mad_ports() == 0 {
            let why = "the MAD tester needs --cable to an InfiniBand port of the device";
            return Err(Stop::NotApplicable(why.to_owned()));
        }
        self.prepare_mad()?;
        let management = self.management.as_mut().context("no MAD tester")?;
        let rig = RealMad::new(&mut management.agent, &management.cables)?;
        Ok(Box::new(rig))
    }
}

/// The tester's GID on a cable: link-local, of a GUID that nobody has.
const TESTER_GID: [u8; 16] = [
    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x1b, 0x7a, 0xff, 0xfe, 0, 0, 1,
];

/// Ports of a device of the tester's own.
const OWN_PORTS: u8 = 2;

impl Management {
    fn new(options: &Options, own: bool) -> Result<Management> {
        let (agent, cables, own) = match own {
            true => Management::own(&options.cable)?,
            false => {
                let cables = Cables::new(options.cable.clone())?;
                (named_agent(options)?, cables, None)
            }
        };
        let mut management = Management {
            agent,
            cables,
            _own: own,
        };
        let info = info(&mut management.agent)?;
        let cables = management.cables.count();
        if cables > info.ports {
            bail!(
                "{} has {}, and {cables} cables",
                info.name,
                ports(info.ports)
            );
        }
        management.cables.ready()?;
        Ok(management)
    }

    /// The transport tester on the cable to a port, which becomes active as the MAD tester has it.
    fn transport(&mut self, port: u8) -> Result<RealRig<'_>> {
        let mut rig = RealMad::new(&mut self.agent, &self.cables)?;
        match Tester::new(&mut rig).initialize() {
            Ok(()) => {}
            Err(Stop::Broken(error)) => return Err(error),
            Err(_) => bail!("port {port} does not become active"),
        }
        drop(rig);
        let state = port_state(&mut self.agent, port)?;
        let device = match ask(&mut self.agent, &Command::QueryGid { port, index: 0 })? {
            Reply::Gid { gid, .. } => gid,
            reply => bail!("the agent says {reply:?} when asked for a GID"),
        };
        let way = Way {
            path: AddressVector {
                dgid: Some(TESTER_GID),
                hop_limit: 64,
                dlid: SM_LID,
                port,
                ..AddressVector::default()
            },
            port,
            mtu: state.active_mtu,
        };
        let wire = OnCable::new(&self.cables, port, TESTER_GID, device);
        RealRig::new(&mut self.agent, Box::new(wire), way)
    }

    /// A device at the other ends of these cables, or of cables at any free ports.
    fn own(cables: &[Cable]) -> Result<(Agent, Cables, Option<OwnDevice>)> {
        let (near, far) = match cables {
            [] => {
                let free = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
                let near: Vec<UdpSocket> =
                    (0..OWN_PORTS).map(|_| free()).collect::<Result<_, _>>()?;
                // Let go of just before the device takes them.
                let far: Vec<UdpSocket> =
                    (0..OWN_PORTS).map(|_| free()).collect::<Result<_, _>>()?;
                let mut made = Vec::new();
                for (near, far) in near.iter().zip(&far) {
                    made.push(Cable {
                        local: near.local_addr()?,
                        remote: far.local_addr()?,
                    });
                }
                let far = made.clone();
                (Cables::with_sockets(made, near)?, far)
            }
            named => (Cables::new(named.to_vec())?, named.to_vec()),
        };
        let theirs: Vec<String> = far
            .iter()
            .map(|cable| format!("{}={}", cable.remote, cable.local))
            .collect();
        let own = OwnDevice::cabled(&theirs)?;
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = own.run(&program);
        command.args(["agent", "--device", own::NAME]);
        Ok((Agent::spawn(command)?, near, Some(own)))
    }
}

/// The agent of a device that is named, or that listens somewhere.
fn named_agent(options: &Options) -> Result<Agent> {
    if let Some(address) = options.agent {
        return Agent::connect(address);
    }
    let name = options.device.as_deref().context("no device is named")?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = process::Command::new(program);
    command.args(["agent", "--device", name]);
    Agent::spawn(command)
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
