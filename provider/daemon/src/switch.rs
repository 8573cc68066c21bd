//! A switch as a process: ports with cables, a management agent, and packets passed on by their
//! destination LIDs.
//!
//! It has no programs of its own: no runtime directory, no device, no umad. A subnet manager
//! elsewhere on the fabric configures it.

use std::time::Instant;

use ferroce_control::CounterPage;
use ferroce_fabric::gsi;
use ferroce_fabric::link::Cable;
use ferroce_fabric::pma::Pma;
use ferroce_fabric::sma::{NodeConfig, Port};
use ferroce_wire::mad::{Mad, MadHeader};

use crate::DaemonError;
use crate::clock::Clock;
use crate::device;
use crate::group::Group;
use crate::ib::{Fabric, Happened};
use crate::mads::Incoming;
use crate::performance::Shown;
use crate::poller::{Poller, Token};
use crate::signals::Signals;
use crate::totals::Totals;

/// What a switch is made from.
#[derive(Clone, Debug)]
pub struct SwitchSettings {
    /// How many ports it has, 1 to 254. Those beyond the cables stay down.
    pub ports: u8,
    /// The cables, from port 1 on.
    pub cables: Vec<Cable>,
    /// Its name, at most 64 bytes.
    pub name: String,
    /// Bytes to ask for as each socket's receive buffer.
    pub receive_buffer: usize,
}

impl SwitchSettings {
    /// Whether they go together.
    pub fn check(&self) -> Result<(), DaemonError> {
        let (ports, cables) = (self.ports, self.cables.len());
        if !(1..=254).contains(&ports) || cables > usize::from(ports) {
            return Err(DaemonError::Setting(format!(
                "a switch has 1 to 254 ports, and a cable at each at most: {ports} ports and {cables} cables do not fit"
            )));
        }
        if self.name.len() > 64 {
            return Err(DaemonError::Setting(format!(
                "`{}` is longer than the 64 bytes of a node description",
                self.name
            )));
        }
        Ok(())
    }
}

/// A running switch.
#[derive(Debug)]
pub struct Switch {
    fabric: Fabric,
    pma: Pma,
    poller: Poller,
    /// The agents'.
    clock: Clock,
    /// The ends of the cables, held for as long as it runs.
    _ends: Vec<Group>,
}

impl Switch {
    /// Opens the cables' ends. One that cannot be had is an error.
    pub fn start(settings: SwitchSettings) -> Result<Self, DaemonError> {
        settings.check()?;
        let SwitchSettings {
            ports,
            cables,
            name,
            receive_buffer,
        } = settings;

        let poller = Poller::new().map_err(DaemonError::os("creating an epoll"))?;
        let (mut groups, mut ends) = (Vec::new(), Vec::new());
        for (index, cable) in cables.iter().enumerate() {
            let group = Group::open_cable(cable.local, receive_buffer)?;
            let socket = group
                .socket_of_daemon()
                .map_err(DaemonError::os("duplicating a socket"))?;
            let token = Token::Slot {
                group: index,
                slot: 0,
            };
            poller
                .add(&socket, token)
                .map_err(DaemonError::os("watching a socket"))?;
            groups.push(group);
            ends.push((*cable, socket));
        }

        let text: Vec<String> = cables.iter().map(Cable::to_string).collect();
        let guid = device::made_up(format!("switch\n{name}\n{}", text.join("\n")).as_bytes());
        let config = NodeConfig {
            description: name,
            ..NodeConfig::switch(u64::from_be_bytes(guid), ports)
        };

        tracing::info!(ports, cables = text.join(" "), "switching");
        Ok(Self {
            fabric: Fabric::new(config, ends, CounterPage::private()?),
            pma: Pma::new(0, ports),
            poller,
            clock: Clock::start(),
            _ends: groups,
        })
    }

    /// Switches until one of `signals` comes.
    pub fn run(mut self, signals: &Signals) -> Result<(), DaemonError> {
        self.poller
            .add(signals, Token::Signals)
            .map_err(DaemonError::os("watching for signals"))?;

        loop {
            self.fabric.tick();
            self.settle();
            let now = Instant::now();
            let timeout = self
                .next_timeout()
                .map(|at| at.saturating_duration_since(now));
            let ready = self
                .poller
                .wait(timeout)
                .map_err(DaemonError::os("waiting for packets"))?;

            for ready in ready {
                match ready.token {
                    Token::Slot { group, .. } => {
                        self.fabric.receive(group as u8 + 1);
                        self.settle();
                    }
                    _ => {
                        self.fabric.leave();
                        return Ok(());
                    }
                }
            }

            let time = self.clock.now();
            if self.pma.next_timeout().is_some_and(|at| at <= time) {
                let shown = self.performance();
                self.pma.handle_timeout(time, &shown);
            }
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let pma = self.pma.next_timeout();
        let pma = pma.map(|at| self.clock.instant(at));
        self.fabric.next_timeout().into_iter().chain(pma).min()
    }

    /// Answers what has come to the switch itself.
    fn settle(&mut self) {
        for happened in self.fabric.happened() {
            if let Happened::Mad(incoming) = happened {
                self.answer(&incoming);
            }
        }
    }

    fn answer(&mut self, incoming: &Incoming) {
        let mut served = Served {
            switch: self,
            incoming,
        };
        if let Some(mad) = gsi::serve(incoming.qpn, &incoming.mad, &mut served) {
            self.fabric.send_gmp(&incoming.answer(mad));
        }
    }

    fn performance(&self) -> Shown {
        let ports = (1..=self.fabric.ports()).map(|port| {
            let downed = self.fabric.node().port(port).map_or(0, Port::link_downed);
            (self.fabric.counts(port), downed)
        });
        Shown {
            sums: Totals::default(),
            ports: ports.collect(),
        }
    }
}

/// The agents of the switch that are asked about a MAD. It has no programs, nor connections.
struct Served<'a> {
    switch: &'a mut Switch,
    incoming: &'a Incoming,
}

impl gsi::Services for Served<'_> {
    fn performance(&mut self, _: &MadHeader) -> Option<Mad> {
        let shown = self.switch.performance();
        let time = self.switch.clock.now();
        self.switch.pma.receive(time, &self.incoming.mad, &shown)
    }
}
