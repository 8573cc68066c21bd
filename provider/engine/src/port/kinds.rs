//! The ports that a device has, for all but packets: there is one on an Ethernet, or there are some
//! with cables and LIDs.

use std::sync::Arc;

use ferroce_control::IbPort;
use ferroce_wire::smp::is_multicast_lid;

#[cfg(any(test, feature = "in-process"))]
use super::in_process;
use crate::error::{Error, Result};
use crate::port::ib::{self, Port};
use crate::port::mgid;

pub(crate) enum Ports {
    /// Port 1, on an Ethernet.
    Ethernet(Medium),
    /// Ports of an InfiniBand device, of which the daemon tells.
    Infiniband(Vec<Arc<Port>>),
}

/// How an Ethernet port reaches others.
pub(crate) enum Medium {
    /// By sockets, and through memory to programs of the same device.
    Sockets,
    /// It is tied to a device of this very program.
    #[cfg(any(test, feature = "in-process"))]
    InProcess(in_process::End),
}

/// What a multicast group is over the device's kind of ports.
pub(crate) enum Carrier {
    /// IP groups.
    Ip(mgid::Groups),
    /// Copies from the daemon.
    Copies,
}

/// The key of the one entry that the P_Key table of an Ethernet port has.
const DEFAULT_P_KEY: u16 = 0xffff;

impl Ports {
    /// The ports with cables that the daemon tells of; none of a RoCE device.
    pub(crate) fn new(ports: Vec<IbPort>) -> Ports {
        let mut ports = ports.into_iter().map(|port| Arc::new(Port::new(port)));
        match ports.len() {
            0 => Ports::Ethernet(Medium::Sockets),
            _ => Ports::Infiniband(ports.by_ref().collect()),
        }
    }

    /// The ports that have cables.
    pub(crate) fn with_cables(&self) -> &[Arc<Port>] {
        match self {
            Ports::Ethernet(_) => &[],
            Ports::Infiniband(ports) => ports,
        }
    }

    /// Whether packets come by sockets.
    pub(crate) fn has_sockets(&self) -> bool {
        !matches!(self, Ports::Ethernet(medium) if !matches!(medium, Medium::Sockets))
    }

    /// Whether there is a port of that number.
    pub(crate) fn has(&self, number: u8) -> bool {
        match self {
            Ports::Ethernet(_) => number == 1,
            Ports::Infiniband(ports) => ib::find(ports, number).is_ok(),
        }
    }

    /// The key of an entry of a port's P_Key table.
    pub(crate) fn p_key(&self, number: u8, index: u16) -> Result<u16> {
        match self {
            Ports::Ethernet(_) if index == 0 => Ok(DEFAULT_P_KEY),
            Ports::Ethernet(_) => Err(Error::Invalid("pkey_index: the table has one entry")),
            Ports::Infiniband(ports) => ib::find(ports, number)?.p_key(index),
        }
    }

    /// What carries a multicast group.
    pub(crate) fn carrier(&self, gid: [u8; 16], lid: u16) -> Result<Carrier> {
        let absent = Error::Invalid("the GID is not a multicast GID");
        match self {
            Ports::Ethernet(_) => mgid::groups(gid).map(Carrier::Ip).ok_or(absent),
            Ports::Infiniband(_) if gid[0] != 0xff => Err(absent),
            Ports::Infiniband(_) if !is_multicast_lid(lid) => {
                Err(Error::Invalid("the LID is not a multicast LID"))
            }
            Ports::Infiniband(_) => Ok(Carrier::Copies),
        }
    }
}
