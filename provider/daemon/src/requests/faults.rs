//! What is asked about faults, and the answers.

use std::time::Instant;

use ferroce_control::ClientStatus;
use ferroce_control::faults::{Action, Fault, FaultList, MAX_FAULTS};
use ferroce_control::protocol::Reply;

use super::{Answer, Errno, refuse};
use crate::adapter::Adapter;
use crate::clients::Clients;

impl Clients {
    /// Adds a fault.
    pub(super) fn add_fault(&mut self, fault: Fault, adapter: &mut Adapter) -> Answer {
        if let Err(unfit) = fault.check() {
            return refuse(Errno::INVAL, unfit.to_string());
        }
        if let Err(why) = possible(&fault, adapter) {
            return refuse(Errno::INVAL, why);
        }

        tracing::info!(what = %fault.action, "a client adds a fault");
        match adapter.faults.add(fault, Instant::now()) {
            Some(id) => {
                self.faults_changed = true;
                Reply::FaultAdded { id }.into()
            }
            None => refuse(
                Errno::NOSPC,
                format!("there are {MAX_FAULTS} faults, and can be no more: `ferroce fault clear`"),
            ),
        }
    }

    /// Ends a fault, or all.
    pub(super) fn clear_faults(&mut self, id: Option<u32>, adapter: &mut Adapter) -> Answer {
        self.faults_changed = true;
        match (adapter.faults.clear(id), id) {
            (false, Some(id)) => refuse(Errno::NOENT, format!("there is no fault {id}")),
            _ => Reply::Ok.into(),
        }
    }

    /// All faults, and the programs that do not go by them yet.
    pub(super) fn list_faults(&self, adapter: &Adapter) -> Answer {
        let now = Instant::now();
        let pages = adapter.claims.iter();
        let pages = pages.map(|(_, claimed)| &claimed.counters);
        let pages: Vec<_> = pages.chain([&adapter.counting.own]).collect();
        let behind = |slot: Option<u8>| {
            let claimed = slot.and_then(|slot| adapter.claims.of(slot));
            claimed.is_some_and(|claimed| {
                claimed.counters.faults_taken() < adapter.faults.generation()
            })
        };

        let mut behind: Vec<ClientStatus> = self
            .connections
            .iter()
            .filter(|(_, session)| behind(session.state.slot))
            .map(|(_, session)| session.state.status(now))
            .collect();
        behind.sort_by_key(|client| client.slot);
        Reply::Faults(FaultList {
            faults: adapter.faults.list(pages.iter().copied(), now),
            behind,
        })
        .into()
    }

    /// The faults of a program that is attached.
    pub(super) fn faults_of(&self, id: u64, adapter: &Adapter) -> Answer {
        let session = self.connections.get(id);
        match session.map(|session| &session.state) {
            Some(program) if program.slot.is_some() => {
                let mut given = adapter
                    .faults
                    .of(&program.name, program.pid, Instant::now());
                // The cables of InfiniBand ports are cut instead.
                given.faults.retain(|given| {
                    !adapter.is_ib() || !matches!(given.fault.action, Action::PortDown { .. })
                });
                Reply::MyFaults(given).into()
            }
            _ => refuse(Errno::INVAL, "attach before asking for faults"),
        }
    }
}

/// Whether this device can have such a fault.
fn possible(fault: &Fault, adapter: &Adapter) -> Result<(), String> {
    match fault.action {
        Action::PortDown { port } if port == 0 || port > adapter.ports() => Err(format!(
            "there is no port {port}: the device has {}",
            adapter.ports()
        )),
        Action::GidRemove { .. } if adapter.is_ib() => Err(
            "the GIDs of an InfiniBand port are the subnet manager's, and do not go one by one"
                .to_owned(),
        ),
        Action::GidRemove { index } if adapter.gids.entry(index).is_none() => Err(format!(
            "GID {index} is not in use: `ferroce status` lists those that are"
        )),
        Action::CmReject { reason: 0 } => Err(
            "reasons of the connection manager count from 1; 28 is the program's own".to_owned(),
        ),
        _ => Ok(()),
    }
}
