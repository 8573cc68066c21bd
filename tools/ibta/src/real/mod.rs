//! The device is a verbs device, real or ferroce's, and the tester reaches it over the wire.
//!
//! - `agent`: the connection to the agent, which plays the device's side; `stream`: its bytes;
//! - `roce`: the tester's end of RoCEv2; `cable`: its ends of cables to InfiniBand ports; `wire`:
//!   either, for packets of queue pairs;
//! - `rig`: wire and agent, for a test of the transport; `mad`: cables and agent, for a test of
//!   management;
//! - `own`: a ferroce device of the tester's own, where none is named;
//! - `transport`, `management`: which addresses or cables, and what tests share of either kind;
//! - `stamp`: when packets came; `witness`: whether the machine was there while one waited for
//!   them;
//! - this module: which device, which port, and what to say if there is none.

pub mod agent;
mod cable;
mod mad;
mod management;
pub mod own;
mod rig;
mod roce;
mod stamp;
mod stream;
mod transport;
mod wire;
mod witness;

use crate::catalog::Test;
use crate::protocol::{Command, DeviceInfo, PortState, Reply, refusal};
use crate::report::about::Tested;
use crate::rig::{Backend, MadRig, TransportRig};
use crate::run::Stop;
use agent::Agent;
use anyhow::{Context, Result, bail};
use ferroce_control::AddrSpec;
use ferroce_control::addr_spec::endpoint;
use ferroce_fabric::link::Cable;
use management::{Management, OWN_PORTS};
use own::OwnDevice;
use rig::RealRig;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process;
use std::rc::Rc;
use transport::Transport;
use witness::Witness;

/// Which device is tested, and from where.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// The device, as `ibv_devices` lists it [default: start a ferroce device for the purpose, and
    /// stop it again]
    #[arg(long, value_name = "NAME", conflicts_with = "agent")]
    pub device: Option<String>,
    /// The device's port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub port: u8,
    /// The tester's own address, at which there must be no RDMA device [default: one that leads to
    /// the agent, else a free loopback address]. A link-local one has its interface: fe80::1%eth0
    #[arg(long, value_name = "ADDRESS")]
    pub tester: Option<AddrSpec>,
    /// An agent on another host, or in another namespace, that was started by
    /// `ferroce-ibta agent --listen`
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = endpoint)]
    pub agent: Option<SocketAddr>,
    /// A cable to an InfiniBand port of the device, from the tester's end to the port's:
    /// 127.0.0.1:7201=127.0.0.1:7101. The first goes to port 1; repeat it for others. Without any
    /// the tests of management agents are for a device of the tester's own
    #[arg(long, value_name = "LOCAL=REMOTE")]
    pub cable: Vec<Cable>,
    /// Test the transport on the cable to the port too, and not over RoCE [default: if there are
    /// cables and no tester's address]
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
    /// The device, where none of the tests can be run on it.
    untested: Option<Tested>,
    /// Of this machine, once it was needed.
    witness: Option<Rc<Witness>>,
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
            untested: None,
            witness: None,
        }
    }

    fn witness(&mut self) -> Rc<Witness> {
        self.witness
            .get_or_insert_with(|| Rc::new(Witness::new()))
            .clone()
    }

    /// How many ports of the device the MAD tester has cables to; none if a device is named and no
    /// cable.
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

    /// Opens the device, whatever the tests are about and whether or not there are cables for them:
    /// what is wrong with names and addresses is known before the first test.
    ///
    /// # Errors
    /// No such device or port, no cable to it, nobody at the agent's address, an address or the end
    /// of a cable in use, an agent that does not answer, …
    pub fn prepare(&mut self, tests: &[Test]) -> Result<()> {
        let transport = !tests.iter().all(Test::is_of_management);
        if transport {
            self.prepare_transport()?;
        }

        let cables = self.mad_ports() > 0;
        if cables && tests.iter().any(Test::is_of_management) {
            self.prepare_mad()?;
        }

        // None of these tests can be run.
        if !transport && !cables {
            let info = info(&mut named_agent(&self.options)?)?;
            self.untested = Some(Tested {
                agent: self.options.agent,
                ..Tested::new(&info)
            });
        }
        Ok(())
    }

    /// The devices under test as they are now, and how their ports are reached.
    pub fn devices(&self) -> Vec<Tested> {
        let transport = self.transport.as_ref().map(|transport| &transport.tested);
        let management = self
            .management
            .as_ref()
            .map(|management| &management.tested);
        let mut devices: Vec<Tested> = Vec::new();
        for tested in [transport, management, self.untested.as_ref()]
            .into_iter()
            .flatten()
        {
            match devices.iter_mut().find(|known| known.is(tested)) {
                Some(known) => known.reached.extend(tested.reached.iter().cloned()),
                None => devices.push(tested.clone()),
            }
        }
        devices
    }

    /// Takes the tester's ends of the cables and starts or calls the agent.
    ///
    /// # Errors
    /// No such device, nobody at the agent's address, an end in use, …
    fn prepare_mad(&mut self) -> Result<()> {
        if self.management.as_ref().is_some_and(|m| m.agent.is_there()) {
            return Ok(());
        }
        if let Some(why) = &self.unmanaged {
            bail!("{why}");
        }

        self.management = None;
        let witness = self.witness();
        match Management::new(&self.options, self.is_own(), witness) {
            Ok(management) => self.management = Some(management),
            Err(error) => {
                self.unmanaged = Some(format!("{error:#}"));
                return Err(error);
            }
        }

        Ok(())
    }

    /// The MAD tester, with a link at every cable. Where there is none any more no other test waits
    /// for it.
    fn linked(&mut self) -> Result<&mut Management> {
        if let Some(Err(error)) = self.management.as_ref().map(|m| m.cables.ready()) {
            self.unmanaged = Some(format!("{error:#}"));
            self.management = None;
        }
        match &self.unmanaged {
            Some(why) => bail!("{why}"),
            None => self.management.as_mut().context("no MAD tester"),
        }
    }

    /// Finds the device, starts or calls its agent, and takes the tester's address: what can be
    /// wrong with these is known before the first test.
    ///
    /// # Errors
    /// No such device or port, nobody at the agent's address, an address in use, an agent that does
    /// not answer, …
    fn prepare_transport(&mut self) -> Result<()> {
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
        // An agent that was lost in a test is replaced once; where that fails too, no test waits
        // again.
        self.prepare_transport()?;
        if self.on_cable() {
            let port = self.options.port;
            return Ok(Box::new(self.linked()?.transport(port)?));
        }
        let witness = self.witness();
        let transport = self.transport.as_mut().context("no transport tester")?;
        let wire = Box::new(&mut transport.wire);
        let rig = RealRig::new(&mut transport.agent, wire, transport.way, witness)?;
        Ok(Box::new(rig))
    }

    // However many ports a test is about: whether there are cables to so many is looked at later.
    fn mad(&mut self, _ports: u8, _lanes: u8) -> Result<Box<dyn MadRig + '_>, Stop> {
        if self.mad_ports() == 0 {
            let why = "the MAD tester needs --cable to an InfiniBand port of the device";
            return Err(Stop::NotApplicable(why.to_owned()));
        }
        self.prepare_mad()?;
        Ok(Box::new(self.linked()?.mad()?))
    }
}

