//! The daemon as the host of InfiniBand ports: their sockets, and whom it tells of what happens there.

use std::time::Instant;

use ferroce_control::{CounterPage, DeviceInfo, Event, Key};
use ferroce_fabric::sma::{LinkCapabilities, NodeConfig, Port};
use ferroce_wire::mtu;
use ferroce_wire::smp::capability;

use crate::DaemonError;
use crate::daemon::Daemon;
use crate::group::Group;
use crate::ib::{Fabric, Happened};

/// What the hosts' port does beside what the agent itself knows of.
const CAPABILITIES: u32 = capability::IS_COMMUNICATION_MANAGEMENT_SUPPORTED;
/// Vendor and device, as `ibv_query_device` says.
const VENDOR: u32 = 0;
const DEVICE: u16 = 0;

impl Daemon {
    /// Opens the cables' ends and makes the node. One end that cannot be had is an error.
    pub(crate) fn open_cables(&mut self) -> Result<(), DaemonError> {
        let mut ends = Vec::new();
        for (index, cable) in self.settings.cables.clone().into_iter().enumerate() {
            let group = Group::open_cable(cable.local, self.settings.receive_buffer)?;
            let socket = group
                .socket_of_daemon()
                .map_err(DaemonError::os("duplicating a socket"))?;
            self.groups.push(group);
            self.watch_members(index, 0);
            ends.push((cable, socket));
        }
        self.info.ib_ports = ends.len() as u8;
        let granted = self.groups.iter().map(Group::granted_receive_buffer);
        self.info.rcvbuf = granted.min().unwrap_or(0);
        let config = config(&self.info, ends.len());
        self.info.sys_image_guid = self.info.node_guid;
        self.ib.fabric = Some(Fabric::new(config, ends, self.counting.own.clone()));
        self.ib_tick();
        Ok(())
    }

    /// Does what is due at the ports, and what follows.
    pub(crate) fn ib_tick(&mut self) {
        self.take_reports();
        if let Some(fabric) = &mut self.ib.fabric {
            fabric.tick();
            self.ib_settle();
            self.carry_mads();
        }
    }

    /// Handles what came to a port. `false`: this is no InfiniBand device.
    pub(crate) fn ib_receive(&mut self, group: usize) -> bool {
        // A subnet manager that asks is to see all.
        self.take_reports();
        let Some(fabric) = &mut self.ib.fabric else {
            return false;
        };
        fabric.receive(group as u8 + 1);
        self.ib_settle();
        self.carry_mads();
        self.counting.dirty = true;
        true
    }

    /// Tells the agent of packets with wrong keys that processes have had since the last time.
    pub(crate) fn take_reports(&mut self) {
        if self.ib.fabric.is_none() {
            return;
        }
        let totals = self.totals();
        let pages: Vec<CounterPage> = self
            .connections
            .values()
            .filter_map(|connection| Some(connection.claimed.as_ref()?.counters.clone()))
            .collect();
        let Some(fabric) = &mut self.ib.fabric else {
            return;
        };
        for (port, reported) in (1..=fabric.ports()).zip(&mut self.ib.reported) {
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

    /// Whom a port's subnet manager is, as of now.
    pub(crate) fn ib_update_sm(&mut self) {
        let Some(fabric) = &mut self.ib.fabric else {
            return;
        };
        for port in 1..=fabric.ports() {
            fabric.set_is_sm(port, self.umad.is_sm(port));
        }
        self.ib_settle();
    }

    /// Passes on what has happened at the ports.
    pub(crate) fn ib_settle(&mut self) {
        let mut events = Vec::new();
        while let Some(happened) = self
            .ib
            .fabric
            .as_mut()
            .map(Fabric::happened)
            .filter(|happened| !happened.is_empty())
        {
            for happened in happened {
                match happened {
                    Happened::Mad(came) => self.mad_came(&came),
                    Happened::Port(port, event) => events.push((port, event)),
                }
            }
        }
        let told = events
            .into_iter()
            .filter_map(|(port, event)| Some((port, event.verbs_number()?)));
        let told: Vec<_> = told.collect();
        if told.is_empty() {
            // A port that is trained, or armed, is no event, but others can see it.
            let ports = self.ib.state();
            if ports != self.ib.shown {
                self.ib.shown = ports;
                self.ib_show();
                self.ib_tell_rdma_cm();
            }
            return;
        }
        self.ib.shown = self.ib.state();
        tracing::debug!(?told, "the ports have changed");
        self.ib_show();
        for (port, event) in told {
            self.broadcast(Event::Port { port, event });
        }
        self.ib_tell_rdma_cm();
    }

    /// Brings the communication manager up to date with the ports.
    fn ib_tell_rdma_cm(&mut self) {
        self.ib.update_gids(&self.settings.ib_addrs);
        self.with_rdma_cm(|server, around| server.ports_changed(around));
    }

    /// Brings the image up to date with the ports.
    pub(crate) fn ib_show(&mut self) {
        let active = self
            .ib
            .fabric
            .as_ref()
            .is_some_and(|fabric| fabric.node().ports().any(Port::is_active));
        self.info.port_active = active;
        if let Err(error) = self.refresh_image() {
            tracing::error!(%error, "the sysfs image is out of date");
        }
    }

    /// When [`ib_tick`](Self::ib_tick) has something to do.
    pub(crate) fn ib_timeout(&self) -> Option<Instant> {
        self.ib.fabric.as_ref()?.next_timeout()
    }
}

fn config(info: &DeviceInfo, ports: usize) -> NodeConfig {
    let node = u64::from_be_bytes(info.node_guid);
    let guids: Vec<u64> = (1..=ports as u64).map(|n| node.wrapping_add(n)).collect();
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let description: String = format!("{host} {}", info.name).chars().take(63).collect();
    NodeConfig {
        vendor_id: VENDOR,
        device_id: DEVICE,
        description: truncated(description),
        link: LinkCapabilities {
            mtu: mtu::code(info.active_mtu),
            ..LinkCapabilities::default()
        },
        capability_mask: CAPABILITIES,
        ..NodeConfig::channel_adapter(node, &guids)
    }
}

/// At most 64 bytes.
fn truncated(mut text: String) -> String {
    while text.len() > 63 {
        text.pop();
    }
    text
}
