//! What the device promises. Every number here can be had; one more gives the documented error.

use ferroce_control::{IbPort, capabilities, link::Rate};
use ferroce_transport::Access;

use crate::memory::guard;
use crate::memory::paging::OdpCaps;

/// Queue pairs of one process: the index part of a QPN has 16 bits and a full table would make
/// random indexes slow to find.
pub(super) const MAX_QP: u32 = 32_768;
pub(super) const MAX_QP_WR: u32 = 32_768;
pub(super) const MAX_SGE: u32 = 32;
pub(super) const MAX_CQ: u32 = 65_536;
pub(super) const MAX_CQE: u32 = (1 << 22) - 1;
pub(crate) const MAX_MR: u32 = 1 << 20;
/// Largest region, in bytes; an implicit one has no length.
pub(super) const MAX_MR_SIZE: u64 = 1 << 46;
/// Memory windows: with the regions they share the 2^24 indexes that keys have, and random free
/// ones must stay easy to find.
pub(crate) const MAX_MW: u32 = 1 << 20;
/// Device memory of one process, in bytes.
pub(crate) const MAX_DM_SIZE: u64 = 1 << 20;
pub(super) const MAX_PD: u32 = 65_536;
pub(crate) const MAX_SRQ: u32 = 32_768;
pub(super) const MAX_SRQ_WR: u32 = 32_768;
/// Tagged buffers of a shared receive queue that matches tags. The list is searched in order.
pub(super) const MAX_TAGS: u32 = 1_024;
/// Operations on such a list that may be outstanding: each is done when it is posted.
pub(super) const MAX_TAG_OPS: u32 = 1_024;
/// Bytes of a message that announces a rendezvous; such a message is one packet at every path MTU.
pub(super) const MAX_RNDV_HEADER: u32 = 64;
pub(super) const MAX_AH: u32 = 65_536;
/// Multicast groups of a process: each takes a socket or two.
pub(super) const MAX_MCAST_GROUPS: u32 = 128;
pub(super) const MAX_MCAST_QP_ATTACH: u32 = 256;
pub(super) const MAX_TOTAL_MCAST_QP: u32 = MAX_MCAST_GROUPS * MAX_MCAST_QP_ATTACH;
/// XRC domains that a process has open at a time.
pub(super) const MAX_XRCD: u32 = 32_768;
pub(super) const MAX_INLINE: u32 = 1_024;
/// READ and ATOMIC requests outstanding, in either role.
pub(super) const MAX_RD_ATOMIC: u8 = 128;
/// A part number of our own vendor's. Its value is that of a part that perftest knows: of a number
/// that it does not know, whoever the vendor, it thinks that it cannot send inline.
const VENDOR_PART_ID: u32 = 4119;
/// Largest message, 1 GiB: PSN arithmetic stays unambiguous for every path MTU from 256 on.
pub(super) const MAX_MSG: u32 = 1 << 30;

/// Rights a region may be registered with.
pub(super) fn known_access() -> Access {
    let mut known = Access::LOCAL_WRITE
        | Access::REMOTE_WRITE
        | Access::REMOTE_READ
        | Access::REMOTE_ATOMIC
        | Access::MW_BIND
        | Access::ZERO_BASED
        | Access::HUGETLB
        | Access::FLUSH_GLOBAL
        | Access::FLUSH_PERSISTENT
        | Access::RELAXED_ORDERING;
    known.set(Access::ON_DEMAND, guard::EFFECTIVE);
    known
}

