//! All messages but REQ and REP between the form that callers see and the one on the wire.

use super::convert::field;
use super::messages::*;
use super::raw::*;
use zerocopy::byteorder::big_endian::{U16, U32};

impl Mra {
    pub(super) fn from_raw(raw: &RawMra) -> Mra {
        Mra {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            message: raw.message >> 6,
            service_timeout: raw.service_timeout >> 3,
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawMra {
        RawMra {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            message: field(self.message, 2, 6),
            service_timeout: field(self.service_timeout, 5, 3),
            private_data: self.private_data.0,
        }
    }
}

impl Rej {
    pub(super) fn from_raw(raw: &RawRej) -> Rej {
        Rej {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            message: raw.message >> 6,
            ari_len: raw.ari_len >> 1,
            reason: raw.reason.get(),
            ari: PrivateData(raw.ari),
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawRej {
        RawRej {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            message: field(self.message, 2, 6),
            ari_len: field(self.ari_len, 7, 1),
            reason: self.reason.into(),
            ari: self.ari.0,
            private_data: self.private_data.0,
        }
    }
}

impl Rtu {
    pub(super) fn from_raw(raw: &RawPair) -> Rtu {
        Rtu {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawPair {
        RawPair {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            private_data: self.private_data.0,
        }
    }
}

impl Dreq {
    pub(super) fn from_raw(raw: &RawDreq) -> Dreq {
        Dreq {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            remote_qpn: raw.qpn.number(),
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawDreq {
        RawDreq {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            qpn: NumberAnd8::new(self.remote_qpn, 0),
            private_data: self.private_data.0,
        }
    }
}

impl Drep {
    pub(super) fn from_raw(raw: &RawPair) -> Drep {
        Drep {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawPair {
        RawPair {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            private_data: self.private_data.0,
        }
    }
}

impl SidrReq {
    pub(super) fn from_raw(raw: &RawSidrReq) -> SidrReq {
        SidrReq {
            request_id: raw.request_id.get(),
            pkey: raw.pkey.get(),
            service_id: raw.service_id.get(),
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawSidrReq {
        RawSidrReq {
            request_id: self.request_id.into(),
            pkey: self.pkey.into(),
            reserved: U16::ZERO,
            service_id: self.service_id.into(),
            private_data: self.private_data.0,
        }
    }
}

impl SidrRep {
    pub(super) fn from_raw(raw: &RawSidrRep, modifier: u32) -> SidrRep {
        SidrRep {
            request_id: raw.request_id.get(),
            status: raw.status,
            info_len: raw.info_len,
            qpn: raw.qpn.number(),
            service_id: raw.service_id.get(),
            qkey: raw.qkey.get(),
            ece: Ece {
                vendor_id: u32::from(raw.vendor_high.get()) << 8 | u32::from(raw.qpn.byte()),
                attributes: modifier,
            },
            info: PrivateData(raw.info),
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawSidrRep {
        RawSidrRep {
            request_id: self.request_id.into(),
            status: self.status,
            info_len: self.info_len,
            vendor_high: U16::new((self.ece.vendor_id >> 8) as u16),
            qpn: NumberAnd8::new(self.qpn, self.ece.vendor_id as u8),
            service_id: self.service_id.into(),
            qkey: self.qkey.into(),
            info: self.info.0,
            private_data: self.private_data.0,
        }
    }
}

impl Lap {
    pub(super) fn from_raw(raw: &RawLap) -> Lap {
        let flow_class = raw.flow_class.get();
        Lap {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            remote_qpn: raw.qpn_timeout.number(),
            remote_response_timeout: raw.qpn_timeout.byte() >> 3,
            alternate: ReqPath {
                local_lid: raw.local_lid.get(),
                remote_lid: raw.remote_lid.get(),
                local_gid: raw.local_gid,
                remote_gid: raw.remote_gid,
                flow_label: flow_class >> 12,
                packet_rate: raw.packet_rate & 0x3f,
                traffic_class: flow_class as u8,
                hop_limit: raw.hop_limit,
                sl: raw.sl_local >> 4,
                subnet_local: raw.sl_local & 8 != 0,
                local_ack_timeout: raw.ack_timeout >> 3,
            },
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawLap {
        let path = self.alternate;
        RawLap {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            reserved: U32::ZERO,
            qpn_timeout: NumberAnd8::new(
                self.remote_qpn,
                field(self.remote_response_timeout, 5, 3),
            ),
            reserved2: U32::ZERO,
            local_lid: path.local_lid.into(),
            remote_lid: path.remote_lid.into(),
            local_gid: path.local_gid,
            remote_gid: path.remote_gid,
            flow_class: (path.flow_label << 12 | u32::from(path.traffic_class)).into(),
            hop_limit: path.hop_limit,
            packet_rate: field(path.packet_rate, 6, 0),
            sl_local: field(path.sl, 4, 4) | field(path.subnet_local.into(), 1, 3),
            ack_timeout: field(path.local_ack_timeout, 5, 3),
            private_data: self.private_data.0,
        }
    }
}

impl Apr {
    pub(super) fn from_raw(raw: &RawApr) -> Apr {
        Apr {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            info_len: raw.info_len,
            status: raw.status,
            info: PrivateData(raw.info),
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawApr {
        RawApr {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            info_len: self.info_len,
            status: self.status,
            reserved: U16::ZERO,
            info: self.info.0,
            private_data: self.private_data.0,
        }
    }
}
