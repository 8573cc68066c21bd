//! Performance management: what its MADs carry behind 40 reserved bytes.

use crate::bits::attribute;
use crate::mad::Mad;

/// Management class of performance management.
pub const CLASS: u8 = 0x04;
/// Version of that class.
pub const CLASS_VERSION: u8 = 1;
/// Bytes of an attribute.
pub const DATA_LEN: usize = 192;
/// Port number that means all ports.
pub const ALL_PORTS: u8 = 0xff;

/// Bytes of an attribute, as they lie in the MAD.
pub type Data = [u8; DATA_LEN];

const DATA: usize = 64;

/// Attributes.
pub mod attribute {
    /// What the class can do.
    pub const CLASS_PORT_INFO: u16 = 0x0001;
    /// Sampling: how.
    pub const PORT_SAMPLES_CONTROL: u16 = 0x0010;
    /// Sampling: the samples.
    pub const PORT_SAMPLES_RESULT: u16 = 0x0011;
    /// Counters of 4 to 32 bits.
    pub const PORT_COUNTERS: u16 = 0x0012;
    /// Counters of 64 bits.
    pub const PORT_COUNTERS_EXTENDED: u16 = 0x001d;
    /// Sampling: the samples, with 64 bits.
    pub const PORT_SAMPLES_RESULT_EXTENDED: u16 = 0x001e;
}

/// Bits of ClassPortInfo's `capability_mask`.
pub mod capability {
    /// Port 255 means all ports.
    pub const ALL_PORT_SELECT: u16 = 1 << 8;
    /// PortCountersExtended.
    pub const EXTENDED_WIDTH: u16 = 1 << 9;
    /// PortXmitWait in PortCounters.
    pub const XMIT_WAIT: u16 = 1 << 12;
}

/// What samples can count.
pub mod sample {
    /// Words of 4 bytes sent.
    pub const XMIT_DATA: u16 = 1;
    /// Words of 4 bytes received.
    pub const RCV_DATA: u16 = 2;
    /// Packets sent.
    pub const XMIT_PACKETS: u16 = 3;
    /// Packets received.
    pub const RCV_PACKETS: u16 = 4;
    /// Ticks in which there was something to send, and nothing could be sent.
    pub const XMIT_WAIT: u16 = 5;
}

attribute! {
    /// What a class can do, and where its requests and traps should go.
    struct ClassPortInfo[DATA_LEN] {
        /// Base version, 1.
        base_version: u8 = 0, 8, Ro;
        /// Version of the class.
        class_version: u8 = 8, 8, Ro;
        /// See [`capability`].
        capability_mask: u16 = 16, 16, Ro;
        /// More of it.
        capability_mask2: u32 = 32, 27, Ro;
        /// Longest time to an answer, 4.096 µs · 2^n.
        resp_time_value: u8 = 59, 5, Ro;
        /// Where to send requests instead; 0 is nowhere.
        redirect_gid: u128 = 64, 128, Ro;
        /// Traffic class there.
        redirect_tc: u8 = 192, 8, Ro;
        /// Service level there.
        redirect_sl: u8 = 200, 4, Ro;
        /// Flow label there.
        redirect_fl: u32 = 204, 20, Ro;
        /// LID there.
        redirect_lid: u16 = 224, 16, Ro;
        /// P_Key there.
        redirect_p_key: u16 = 240, 16, Ro;
        /// QP there.
        redirect_qp: u32 = 264, 24, Ro;
        /// Q_Key there.
        redirect_q_key: u32 = 288, 32, Ro;
        /// Where traps go.
        trap_gid: u128 = 320, 128, Rw;
        /// Traffic class there.
        trap_tc: u8 = 448, 8, Rw;
        /// Service level there.
        trap_sl: u8 = 456, 4, Rw;
        /// Flow label there.
        trap_fl: u32 = 460, 20, Rw;
        /// LID there.
        trap_lid: u16 = 480, 16, Rw;
        /// P_Key there.
        trap_p_key: u16 = 496, 16, Rw;
        /// Hop limit there.
        trap_hl: u8 = 512, 8, Rw;
        /// QP there.
        trap_qp: u32 = 520, 24, Rw;
        /// Q_Key there.
        trap_q_key: u32 = 544, 32, Rw;
    }
}

