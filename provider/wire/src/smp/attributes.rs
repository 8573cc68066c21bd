//! The attributes that are no tables: nodes, switches, subnet managers, lamps.

use super::{DATA_LEN, Data};
use crate::bits::attribute;

attribute! {
    /// What kind of node, and by which port one came to it.
    struct NodeInfo[DATA_LEN] {
        /// Base version of its MADs, 1.
        base_version: u8 = 0, 8, Ro;
        /// Class version of its SMPs, 1.
        class_version: u8 = 8, 8, Ro;
        /// See [`node_type`](super::node_type).
        node_type: u8 = 16, 8, Ro;
        /// Physical ports; port 0 of a switch is not counted.
        num_ports: u8 = 24, 8, Ro;
        /// What all nodes of one system have in common.
        system_image_guid: u64 = 32, 64, Ro;
        /// The node.
        node_guid: u64 = 96, 64, Ro;
        /// The port that received the request; of a switch, port 0.
        port_guid: u64 = 160, 64, Ro;
        /// Entries of the P_Key table; of a switch, port 0's.
        partition_cap: u16 = 224, 16, Ro;
        /// Device, as the vendor numbers them.
        device_id: u16 = 240, 16, Ro;
        /// Revision of the device.
        revision: u32 = 256, 32, Ro;
        /// Number of the port that received the request.
        local_port_num: u8 = 288, 8, Ro;
        /// Vendor, as the IEEE numbers them.
        vendor_id: u32 = 296, 24, Ro;
    }
}

attribute! {
    /// Sizes of a switch's tables, and what it does with what is not in them.
    struct SwitchInfo[DATA_LEN] {
        /// LIDs that the linear table holds; 0 if there is none.
        linear_fdb_cap: u16 = 0, 16, Ro;
        /// Entries of the random table; 0 if there is none.
        random_fdb_cap: u16 = 16, 16, Ro;
        /// Multicast LIDs.
        multicast_fdb_cap: u16 = 32, 16, Ro;
        /// Last LID of the linear table that counts.
        linear_fdb_top: u16 = 48, 16, Rw;
        /// Port for what the random table does not know.
        default_port: u8 = 64, 8, Rw;
        /// Port for multicast packets to unknown LIDs.
        default_multicast_primary_port: u8 = 72, 8, Rw;
        /// The same for those that came by that port.
        default_multicast_not_primary_port: u8 = 80, 8, Rw;
        /// How long a packet lives in the switch, 4.096 µs · 2^n; from 20 on for ever.
        life_time_value: u8 = 88, 5, Rw;
        /// A port's state has changed; a Set with one clears it.
        port_state_change: bool = 93, 1, Rw;
        /// Shortcuts in writing the SL-to-VL tables.
        optimized_sl_to_vl: u8 = 94, 2, Rw;
        /// LIDs of a port, of the random table.
        lids_per_port: u16 = 96, 16, Ro;
        /// Entries of the P_Key table of each external port.
        partition_enforcement_cap: u16 = 112, 16, Ro;
        /// Can check P_Keys of what comes in.
        inbound_enforcement_cap: bool = 128, 1, Ro;
        /// Can check P_Keys of what goes out.
        outbound_enforcement_cap: bool = 129, 1, Ro;
        /// Can drop raw packets that come in.
        filter_raw_inbound_cap: bool = 130, 1, Ro;
        /// Can drop raw packets that go out.
        filter_raw_outbound_cap: bool = 131, 1, Ro;
        /// Port 0 is a port like any other, except for the link.
        enhanced_port0: bool = 132, 1, Ro;
        /// Last multicast LID of the table that counts.
        multicast_fdb_top: u16 = 144, 16, Rw;
    }
}

attribute! {
    /// A subnet manager.
    struct SmInfo[DATA_LEN] {
        /// GUID of its port.
        guid: u64 = 0, 64, Ro;
        /// Its key.
        sm_key: u64 = 64, 64, Ro;
        /// Counts up while it lives.
        act_count: u32 = 128, 32, Ro;
        /// Its priority.
        priority: u8 = 160, 4, Ro;
        /// 0 not active, 1 discovering, 2 standby, 3 master.
        sm_state: u8 = 164, 4, Ro;
    }
}

attribute! {
    /// The lamp of a port.
    struct LedInfo[DATA_LEN] {
        /// On.
        led_mask: bool = 0, 1, Rw;
    }
}

/// Diagnostics of the vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VendorDiag {
    /// Attribute modifier of the next part; 0 behind the last.
    pub next_index: u16,
    /// What the vendor means by it.
    pub diag_data: [u8; 62],
}

impl VendorDiag {
    /// Reads both.
    pub fn parse(data: &Data) -> VendorDiag {
        let (next, rest) = data.split_at(2);
        VendorDiag {
            next_index: u16::from_be_bytes([next[0], next[1]]),
            diag_data: *rest.first_chunk().expect("62 bytes are left"),
        }
    }

    /// Writes both.
    pub fn emit(&self, data: &mut Data) {
        data[..2].copy_from_slice(&self.next_index.to_be_bytes());
        data[2..].copy_from_slice(&self.diag_data);
    }
}
