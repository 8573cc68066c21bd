//! What the tests of management share: cables to ports of a device, the agent there, and the device
//! itself if it is the tester's own. The transport can be tested on the same cables.

use super::agent::Agent;
use super::cable::Cables;
use super::mad::RealMad;
use super::own::OwnDevice;
use super::rig::{RealRig, Way};
use super::wire::OnCable;
use super::witness::Witness;
use super::{Options, gid, info, named_agent, own_agent, port_state};
use crate::mad::{SM_LID, Tester};
use crate::protocol::AddressVector;
use crate::report::about::{Over, Reached, Tested};
use crate::run::Stop;
use anyhow::{Error, Result, anyhow, bail};
use ferroce_fabric::link::Cable;
use std::net::{Ipv4Addr, UdpSocket};
use std::rc::Rc;

/// What the tests of management share.
pub(super) struct Management {
    pub(super) agent: Agent,
    pub(super) cables: Cables,
    pub(super) witness: Rc<Witness>,
    pub(super) tested: Tested,
    _own: Option<OwnDevice>,
}

/// The tester's GID on a cable: link-local, of a GUID that nobody has.
const TESTER_GID: [u8; 16] = [
    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x1b, 0x7a, 0xff, 0xfe, 0, 0, 1,
];

/// Why there is no device to test. Nothing is asserted here, so it cannot fail.
fn failure(stop: Stop) -> Error {
    match stop {
        Stop::Broken(error) => error,
        Stop::Failed | Stop::NotApplicable(_) | Stop::Inconclusive(_) | Stop::Incomplete(_) => {
            anyhow!("the device's ports do not become active")
        }
    }
}

/// Ports of a device of the tester's own.
pub(super) const OWN_PORTS: u8 = 2;

impl Management {
    pub(super) fn new(options: &Options, own: bool, witness: Rc<Witness>) -> Result<Management> {
        let (agent, cables, own) = match own {
            true => Management::own(&options.cable)?,
            false => {
                let cables = Cables::new(options.cable.clone())?;
                (named_agent(options)?, cables, None)
            }
        };

        let mut agent = agent;
        let info = info(&mut agent)?;
        let mut management = Management {
            agent,
            cables,
            witness,
            tested: Tested {
                own: own.is_some(),
                agent: options.agent,
                ..Tested::new(&info)
            },
            _own: own,
        };
        let cables = management.cables.count();
        if cables > info.ports {
            bail!(
                "{} has {}, and {cables} cables",
                info.name,
                info.ports_in_words()
            );
        }

        management.cables.ready()?;

        // A link that comes up is not yet somebody who answers.
        let mut rig = management.mad()?;
        Tester::new(&mut rig).find().map_err(failure)?;
        drop(rig);
        for (port, cable) in (1..).zip(management.cables.all().to_vec()) {
            let gid = gid(&mut management.agent, port, 0)?.0.into();
            let over = Over::Cable { cable };
            management.tested.reached.push(Reached { port, gid, over });
        }
        Ok(management)
    }

    /// The MAD tester.
    pub(super) fn mad(&mut self) -> Result<RealMad<'_>> {
        RealMad::new(&mut self.agent, &self.cables, self.witness.clone())
    }

    /// The transport tester on the cable to a port, which becomes active as the MAD tester has it.
    pub(super) fn transport(&mut self, port: u8) -> Result<RealRig<'_>> {
        let mut rig = self.mad()?;
        Tester::new(&mut rig).initialize().map_err(failure)?;
        drop(rig);
        let state = port_state(&mut self.agent, port)?;
        let (device, _) = gid(&mut self.agent, port, 0)?;

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
        RealRig::new(&mut self.agent, Box::new(wire), way, self.witness.clone())
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
        Ok((own_agent(&own)?, near, Some(own)))
    }
}
