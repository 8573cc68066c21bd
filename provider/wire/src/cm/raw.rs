//! The messages of the communication manager as they lie behind the MAD header. Byte order is in
//! the types; bit fields are taken apart by [`convert`](super::convert). Every one is 232 bytes.

use crate::mad::Gid;
use crate::raw::ByteAnd24;
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A 24-bit number followed by a byte.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub(super) struct NumberAnd8(U32);

impl NumberAnd8 {
    /// Keeps the low 24 bits of `number`.
    pub(super) fn new(number: u32, byte: u8) -> NumberAnd8 {
        NumberAnd8(U32::new(number << 8 | u32::from(byte)))
    }

    pub(super) fn number(self) -> u32 {
        self.0.get() >> 8
    }

    pub(super) fn byte(self) -> u8 {
        self.0.get() as u8
    }
}

macro_rules! raw {
    ($($(#[$attr:meta])* struct $name:ident { $($(#[$field_attr:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$attr])*
            #[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
            #[repr(C)]
            pub(super) struct $name {
                $($(#[$field_attr])* pub(super) $field: $type,)*
            }
        )*
    };
}

raw! {
    struct RawPath {
        local_lid: U16,
        remote_lid: U16,
        local_gid: Gid,
        remote_gid: Gid,
        /// Flow label (20), reserved (6), packet rate (6).
        flow_rate: U32,
        traffic_class: u8,
        hop_limit: u8,
        /// SL (4), subnet local (1), reserved (3).
        sl_local: u8,
        /// Local ACK timeout (5), reserved (3).
        ack_timeout: u8,
    }

    struct RawReq {
        local_comm_id: U32,
        /// Reserved (8), vendor (24).
        vendor: ByteAnd24,
        service_id: U64,
        ca_guid: U64,
        reserved: U32,
        local_qkey: U32,
        /// QPN (24), responder resources (8).
        qpn_resources: NumberAnd8,
        /// Local EECN (24), initiator depth (8).
        eecn_depth: NumberAnd8,
        /// Remote EECN (24), remote response timeout (5), transport (2), flow control (1).
        remote_eecn_service: NumberAnd8,
        /// Starting PSN (24), local response timeout (5), retry count (3).
        psn_timeout_retry: NumberAnd8,
        pkey: U16,
        /// MTU (4), RDC exists (1), RNR retry count (3).
        mtu_rnr: u8,
        /// Most CM retries (4), SRQ (1), extended transport (3).
        retries_srq: u8,
        primary: RawPath,
        alternate: RawPath,
        private_data: [u8; 92],
    }

    struct RawMra {
        local_comm_id: U32,
        remote_comm_id: U32,
        /// Message (2), reserved (6).
        message: u8,
        /// Service timeout (5), reserved (3).
        service_timeout: u8,
        private_data: [u8; 222],
    }

    struct RawRej {
        local_comm_id: U32,
        remote_comm_id: U32,
        /// Message (2), reserved (6).
        message: u8,
        /// Bytes of additional information (7), reserved (1).
        ari_len: u8,
        reason: U16,
        ari: [u8; 72],
        private_data: [u8; 148],
    }

    struct RawRep {
        local_comm_id: U32,
        remote_comm_id: U32,
        local_qkey: U32,
        /// QPN (24), vendor's bits 16–23.
        qpn: NumberAnd8,
        /// EECN (24), vendor's bits 8–15.
        eecn: NumberAnd8,
        /// Starting PSN (24), vendor's bits 0–7.
        psn: NumberAnd8,
        responder_resources: u8,
        initiator_depth: u8,
        /// Target ACK delay (5), failover accepted (2), flow control (1).
        ack_delay: u8,
        /// RNR retry count (3), SRQ (1), reserved (4).
        rnr_srq: u8,
        ca_guid: U64,
        private_data: [u8; 196],
    }

    /// RTU and DREP.
    struct RawPair {
        local_comm_id: U32,
        remote_comm_id: U32,
        private_data: [u8; 224],
    }

    struct RawDreq {
        local_comm_id: U32,
        remote_comm_id: U32,
        /// QPN or EECN (24), reserved (8).
        qpn: NumberAnd8,
        private_data: [u8; 220],
    }

    struct RawSidrReq {
        request_id: U32,
        pkey: U16,
        reserved: U16,
        service_id: U64,
        private_data: [u8; 216],
    }

    struct RawSidrRep {
        request_id: U32,
        status: u8,
        info_len: u8,
        /// Vendor's bits 8–23.
        vendor_high: U16,
        /// QPN (24), vendor's bits 0–7.
        qpn: NumberAnd8,
        service_id: U64,
        qkey: U32,
        info: [u8; 72],
        private_data: [u8; 136],
    }

    struct RawLap {
        local_comm_id: U32,
        remote_comm_id: U32,
        reserved: U32,
        /// QPN or EECN (24), remote response timeout (5), reserved (3).
        qpn_timeout: NumberAnd8,
        reserved2: U32,
        local_lid: U16,
        remote_lid: U16,
        local_gid: Gid,
        remote_gid: Gid,
        /// Flow label (20), reserved (4), traffic class (8).
        flow_class: U32,
        hop_limit: u8,
        /// Reserved (2), packet rate (6).
        packet_rate: u8,
        /// SL (4), subnet local (1), reserved (3).
        sl_local: u8,
        /// Local ACK timeout (5), reserved (3).
        ack_timeout: u8,
        private_data: [u8; 168],
    }

    struct RawApr {
        local_comm_id: U32,
        remote_comm_id: U32,
        info_len: u8,
        status: u8,
        reserved: U16,
        info: [u8; 72],
        private_data: [u8; 148],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{HEADER_LEN, LEN};
    use std::mem::offset_of;

    #[test]
    fn sizes_are_those_of_the_specification() {
        let sizes = [
            size_of::<RawReq>(),
            size_of::<RawMra>(),
            size_of::<RawRej>(),
            size_of::<RawRep>(),
            size_of::<RawPair>(),
            size_of::<RawDreq>(),
            size_of::<RawSidrReq>(),
            size_of::<RawSidrRep>(),
            size_of::<RawLap>(),
            size_of::<RawApr>(),
        ];
        assert_eq!(sizes, [LEN - HEADER_LEN; 10]);
    }

    #[test]
    fn fields_lie_where_the_specification_has_them() {
        assert_eq!(offset_of!(RawReq, qpn_resources), 32);
        assert_eq!(offset_of!(RawReq, psn_timeout_retry), 44);
        assert_eq!(offset_of!(RawReq, primary), 52);
        assert_eq!(offset_of!(RawReq, alternate), 96);
        assert_eq!(offset_of!(RawReq, private_data), 140);
        assert_eq!(offset_of!(RawRej, ari), 12);
        assert_eq!(offset_of!(RawRep, ca_guid), 28);
        assert_eq!(offset_of!(RawSidrRep, service_id), 12);
        assert_eq!(offset_of!(RawSidrRep, info), 24);
        assert_eq!(offset_of!(RawLap, local_lid), 20);
        assert_eq!(offset_of!(RawLap, flow_class), 56);
        assert_eq!(offset_of!(RawApr, info), 12);
    }
}