attribute! {
    /// How to take samples.
    struct PortSamplesControl[DATA_LEN] {
        /// What to sample; of the vendor.
        op_code: u8 = 0, 8, Rw;
        /// Which port.
        port_select: u8 = 8, 8, Rw;
        /// Length of a tick: 0 ns is 0; the interface's byte times and multiples of 10 ns.
        tick: u8 = 16, 8, Ro;
        /// Width of the counters: 0 is 16 bits, 1 is 20, 2 is 24, 3 is 28, 4 is 32.
        counter_width: u8 = 29, 3, Ro;
        /// What counter 0 can count.
        counter_mask0: u8 = 34, 3, Ro;
        /// What counters 1 to 9 can count.
        counter_masks1_to_9: u32 = 37, 27, Ro;
        /// What counters 10 to 14 can count.
        counter_masks10_to_14: u16 = 65, 15, Ro;
        /// How many mechanisms there are.
        sample_mechanisms: u8 = 80, 8, Ro;
        /// 0 done, 1 waiting for the start, 2 running.
        sample_status: u8 = 94, 2, Ro;
        /// Which optional counters there are.
        option_mask: u64 = 96, 64, Ro;
        /// Which counters of the vendor there are.
        vendor_mask: u64 = 160, 64, Ro;
        /// Ticks until the start.
        sample_start: u32 = 224, 32, Rw;
        /// Ticks from start to end.
        sample_interval: u32 = 256, 32, Rw;
        /// Whose samples these are.
        tag: u16 = 288, 16, Rw;
        /// What counter 0 counts.
        counter_select0: u16 = 304, 16, Rw;
        /// What counter 1 counts.
        counter_select1: u16 = 320, 16, Rw;
        /// What counter 2 counts.
        counter_select2: u16 = 336, 16, Rw;
        /// What counter 3 counts.
        counter_select3: u16 = 352, 16, Rw;
        /// What counter 4 counts.
        counter_select4: u16 = 368, 16, Rw;
        /// What counter 5 counts.
        counter_select5: u16 = 384, 16, Rw;
        /// What counter 6 counts.
        counter_select6: u16 = 400, 16, Rw;
        /// What counter 7 counts.
        counter_select7: u16 = 416, 16, Rw;
        /// What counter 8 counts.
        counter_select8: u16 = 432, 16, Rw;
        /// What counter 9 counts.
        counter_select9: u16 = 448, 16, Rw;
        /// What counter 10 counts.
        counter_select10: u16 = 464, 16, Rw;
        /// What counter 11 counts.
        counter_select11: u16 = 480, 16, Rw;
        /// What counter 12 counts.
        counter_select12: u16 = 496, 16, Rw;
        /// What counter 13 counts.
        counter_select13: u16 = 512, 16, Rw;
        /// What counter 14 counts.
        counter_select14: u16 = 528, 16, Rw;
    }
}

/// Counters that samples have.
pub const SAMPLES: usize = 15;

/// Samples taken. With PortSamplesResult the counters have 32 bits, with PortSamplesResultExtended
/// 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSamplesResult {
    /// Whose samples these are.
    pub tag: u16,
    /// 0 done, 1 waiting for the start, 2 running.
    pub sample_status: u8,
    /// The counters.
    pub counters: [u64; SAMPLES],
}

