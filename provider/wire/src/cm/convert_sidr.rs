//! SIDR REQ and SIDR REP between the form that callers see and the one on the wire.

use super::messages::*;
use super::raw::*;
use zerocopy::byteorder::big_endian::U16;

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
