//! The things that commands and answers speak of, named after those of libibverbs.

use serde::{Deserialize, Serialize};

/// Transport service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Service {
    Rc,
    Uc,
    Ud,
    /// The responder of an extended reliable connection.
    XrcTarget,
}

/// What a queue pair is created with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateQp {
    /// Service.
    pub service: Service,
    /// Send requests.
    pub max_send_wr: u32,
    /// Receive requests.
    pub max_recv_wr: u32,
    /// Elements of a send request.
    pub max_send_sge: u32,
    /// Elements of a receive request.
    pub max_recv_sge: u32,
    /// Bytes of inline data.
    pub max_inline_data: u32,
    /// Every send request is signaled.
    pub sq_sig_all: bool,
    /// Handle of a shared receive queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub srq: Option<u32>,
    /// XRC target: handle of its XRC domain, whose completion queue is polled as its own. It has no
    /// queues and no protection domain: what is said of them here is not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xrcd: Option<u32>,
}

/// Where packets go to. On RoCE the GID says it, on a cable the LID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressVector {
    /// Destination GID; a GRH is sent if it is there.
    pub dgid: Option<[u8; 16]>,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Destination LID.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Port of the device, from 1.
    pub port: u8,
}

/// Attributes of a queue pair, `struct ibv_qp_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the names are the verbs' own
pub struct QpAttributes {
    /// `enum ibv_qp_state`: 0 RESET, 1 INIT, 2 RTR, 3 RTS, 4 SQD, 5 SQE, 6 ERR.
    pub qp_state: Option<u32>,
    pub cur_qp_state: Option<u32>,
    pub en_sqd_async_notify: Option<bool>,
    pub qp_access_flags: Option<u32>,
    pub pkey_index: Option<u16>,
    pub port_num: Option<u8>,
    pub qkey: Option<u32>,
    pub ah_attr: Option<AddressVector>,
    /// In bytes.
    pub path_mtu: Option<u32>,
    pub timeout: Option<u8>,
    pub retry_cnt: Option<u8>,
    pub rnr_retry: Option<u8>,
    pub rq_psn: Option<u32>,
    pub max_rd_atomic: Option<u8>,
    pub min_rnr_timer: Option<u8>,
    pub sq_psn: Option<u32>,
    pub max_dest_rd_atomic: Option<u8>,
    pub dest_qp_num: Option<u32>,
    /// Only in answers.
    pub sq_draining: Option<bool>,
}

/// Registered memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// Local key.
    pub lkey: u32,
    /// Remote key.
    pub rkey: u32,
}

impl Region {
    /// All of it as one element.
    pub fn sge(&self) -> Sge {
        self.part(0, self.len)
    }

    /// A part of it as one element.
    pub fn part(&self, offset: u32, len: u32) -> Sge {
        Sge {
            addr: self.addr + u64::from(offset),
            len,
            lkey: self.lkey,
        }
    }
}

/// Scatter/gather element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sge {
    /// Address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// Local key.
    pub lkey: u32,
}

/// Operation of a send request, `enum ibv_wr_opcode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Opcode {
    #[default]
    Send,
    SendWithImm,
    SendWithInv,
    RdmaWrite,
    RdmaWriteWithImm,
    RdmaRead,
    CompareSwap,
    FetchAdd,
    LocalInv,
    BindMw,
}

/// A send request, `struct ibv_send_wr`. What the operation does not have is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SendRequest {
    /// The consumer's identifier.
    pub wr_id: u64,
    /// Operation.
    pub opcode: Opcode,
    /// Gather list; of READs and atomics, scatter list.
    pub sges: Vec<Sge>,
    /// `enum ibv_send_flags`: 1 fence, 2 signaled, 4 solicited, 8 inline.
    pub flags: u32,
    /// Immediate data as it stands on the wire.
    pub imm: [u8; 4],
    /// Key to invalidate.
    pub invalidate: u32,
    /// Remote address.
    pub remote_addr: u64,
    /// Remote key.
    pub rkey: u32,
    /// What an atomic compares with, or adds.
    pub compare_add: u64,
    /// What COMPARE & SWAP stores.
    pub swap: u64,
    /// UD: where to.
    pub to: Option<Destination>,
    /// BIND_MW.
    pub bind: Option<Bind>,
}

/// `enum ibv_send_flags`.
pub mod send_flags {
    /// Wait for earlier READs and atomics.
    pub const FENCE: u32 = 1;
    /// Raise a completion.
    pub const SIGNALED: u32 = 2;
    /// Ask for a solicited event.
    pub const SOLICITED: u32 = 4;
    /// Take the data when posting.
    pub const INLINE: u32 = 8;
}

/// `enum ibv_access_flags`.
pub mod access {
    /// The device may write for the program.
    pub const LOCAL_WRITE: u32 = 1;
    /// A peer may write.
    pub const REMOTE_WRITE: u32 = 2;
    /// A peer may read.
    pub const REMOTE_READ: u32 = 4;
    /// A peer may do atomics.
    pub const REMOTE_ATOMIC: u32 = 8;
    /// Windows may be bound.
    pub const MW_BIND: u32 = 16;
    /// A peer may flush to global visibility.
    pub const FLUSH_GLOBAL: u32 = 256;
    /// All that a peer may do on every device, and local writes.
    pub const ALL: u32 = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC;
}

