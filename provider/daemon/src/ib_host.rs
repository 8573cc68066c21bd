//! The device as the host of InfiniBand ports: their sockets, and what is to be done at them.

use std::time::Instant;

use ferroce_control::{DeviceInfo, capabilities};
use ferroce_fabric::sma::{LinkCapabilities, NodeConfig, Port};
use ferroce_wire::mtu;
use ferroce_wire::smp::capability;

use crate::DaemonError;
use crate::adapter::Adapter;
use crate::group::Group;
use crate::ib::Fabric;

/// What the hosts' port does beside what the agent itself knows of.
const CAPABILITIES: u32 = capability::IS_COMMUNICATION_MANAGEMENT_SUPPORTED;
/// No part that anybody knows: of one whose number it knows, as is the part number that verbs give
/// (4119), OpenSM asks for attributes that only the vendor's devices have.
const DEVICE: u16 = 0;

impl Adapter {
    /// Opens the cables' ends and makes the node. One end that cannot be had is an error.
    pub(crate) fn open_cables(&mut self) -> Result<(), DaemonError> {
        let mut ends = Vec::new();
        for cable in self.settings.cables.clone() {
            let group = Group::open_cable(cable.local, self.settings.receive_buffer)?;
            let socket = group
                .socket_of_daemon()
                .map_err(DaemonError::os("duplicating a socket"))?;
            let index = self.groups.add(group);
            self.watch_members(index, 0);
            ends.push((cable, socket));
        }

        self.info.ib_ports = ends.len() as u8;
        self.info.rcvbuf = self.groups.granted_receive_buffer().unwrap_or(0);
        let config = config(&self.info, self.description.text(), ends.len());
        self.info.sys_image_guid = self.info.node_guid;
        let fabric = Fabric::new(config, ends, self.counting.own.clone());
        self.ib.fabric = Some(fabric.watched_by(self.captures.tap().clone()));
        self.ib_tick(Instant::now());
        Ok(())
    }

    /// Does what is due at the ports.
    pub(crate) fn ib_tick(&mut self, now: Instant) {
        if self.ib.next_timeout().is_some_and(|at| at <= now) {
            self.take_reports();
            if let Some(fabric) = &mut self.ib.fabric {
                fabric.tick();
            }
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
        self.counting.dirty = true;
        true
    }

    /// Takes notice of what has become of the ports. Returns whether others can see a difference.
    pub(crate) fn ib_refresh(&mut self) -> bool {
        let ports = self.ib.state();
        if ports == self.ib.shown {
            return false;
        }
        self.ib.shown = ports;
        self.ib.update_gids(&self.settings.ib_addrs);
        let fabric = self.ib.fabric.as_ref();
        self.info.port_active =
            fabric.is_some_and(|fabric| fabric.node().ports().any(Port::is_active));
        true
    }
}

fn config(info: &DeviceInfo, description: &str, ports: usize) -> NodeConfig {
    let node = u64::from_be_bytes(info.node_guid);
    let guids: Vec<u64> = (1..=ports as u64).map(|n| node.wrapping_add(n)).collect();
    NodeConfig {
        // As `ibv_query_device` says.
        vendor_id: capabilities::VENDOR_ID,
        device_id: DEVICE,
        revision: capabilities::HW_VER,
        description: description.to_owned(),
        link: LinkCapabilities {
            mtu: mtu::code(info.active_mtu),
            ..LinkCapabilities::default()
        },
        capability_mask: CAPABILITIES,
        ..NodeConfig::channel_adapter(node, &guids)
    }
}
