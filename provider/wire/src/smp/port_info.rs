//! PortInfo, every component of it.

use super::DATA_LEN;
use crate::bits::attribute;

attribute! {
    /// A port, as the subnet manager sees and configures it.
    ///
    /// Components of the same kind of value: speeds and widths are sets of bits, MTUs are 1
    /// (256 bytes) to 5 (4,096).
    struct PortInfo[DATA_LEN] {
        /// Management key of the port; 0 lets everybody.
        m_key: u64 = 0, 64, Rw;
        /// Upper half of the port's GIDs.
        gid_prefix: u64 = 64, 64, Rw;
        /// Base LID; 0 before it has one.
        lid: u16 = 128, 16, Rw;
        /// LID of the master subnet manager.
        master_sm_lid: u16 = 144, 16, Rw;
        /// What the port can do, see [`capability`].
        capability_mask: u32 = 160, 32, Ro;
        /// Result of diagnosis.
        diag_code: u16 = 192, 16, Ro;
        /// Seconds until protection lapses after a violation; 0 is never.
        m_key_lease_period: u16 = 208, 16, Rw;
        /// Number of the port that received the request.
        local_port_num: u8 = 224, 8, Ro;
        /// Link widths that may be used; in a Set 0 changes nothing, 255 means all.
        link_width_enabled: u8 = 232, 8, Rw;
        /// Link widths that there are.
        link_width_supported: u8 = 240, 8, Ro;
        /// Link width in use.
        link_width_active: u8 = 248, 8, Ro;
        /// Link speeds that there are.
        link_speed_supported: u8 = 256, 4, Ro;
        /// Logical state, see [`state`].
        port_state: u8 = 260, 4, Rw;
        /// Physical state, see [`phys_state`].
        port_physical_state: u8 = 264, 4, Rw;
        /// Physical state to take when the link goes down: 1 sleep, 2 polling.
        link_down_default_state: u8 = 268, 4, Rw;
        /// What is allowed without the M_Key, 0 to 3.
        m_key_protect_bits: u8 = 272, 2, Rw;
        /// Low bits of the LID that packets may vary.
        lmc: u8 = 277, 3, Rw;
        /// Link speed in use.
        link_speed_active: u8 = 280, 4, Ro;
        /// Link speeds that may be used; in a Set 0 changes nothing, 15 means all.
        link_speed_enabled: u8 = 284, 4, Rw;
        /// MTU of the link.
        neighbor_mtu: u8 = 288, 4, Rw;
        /// Service level towards the master subnet manager.
        master_sm_sl: u8 = 292, 4, Rw;
        /// Data lanes that there are: 1 one, 2 two, 3 four, 4 eight, 5 fifteen.
        vl_cap: u8 = 296, 4, Ro;
        /// How the port asks to be initialised.
        init_type: u8 = 300, 4, Ro;
        /// Limit of the high-priority lanes, in units of 4 KiB.
        vl_high_limit: u8 = 304, 8, Rw;
        /// Entries of the high-priority arbitration table.
        vl_arbitration_high_cap: u8 = 312, 8, Ro;
        /// Entries of the low-priority arbitration table.
        vl_arbitration_low_cap: u8 = 320, 8, Ro;
        /// How the subnet manager initialised the port.
        init_type_reply: u8 = 328, 4, Rw;
        /// Greatest MTU that there is.
        mtu_cap: u8 = 332, 4, Ro;
        /// Switches: packets that may be dropped in a row before a lane stalls.
        vl_stall_count: u8 = 336, 3, Rw;
        /// Switches: how long a packet may wait at the head of a queue, 4.096 µs · 2^n.
        hoq_life: u8 = 339, 5, Rw;
        /// Data lanes in use, coded like `vl_cap`; in a Set 0 changes nothing.
        operational_vls: u8 = 344, 4, Rw;
        /// Switches: check the P_Key of what comes in.
        partition_enforcement_inbound: bool = 348, 1, Rw;
        /// Switches: check the P_Key of what goes out.
        partition_enforcement_outbound: bool = 349, 1, Rw;
        /// Switches: drop raw packets that come in.
        filter_raw_inbound: bool = 350, 1, Rw;
        /// Switches: drop raw packets that go out.
        filter_raw_outbound: bool = 351, 1, Rw;
        /// Requests with a wrong M_Key. Can be set to 0 only.
        m_key_violations: u16 = 352, 16, Rw;
        /// Packets with a wrong P_Key. Can be set to 0 only.
        p_key_violations: u16 = 368, 16, Rw;
        /// Packets with a wrong Q_Key. Can be set to 0 only.
        q_key_violations: u16 = 384, 16, Rw;
        /// Entries of GUIDInfo.
        guid_cap: u8 = 400, 8, Ro;
        /// Asks the clients of the port to register again. One only in a request that asks, and in
        /// its answer.
        client_reregister: bool = 408, 1, Rw;
        /// Which P_Key traps of multicast packets are kept back.
        multicast_p_key_trap_suppression: u8 = 409, 2, Rw;
        /// Longest time through the subnet, 4.096 µs · 2^n; traps come no faster.
        subnet_timeout: u8 = 411, 5, Rw;
        /// Longest time to an answer, 4.096 µs · 2^n.
        resp_time_value: u8 = 419, 5, Ro;
        /// Threshold of local link errors.
        local_phy_errors: u8 = 424, 4, Rw;
        /// Threshold of buffer overruns.
        overrun_errors: u8 = 428, 4, Rw;
        /// Credits the link would like.
        max_credit_hint: u16 = 432, 16, Ro;
        /// Round trip of the link.
        link_round_trip_latency: u32 = 456, 24, Ro;
        /// More of what the port can do.
        capability_mask2: u16 = 480, 16, Ro;
        /// Extended link speed in use: 1 FDR, 2 EDR, 4 HDR, 8 NDR.
        link_speed_ext_active: u8 = 496, 4, Ro;
        /// Extended link speeds that there are.
        link_speed_ext_supported: u8 = 500, 4, Ro;
        /// Extended link speeds that may be used; in a Set 0 changes nothing, 30 means none, 31
        /// all.
        link_speed_ext_enabled: u8 = 507, 5, Rw;
    }
}