/// `enum ibv_qp_state`.
pub mod qp_state {
    #![allow(missing_docs)]
    pub const RESET: u32 = 0;
    pub const INIT: u32 = 1;
    pub const RTR: u32 = 2;
    pub const RTS: u32 = 3;
    pub const SQD: u32 = 4;
    pub const SQE: u32 = 5;
    pub const ERR: u32 = 6;
}

/// Destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// Address handle.
    pub ah: u32,
    /// Queue pair number.
    pub qp: u32,
    /// Q_Key.
    pub qkey: u32,
}

/// Bind of a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Handle of the window.
    pub window: u32,
    /// Its key from then on.
    pub rkey: u32,
    /// Local key of the region.
    pub lkey: u32,
    /// Address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// `enum ibv_access_flags`.
    pub access: u32,
}

/// Where a receive request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecvQueue {
    /// Of a queue pair, by number.
    Qp(u32),
    /// A shared one, by handle.
    Srq(u32),
}

/// One of a queue pair's completion queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Of send requests.
    Send,
    /// Of receive requests.
    Recv,
}

/// A completion, `struct ibv_wc`. On errors only `wr_id`, `status` and `qp` mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// From the request.
    pub wr_id: u64,
    /// `enum ibv_wc_status`.
    pub status: u32,
    /// `enum ibv_wc_opcode`.
    pub opcode: u32,
    /// Bytes.
    pub byte_len: u32,
    /// Immediate data as it stood on the wire.
    pub imm: Option<[u8; 4]>,
    /// Key that was invalidated.
    pub invalidated: Option<u32>,
    /// A GRH stands before the payload.
    pub grh: bool,
    /// Queue pair number.
    pub qp: u32,
    /// The peer's queue pair number.
    pub src_qp: u32,
}

/// An asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsyncEvent {
    /// `enum ibv_event_type`.
    pub event: u32,
    /// Queue pair number, handle of the shared receive queue, or port; 0 for the device's own.
    pub element: u32,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Name.
    pub name: String,
    /// Ports.
    pub ports: u8,
    /// READs and atomics that a queue pair answers at once.
    pub max_qp_rd_atom: u32,
    /// READs and atomics that a queue pair asks at once.
    pub max_qp_init_rd_atom: u32,
    /// Does atomics.
    pub atomics: bool,
    /// Path migration is supported.
    pub auto_path_mig: bool,
    /// Does XRC.
    #[serde(default)]
    pub xrc: bool,
    /// GUID of the node.
    #[serde(default)]
    pub node_guid: u64,
    /// GUID of its system.
    #[serde(default)]
    pub system_image_guid: u64,
    /// Vendor, 24 bits.
    #[serde(default)]
    pub vendor_id: u32,
    /// Revision of the hardware.
    #[serde(default)]
    pub hw_ver: u32,
    /// The vendor's number of the part.
    #[serde(default)]
    pub vendor_part_id: u32,
    /// Version of the firmware.
    #[serde(default)]
    pub fw_ver: String,
}

impl DeviceInfo {
    /// `one port`, `2 ports`.
    pub fn ports_in_words(&self) -> String {
        match self.ports {
            1 => "one port".to_owned(),
            n => format!("{n} ports"),
        }
    }
}

/// A port, `struct ibv_port_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortState {
    /// `enum ibv_port_state`.
    pub state: u32,
    /// Active MTU in bytes.
    pub active_mtu: u32,
    /// Entries of the GID table.
    pub gid_tbl_len: u32,
    /// Entries of the P_Key table.
    pub pkey_tbl_len: u16,
    /// LID.
    pub lid: u16,
    /// LID of the subnet manager.
    pub sm_lid: u16,
    /// Service level to the subnet manager.
    pub sm_sl: u8,
    /// LMC.
    pub lmc: u8,
    /// Ethernet, not InfiniBand.
    pub ethernet: bool,
    /// `PortInfo:CapabilityMask`.
    pub capabilities: u32,
    /// Subnet timeout.
    pub subnet_timeout: u8,
    /// Bad P_Keys counted.
    pub bad_pkeys: u32,
    /// Bad Q_Keys counted.
    pub bad_qkeys: u32,
    /// Greatest MTU in bytes.
    #[serde(default)]
    pub max_mtu: u32,
    /// `PortInfo:PortPhysicalState`.
    #[serde(default)]
    pub phys_state: u8,
    /// `PortInfo:VLCap`.
    #[serde(default)]
    pub max_vl_num: u8,
    /// `PortInfo:LinkWidthActive`.
    #[serde(default)]
    pub active_width: u8,
    /// `PortInfo:InitTypeReply`.
    #[serde(default)]
    pub init_type_reply: u8,
}