impl PortSamplesResult {
    /// Writes the attribute with counters of 32 bits; what is more stays at their maximum.
    pub fn emit(&self, data: &mut Data) {
        self.emit_head(data);
        for (value, bytes) in self.counters.iter().zip(data[4..].chunks_exact_mut(4)) {
            let value = u32::try_from(*value).unwrap_or(u32::MAX);
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }

    /// Writes the attribute with counters of 64 bits.
    pub fn emit_extended(&self, data: &mut Data) {
        self.emit_head(data);
        data[4] = 0x80; // the width in two bits: 2 is 64 bits
        for (value, bytes) in self.counters.iter().zip(data[8..].chunks_exact_mut(8)) {
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }

    fn emit_head(&self, data: &mut Data) {
        data.fill(0);
        data[..2].copy_from_slice(&self.tag.to_be_bytes());
        data[3] = self.sample_status & 3;
    }
}

attribute! {
    /// Counters that stop at their maximum. Data are in words of 4 bytes.
    struct PortCounters[DATA_LEN] {
        /// Which port; 255 is all.
        port_select: u8 = 8, 8, Rw;
        /// In a Set: which of the counters to write, by bits from the first.
        counter_select: u16 = 16, 16, Rw;
        /// Bit 0.
        symbol_error_counter: u16 = 32, 16, Rw;
        /// Bit 1.
        link_error_recovery_counter: u8 = 48, 8, Rw;
        /// Bit 2.
        link_downed_counter: u8 = 56, 8, Rw;
        /// Bit 3.
        port_rcv_errors: u16 = 64, 16, Rw;
        /// Bit 4.
        port_rcv_remote_physical_errors: u16 = 80, 16, Rw;
        /// Bit 5.
        port_rcv_switch_relay_errors: u16 = 96, 16, Rw;
        /// Bit 6.
        port_xmit_discards: u16 = 112, 16, Rw;
        /// Bit 7.
        port_xmit_constraint_errors: u8 = 128, 8, Rw;
        /// Bit 8.
        port_rcv_constraint_errors: u8 = 136, 8, Rw;
        /// Bit 0 writes `port_xmit_wait`.
        counter_select2: u8 = 144, 8, Rw;
        /// Bit 9.
        local_link_integrity_errors: u8 = 152, 4, Rw;
        /// Bit 10.
        excessive_buffer_overrun_errors: u8 = 156, 4, Rw;
        /// Bit 11.
        vl15_dropped: u16 = 176, 16, Rw;
        /// Bit 12.
        port_xmit_data: u32 = 192, 32, Rw;
        /// Bit 13.
        port_rcv_data: u32 = 224, 32, Rw;
        /// Bit 14.
        port_xmit_pkts: u32 = 256, 32, Rw;
        /// Bit 15.
        port_rcv_pkts: u32 = 288, 32, Rw;
        /// Ticks in which there was something to send, and nothing could be sent.
        port_xmit_wait: u32 = 320, 32, Rw;
    }
}

attribute! {
    /// The same with 64 bits. Data are in words of 4 bytes.
    struct PortCountersExtended[DATA_LEN] {
        /// Which port; 255 is all.
        port_select: u8 = 8, 8, Rw;
        /// In a Set: which of the counters to write, by bits from the first.
        counter_select: u16 = 16, 16, Rw;
        /// Bit 0.
        port_xmit_data: u64 = 64, 64, Rw;
        /// Bit 1.
        port_rcv_data: u64 = 128, 64, Rw;
        /// Bit 2.
        port_xmit_pkts: u64 = 192, 64, Rw;
        /// Bit 3.
        port_rcv_pkts: u64 = 256, 64, Rw;
        /// Bit 4.
        port_unicast_xmit_pkts: u64 = 320, 64, Rw;
        /// Bit 5.
        port_unicast_rcv_pkts: u64 = 384, 64, Rw;
        /// Bit 6.
        port_multicast_xmit_pkts: u64 = 448, 64, Rw;
        /// Bit 7.
        port_multicast_rcv_pkts: u64 = 512, 64, Rw;
    }
}

/// The attribute's bytes.
pub fn data(mad: &Mad) -> &Data {
    mad[DATA..].first_chunk().expect("a MAD is long enough")
}

/// The attribute's bytes, to be changed.
pub fn data_mut(mad: &mut Mad) -> &mut Data {
    mad[DATA..].first_chunk_mut().expect("a MAD is long enough")
}