/// Bits of `capability_mask`.
pub mod capability {
    /// A subnet manager runs behind the port.
    pub const IS_SM: u32 = 1 << 1;
    /// Notices are queued for whoever asks.
    pub const IS_NOTICE_SUPPORTED: u32 = 1 << 2;
    /// Traps are sent.
    pub const IS_TRAP_SUPPORTED: u32 = 1 << 3;
    /// Service levels are mapped to virtual lanes.
    pub const IS_SL_MAPPING_SUPPORTED: u32 = 1 << 6;
    /// The port keeps its M_Key through a reset.
    pub const IS_M_KEY_NVRAM: u32 = 1 << 7;
    /// There are lamps that LedInfo switches.
    pub const IS_LED_INFO_SUPPORTED: u32 = 1 << 9;
    /// The subnet manager behind the port has been switched off.
    pub const IS_SM_DISABLED: u32 = 1 << 10;
    /// SystemImageGUID is supported.
    pub const IS_SYSTEM_IMAGE_GUID_SUPPORTED: u32 = 1 << 11;
    /// P_Keys of switch ports lead to traps.
    pub const IS_P_KEY_SWITCH_EXTERNAL_PORT_TRAP_SUPPORTED: u32 = 1 << 12;
    /// Extended link speeds.
    pub const IS_EXTENDED_SPEEDS_SUPPORTED: u32 = 1 << 14;
    /// A communication manager answers.
    pub const IS_COMMUNICATION_MANAGEMENT_SUPPORTED: u32 = 1 << 16;
    /// SNMP tunnelling.
    pub const IS_SNMP_TUNNELING_SUPPORTED: u32 = 1 << 17;
    /// Trap 256 tells of directed routes.
    pub const IS_DR_NOTICE_SUPPORTED: u32 = 1 << 21;
    /// A change of this mask is told by trap 144.
    pub const IS_CAPABILITY_MASK_NOTICE_SUPPORTED: u32 = 1 << 22;
    /// Clients can be asked to register again.
    pub const IS_CLIENT_REREGISTRATION_SUPPORTED: u32 = 1 << 25;
    /// A change of NodeDescription is told by trap 144.
    pub const IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED: u32 = 1 << 26;
    /// Switches: SwitchInfo has MulticastFDBTop.
    pub const IS_MULTICAST_FDB_TOP_SUPPORTED: u32 = 1 << 30;
}

/// Values of `port_state`.
pub mod state {
    /// In a Set: leave it.
    pub const NO_CHANGE: u8 = 0;
    /// No link.
    pub const DOWN: u8 = 1;
    /// A link, and nobody has configured it.
    pub const INIT: u8 = 2;
    /// Configured, not yet in use.
    pub const ARMED: u8 = 3;
    /// In use.
    pub const ACTIVE: u8 = 4;
}

/// Values of `port_physical_state`.
pub mod phys_state {
    /// In a Set: leave it.
    pub const NO_CHANGE: u8 = 0;
    /// Answers if somebody is there, does not look for anybody.
    pub const SLEEP: u8 = 1;
    /// Looks for somebody.
    pub const POLLING: u8 = 2;
    /// Switched off.
    pub const DISABLED: u8 = 3;
    /// Has found somebody.
    pub const TRAINING: u8 = 4;
    /// Trained.
    pub const LINK_UP: u8 = 5;
    /// Training again after an error.
    pub const ERROR_RECOVERY: u8 = 6;
}
