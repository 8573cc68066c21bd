//! LAP and APR between the form that callers see and the one on the wire.

use super::convert::field;
use super::messages::*;
use super::raw::*;
use zerocopy::byteorder::big_endian::{U16, U32};

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