/// `struct ibv_device_attr`, field by field; GUIDs in network byte order.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct DeviceAttr {
    pub fw_ver: String,
    pub node_guid: [u8; 8],
    pub sys_image_guid: [u8; 8],
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: i32,
    pub max_qp_wr: i32,
    pub device_cap_flags: u64,
    pub max_sge: i32,
    pub max_sge_rd: i32,
    pub max_cq: i32,
    pub max_cqe: i32,
    pub max_mr: i32,
    pub max_pd: i32,
    pub max_qp_rd_atom: i32,
    pub max_ee_rd_atom: i32,
    pub max_res_rd_atom: i32,
    pub max_qp_init_rd_atom: i32,
    pub max_ee_init_rd_atom: i32,
    /// `enum ibv_atomic_cap`: 2 (`IBV_ATOMIC_GLOB`), as the CPU's own atomics are used.
    pub atomic_cap: u32,
    pub max_mw: i32,
    pub max_mcast_grp: i32,
    pub max_mcast_qp_attach: i32,
    pub max_total_mcast_qp_attach: i32,
    pub max_ah: i32,
    pub max_srq: i32,
    pub max_srq_wr: i32,
    pub max_srq_sge: i32,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
    pub max_inline_data: u32,
    /// Valid bits of a completion's time: all.
    pub completion_timestamp_mask: u64,
    /// Ticks of the device's clock in a millisecond (kHz): it counts nanoseconds.
    pub hca_core_clock: u64,
    /// Largest [`Moderation::count`](crate::Moderation::count).
    pub max_cq_count: u16,
    /// Largest [`Moderation::period`](crate::Moderation::period), in microseconds.
    pub max_cq_period: u16,
    /// Bytes of the largest device memory.
    pub max_dm_size: u64,
    pub odp: OdpCaps,
    pub tm: TmCaps,
}

/// `struct ibv_tm_caps`, for RC.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TmCaps {
    pub max_rndv_hdr_size: u32,
    pub max_num_tags: u32,
    pub max_ops: u32,
    pub max_sge: u32,
}

impl DeviceAttr {
    pub(crate) fn new(node_guid: [u8; 8]) -> DeviceAttr {
        DeviceAttr {
            fw_ver: env!("CARGO_PKG_VERSION").to_owned(),
            node_guid,
            sys_image_guid: node_guid,
            max_mr_size: MAX_MR_SIZE,
            page_size_cap: 0xffff_f000,
            vendor_id: capabilities::VENDOR_ID,
            vendor_part_id: VENDOR_PART_ID,
            hw_ver: capabilities::HW_VER,
            max_qp: MAX_QP as i32,
            max_qp_wr: MAX_QP_WR as i32,
            device_cap_flags: capabilities::DEVICE,
            max_sge: MAX_SGE as i32,
            max_sge_rd: MAX_SGE as i32,
            max_cq: MAX_CQ as i32,
            max_cqe: MAX_CQE as i32,
            max_mr: MAX_MR as i32,
            max_pd: MAX_PD as i32,
            max_qp_rd_atom: i32::from(MAX_RD_ATOMIC),
            max_ee_rd_atom: 0,
            max_res_rd_atom: i32::from(MAX_RD_ATOMIC) * MAX_QP as i32,
            max_qp_init_rd_atom: i32::from(MAX_RD_ATOMIC),
            max_ee_init_rd_atom: 0,
            atomic_cap: 2,
            max_mw: MAX_MW as i32,
            max_mcast_grp: MAX_MCAST_GROUPS as i32,
            max_mcast_qp_attach: MAX_MCAST_QP_ATTACH as i32,
            max_total_mcast_qp_attach: MAX_TOTAL_MCAST_QP as i32,
            max_ah: MAX_AH as i32,
            max_srq: MAX_SRQ as i32,
            max_srq_wr: MAX_SRQ_WR as i32,
            max_srq_sge: MAX_SGE as i32,
            max_pkeys: 1,
            local_ca_ack_delay: 15,
            phys_port_cnt: 1,
            max_inline_data: MAX_INLINE,
            completion_timestamp_mask: u64::MAX,
            hca_core_clock: 1_000_000,
            max_cq_count: u16::MAX,
            max_cq_period: u16::MAX,
            max_dm_size: MAX_DM_SIZE,
            odp: OdpCaps::of_this_machine(),
            tm: TmCaps {
                max_rndv_hdr_size: MAX_RNDV_HEADER,
                max_num_tags: MAX_TAGS,
                max_ops: MAX_TAG_OPS,
                max_sge: MAX_SGE,
            },
        }
    }
}

