//! REQ and REP between the form that callers see and the one on the wire. Values wider than their
//! field lose their upper bits.

use super::CmParseError;
use super::messages::*;
use super::raw::*;
use crate::raw::ByteAnd24;
use zerocopy::byteorder::big_endian::U32;

/// Transport service type that says "see the extended type".
const EXTENDED: u8 = 3;
/// Extended transport type of XRC.
const EXTENDED_XRC: u8 = 1;

/// `value`, of which `bits` are kept, `shift` bits from the right.
pub(super) fn field(value: u8, bits: u32, shift: u32) -> u8 {
    (value & ((1 << bits) - 1)) << shift
}

impl ReqPath {
    fn from_raw(raw: &RawPath) -> ReqPath {
        let flow_rate = raw.flow_rate.get();
        ReqPath {
            local_lid: raw.local_lid.get(),
            remote_lid: raw.remote_lid.get(),
            local_gid: raw.local_gid,
            remote_gid: raw.remote_gid,
            flow_label: flow_rate >> 12,
            packet_rate: flow_rate as u8 & 0x3f,
            traffic_class: raw.traffic_class,
            hop_limit: raw.hop_limit,
            sl: raw.sl_local >> 4,
            subnet_local: raw.sl_local & 8 != 0,
            local_ack_timeout: raw.ack_timeout >> 3,
        }
    }

    fn to_raw(self) -> RawPath {
        RawPath {
            local_lid: self.local_lid.into(),
            remote_lid: self.remote_lid.into(),
            local_gid: self.local_gid,
            remote_gid: self.remote_gid,
            flow_rate: (self.flow_label << 12 | u32::from(field(self.packet_rate, 6, 0))).into(),
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            sl_local: field(self.sl, 4, 4) | field(self.subnet_local.into(), 1, 3),
            ack_timeout: field(self.local_ack_timeout, 5, 3),
        }
    }
}

impl Transport {
    fn from_raw(service: u8, extended: u8) -> Option<Transport> {
        match (service, extended) {
            (0, _) => Some(Transport::Rc),
            (1, _) => Some(Transport::Uc),
            (2, _) => Some(Transport::Rd),
            (EXTENDED, EXTENDED_XRC) => Some(Transport::Xrc),
            _ => None,
        }
    }

    fn to_raw(self) -> (u8, u8) {
        match self {
            Transport::Rc => (0, 0),
            Transport::Uc => (1, 0),
            Transport::Rd => (2, 0),
            Transport::Xrc => (EXTENDED, EXTENDED_XRC),
        }
    }
}

impl Req {
    pub(super) fn from_raw(raw: &RawReq, modifier: u32) -> Result<Req, CmParseError> {
        let service = raw.remote_eecn_service.byte();
        Ok(Req {
            local_comm_id: raw.local_comm_id.get(),
            service_id: raw.service_id.get(),
            ca_guid: raw.ca_guid.get(),
            local_qkey: raw.local_qkey.get(),
            local_qpn: raw.qpn_resources.number(),
            responder_resources: raw.qpn_resources.byte(),
            local_eecn: raw.eecn_depth.number(),
            initiator_depth: raw.eecn_depth.byte(),
            remote_eecn: raw.remote_eecn_service.number(),
            remote_response_timeout: service >> 3,
            transport: Transport::from_raw(service >> 1 & 3, raw.retries_srq & 7)
                .ok_or(CmParseError::Transport)?,
            flow_control: service & 1 != 0,
            starting_psn: raw.psn_timeout_retry.number(),
            local_response_timeout: raw.psn_timeout_retry.byte() >> 3,
            retry_count: raw.psn_timeout_retry.byte() & 7,
            pkey: raw.pkey.get(),
            mtu: raw.mtu_rnr >> 4,
            rdc_exists: raw.mtu_rnr & 8 != 0,
            rnr_retry_count: raw.mtu_rnr & 7,
            max_cm_retries: raw.retries_srq >> 4,
            srq: raw.retries_srq & 8 != 0,
            primary: ReqPath::from_raw(&raw.primary),
            alternate: ReqPath::from_raw(&raw.alternate),
            ece: Ece {
                vendor_id: raw.vendor.number(),
                attributes: modifier,
            },
            private_data: PrivateData(raw.private_data),
        })
    }

    pub(super) fn to_raw(self) -> RawReq {
        let (service, extended) = self.transport.to_raw();
        RawReq {
            local_comm_id: self.local_comm_id.into(),
            vendor: ByteAnd24::new(0, self.ece.vendor_id),
            service_id: self.service_id.into(),
            ca_guid: self.ca_guid.into(),
            reserved: U32::ZERO,
            local_qkey: self.local_qkey.into(),
            qpn_resources: NumberAnd8::new(self.local_qpn, self.responder_resources),
            eecn_depth: NumberAnd8::new(self.local_eecn, self.initiator_depth),
            remote_eecn_service: NumberAnd8::new(
                self.remote_eecn,
                field(self.remote_response_timeout, 5, 3)
                    | service << 1
                    | u8::from(self.flow_control),
            ),
            psn_timeout_retry: NumberAnd8::new(
                self.starting_psn,
                field(self.local_response_timeout, 5, 3) | field(self.retry_count, 3, 0),
            ),
            pkey: self.pkey.into(),
            mtu_rnr: field(self.mtu, 4, 4)
                | field(self.rdc_exists.into(), 1, 3)
                | field(self.rnr_retry_count, 3, 0),
            retries_srq: field(self.max_cm_retries, 4, 4) | field(self.srq.into(), 1, 3) | extended,
            primary: self.primary.to_raw(),
            alternate: self.alternate.to_raw(),
            private_data: self.private_data.0,
        }
    }
}

impl Rep {
    pub(super) fn from_raw(raw: &RawRep, modifier: u32) -> Rep {
        let vendor = [raw.qpn.byte(), raw.eecn.byte(), raw.psn.byte()];
        Rep {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            local_qkey: raw.local_qkey.get(),
            local_qpn: raw.qpn.number(),
            local_eecn: raw.eecn.number(),
            starting_psn: raw.psn.number(),
            responder_resources: raw.responder_resources,
            initiator_depth: raw.initiator_depth,
            target_ack_delay: raw.ack_delay >> 3,
            failover_accepted: raw.ack_delay >> 1 & 3,
            flow_control: raw.ack_delay & 1 != 0,
            rnr_retry_count: raw.rnr_srq >> 5,
            srq: raw.rnr_srq & 0x10 != 0,
            ca_guid: raw.ca_guid.get(),
            ece: Ece {
                vendor_id: u32::from_be_bytes([0, vendor[0], vendor[1], vendor[2]]),
                attributes: modifier,
            },
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawRep {
        let [_, high, middle, low] = self.ece.vendor_id.to_be_bytes();
        RawRep {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            local_qkey: self.local_qkey.into(),
            qpn: NumberAnd8::new(self.local_qpn, high),
            eecn: NumberAnd8::new(self.local_eecn, middle),
            psn: NumberAnd8::new(self.starting_psn, low),
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            ack_delay: field(self.target_ack_delay, 5, 3)
                | field(self.failover_accepted, 2, 1)
                | u8::from(self.flow_control),
            rnr_srq: field(self.rnr_retry_count, 3, 5) | field(self.srq.into(), 1, 4),
            ca_guid: self.ca_guid.into(),
            private_data: self.private_data.0,
        }
    }
}
