//! A device without a daemon, at one end.

use std::net::Ipv4Addr;
use std::sync::Arc;

use ferroce_control::objects::ObjectTable;
use ferroce_control::{
    Attachment, CongestionControl, CounterPage, DeviceInfo, GidEntry, InboxFds, Network,
};

use super::{End, Faults};
use crate::error::Result;
use crate::hca::{Hca, Tables};
use crate::memory::guard;
use crate::port::{Medium, Ports};

/// Addresses for documentation (RFC 5737), which nobody has.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];

impl Hca {
    /// Two devices of this program, tied to each other. They have no daemon and no helper thread:
    /// whoever polls their completion queues makes them work, and nobody is woken.
    pub fn tied(faults: Faults) -> Result<[Arc<Hca>; 2]> {
        Hca::tied_with(faults, CongestionControl::default())
    }

    /// As [`tied`](Self::tied), with this congestion control at both ends.
    pub fn tied_with(faults: Faults, control: CongestionControl) -> Result<[Arc<Hca>; 2]> {
        guard::install();
        let [a, b] = End::pair(ADDRESSES.map(Into::into), faults);
        Ok([device(a, 1, control)?, device(b, 2, control)?])
    }
}

fn device(end: End, slot: u8, congestion: CongestionControl) -> Result<Arc<Hca>> {
    let address = ADDRESSES[usize::from(slot) - 1];
    let guid = [2, 0, 0, 0xff, 0xfe, 0, 0, slot];
    let device = DeviceInfo {
        name: format!("tied{slot}"),
        index: 0,
        uverbs: format!("uverbs{slot}"),
        node_guid: guid,
        sys_image_guid: guid,
        netdev: String::new(),
        netdev_index: 0,
        netdev_mtu: 0,
        active_mtu: 4096,
        speed_mbps: 100_000,
        port_active: true,
        ib_ports: 0,
        gid_tbl_len: 1,
        rcvbuf: 0,
        stretch_timeouts: 1,
        congestion,
        fw_ver: env!("CARGO_PKG_VERSION").into(),
    };

    let gid = GidEntry {
        index: 0,
        gid: address.to_ipv6_mapped().octets(),
        addr: address.into(),
        scope_id: 0,
        ifindex: 0,
        ifname: String::new(),
    };

    let attachment = Attachment {
        slot,
        device,
        network: Network::Unknown,
        counters: CounterPage::private()?,
        objects: ObjectTable::create()?.0,
        inbox: InboxFds::create()?,
    };

    let ports = Ports::Ethernet(Medium::InProcess(end));
    Ok(Arc::new(Hca::new(
        None,
        attachment,
        vec![gid],
        ports,
        Tables::default(),
    )?))
}
