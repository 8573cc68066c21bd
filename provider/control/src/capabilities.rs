//! What the device is and can, for those who say so: the provider, and the daemon over netlink and
//! as the agent of its ports.

/// An OUI that no vendor has, as the device is nobody's hardware: 24 bits.
pub const VENDOR_ID: u32 = 0x00ff_ffff;
/// Revision of the hardware that it is not.
pub const HW_VER: u32 = 0;

const BAD_PKEY_CNTR: u64 = 1 << 1;
const BAD_QKEY_CNTR: u64 = 1 << 2;
const UD_AV_PORT_ENFORCE: u64 = 1 << 6;
const CURR_QP_STATE_MOD: u64 = 1 << 7;
const PORT_ACTIVE_EVENT: u64 = 1 << 10;
const SYS_IMAGE_GUID: u64 = 1 << 11;
const RC_RNR_NAK_GEN: u64 = 1 << 12;
const SRQ_RESIZE: u64 = 1 << 13;
const MEM_WINDOW: u64 = 1 << 17;
const XRC: u64 = 1 << 20;
/// Local invalidate, SEND with invalidate, type 2 windows; fast registration is not a verb of user
/// space.
const MEM_MGT_EXTENSIONS: u64 = 1 << 21;
const MEM_WINDOW_TYPE_2B: u64 = 1 << 24;
const FLUSH_GLOBAL: u64 = 1 << 38;
const FLUSH_PERSISTENT: u64 = 1 << 39;
const ATOMIC_WRITE: u64 = 1 << 40;

/// `enum ibv_device_cap_flags`, and from bit 32 on what only `device_cap_flags_ex` has: what this
/// device really does.
pub const DEVICE: u64 = BAD_PKEY_CNTR
    | BAD_QKEY_CNTR
    | UD_AV_PORT_ENFORCE
    | XRC
    | CURR_QP_STATE_MOD
    | PORT_ACTIVE_EVENT
    | SYS_IMAGE_GUID
    | RC_RNR_NAK_GEN
    | SRQ_RESIZE
    | MEM_WINDOW
    | MEM_MGT_EXTENSIONS
    | MEM_WINDOW_TYPE_2B
    | FLUSH_GLOBAL
    | FLUSH_PERSISTENT
    | ATOMIC_WRITE;