impl DeviceAttr {
    /// What is different with InfiniBand ports: how many there are, and with how long P_Key tables.
    pub(crate) fn of_infiniband(&mut self, p_keys: impl ExactSizeIterator<Item = usize>) {
        self.phys_port_cnt = p_keys.len() as u8;
        self.max_pkeys = p_keys.min().map_or(1, |n| n as u16);
    }
}

/// `struct ibv_port_attr`, field by field; MTUs in bytes.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct PortAttr {
    /// `enum ibv_port_state`: 1 down, 4 active.
    pub state: u32,
    pub max_mtu: u32,
    pub active_mtu: u32,
    pub gid_tbl_len: i32,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    /// Packets dropped for their P_Key, of all processes since the daemon started.
    pub bad_pkey_cntr: u32,
    /// Datagrams dropped for their Q_Key, likewise.
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    /// `enum ibv_port_width`: lanes.
    pub active_width: u8,
    /// Speed of a lane, the nearest to the interface's.
    pub active_speed: u8,
    /// 5 link up, 3 disabled.
    pub phys_state: u8,
    /// 2: Ethernet.
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

/// Packets of the port that were dropped for their keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Violations {
    pub(crate) pkey: u32,
    pub(crate) qkey: u32,
}

impl PortAttr {
    /// An InfiniBand port.
    pub(crate) fn of_infiniband(port: &IbPort) -> PortAttr {
        PortAttr {
            state: port.state.into(),
            max_mtu: port.max_mtu,
            active_mtu: port.active_mtu,
            gid_tbl_len: port.gid_tbl_len.into(),
            port_cap_flags: port.capabilities,
            max_msg_sz: MAX_MSG,
            bad_pkey_cntr: port.p_key_violations.into(),
            qkey_viol_cntr: port.q_key_violations.into(),
            pkey_tbl_len: port.p_keys.len() as u16,
            lid: port.lid,
            sm_lid: port.sm_lid,
            lmc: port.lmc,
            max_vl_num: port.vl_cap,
            sm_sl: port.sm_sl,
            subnet_timeout: port.subnet_timeout,
            init_type_reply: port.init_type_reply,
            active_width: port.width,
            active_speed: port.speed,
            phys_state: port.phys_state,
            link_layer: 1,
            flags: 0,
            port_cap_flags2: 0,
        }
    }

    pub(crate) fn new(
        active: bool,
        active_mtu: u32,
        speed_mbps: u32,
        violations: Violations,
    ) -> PortAttr {
        /// `IBV_PORT_CM_SUP` and `IBV_PORT_IP_BASED_GIDS`.
        const CAP: u32 = 1 << 16 | 1 << 26;

        let rate = Rate::of_mbps(speed_mbps);
        PortAttr {
            state: if active { 4 } else { 1 },
            max_mtu: 4096,
            active_mtu,
            gid_tbl_len: i32::from(ferroce_control::GID_TABLE_LEN),
            port_cap_flags: CAP,
            max_msg_sz: MAX_MSG,
            bad_pkey_cntr: violations.pkey,
            qkey_viol_cntr: violations.qkey,
            pkey_tbl_len: 1,
            lid: 0,
            sm_lid: 0,
            lmc: 0,
            max_vl_num: 1,
            sm_sl: 0,
            subnet_timeout: 0,
            init_type_reply: 0,
            active_width: rate.width,
            active_speed: rate.speed,
            phys_state: if active { 5 } else { 3 },
            link_layer: 2,
            flags: 0,
            port_cap_flags2: 0,
        }
    }
}