/// The agent of a device that is named, or that listens somewhere.
fn named_agent(options: &Options) -> Result<Agent> {
    if let Some(address) = options.agent {
        return Agent::connect(address);
    }
    let name = options.device.as_deref().context("no device is named")?;
    agent_of(name)
}

/// An agent of its own for a device of this host.
fn agent_of(name: &str) -> Result<Agent> {
    let mut command = process::Command::new(this_program()?);
    command.args(["agent", "--device", name]);
    Agent::spawn(command)
}

/// The agent of the tester's own device.
fn own_agent(device: &OwnDevice) -> Result<Agent> {
    let mut command = device.run(&this_program()?);
    command.args(["agent", "--device", own::NAME]);
    Agent::spawn(command)
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("finding this program")
}

/// Asks the agent what must succeed.
fn ask(agent: &mut Agent, command: &Command) -> Result<Reply> {
    match agent.call(command)? {
        Reply::Errno { code, what } => Err(refusal(&what, code)),
        reply => Ok(reply),
    }
}

fn info(agent: &mut Agent) -> Result<DeviceInfo> {
    match ask(agent, &Command::Device)? {
        Reply::Device(info) => Ok(info),
        reply => bail!("the agent says {reply:?} when asked for its device"),
    }
}

/// An entry of a port's GID table, and whether it is one of RoCE version 2.
fn gid(agent: &mut Agent, port: u8, index: u32) -> Result<([u8; 16], bool)> {
    match ask(agent, &Command::QueryGid { port, index })? {
        Reply::Gid { gid, roce_v2 } => Ok((gid, roce_v2)),
        reply => bail!("the agent says {reply:?} when asked for a GID"),
    }
}

fn port_state(agent: &mut Agent, port: u8) -> Result<PortState> {
    match ask(agent, &Command::QueryPort { port })? {
        Reply::Port(state) => Ok(state),
        reply => bail!("the agent says {reply:?} when asked for a port"),
    }
}
