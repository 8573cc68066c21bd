//! Between the words of the protocol and those of `<infiniband/verbs.h>`. Values that verbs has no
//! word for go to the device as something that it refuses.

use ferroce_cabi::{
    IBV_GID_TYPE_ROCE_V2, ibv_ah_attr, ibv_device_attr, ibv_gid, ibv_gid_entry, ibv_global_route,
    ibv_port_attr, ibv_qp_attr, ibv_qp_cap, ibv_wc, qp_type, wc_flags, wr_opcode,
};
use ferroce_ibta::protocol::{
    AddressVector, Completion, CreateQp, DeviceInfo, Opcode, PortState, QpAttributes, Reply,
    Service,
};
use ferroce_wire::mtu;
use libc::{c_int, c_uint};

use super::objects::attributes;

/// `enum ibv_qp_attr_mask`.
mod mask {
    use libc::c_int;
    pub(super) const STATE: c_int = 1 << 0;
    pub(super) const CUR_STATE: c_int = 1 << 1;
    pub(super) const EN_SQD_ASYNC_NOTIFY: c_int = 1 << 2;
    pub(super) const ACCESS_FLAGS: c_int = 1 << 3;
    pub(super) const PKEY_INDEX: c_int = 1 << 4;
    pub(super) const PORT: c_int = 1 << 5;
    pub(super) const QKEY: c_int = 1 << 6;
    pub(super) const AV: c_int = 1 << 7;
    pub(super) const PATH_MTU: c_int = 1 << 8;
    pub(super) const TIMEOUT: c_int = 1 << 9;
    pub(super) const RETRY_CNT: c_int = 1 << 10;
    pub(super) const RNR_RETRY: c_int = 1 << 11;
    pub(super) const RQ_PSN: c_int = 1 << 12;
    pub(super) const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub(super) const MIN_RNR_TIMER: c_int = 1 << 15;
    pub(super) const SQ_PSN: c_int = 1 << 16;
    pub(super) const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub(super) const DEST_QPN: c_int = 1 << 20;
}

/// `IBV_DEVICE_AUTO_PATH_MIG`.
const AUTO_PATH_MIG: u32 = 1 << 4;
/// `IBV_DEVICE_XRC`.
const XRC: u32 = 1 << 20;
/// `IBV_LINK_LAYER_ETHERNET`.
const ETHERNET: u8 = 2;

/// What the queue pairs of a service have.
pub(super) fn mask_of(service: c_uint) -> c_int {
    use mask::*;
    let all = STATE | CUR_STATE | PKEY_INDEX | PORT | SQ_PSN;
    let connected = ACCESS_FLAGS | AV | PATH_MTU | RQ_PSN | DEST_QPN;
    let reliable =
        TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC | MIN_RNR_TIMER | MAX_DEST_RD_ATOMIC;
    match service {
        qp_type::UD => all | QKEY,
        qp_type::UC => all | connected,
        qp_type::XRC_RECV => all | connected | TIMEOUT | MIN_RNR_TIMER | MAX_DEST_RD_ATOMIC,
        _ => all | connected | reliable,
    }
}

/// The structure for `ibv_modify_qp(3)`, and its mask.
pub(super) fn to_attr(from: &QpAttributes) -> (ibv_qp_attr, c_int) {
    let mut attr = attributes();
    let mut set = 0;
    /// A field that is given, in the mask.
    macro_rules! field {
        ($($from:ident -> $bit:ident: $to:ident = $value:expr;)*) => {
            $(if let Some($from) = from.$from {
                attr.$to = $value;
                set |= mask::$bit;
            })*
        };
    }

    field! {
        qp_state -> STATE: qp_state = qp_state;
        cur_qp_state -> CUR_STATE: cur_qp_state = cur_qp_state;
        en_sqd_async_notify -> EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify = en_sqd_async_notify.into();
        qp_access_flags -> ACCESS_FLAGS: qp_access_flags = qp_access_flags;
        pkey_index -> PKEY_INDEX: pkey_index = pkey_index;
        port_num -> PORT: port_num = port_num;
        qkey -> QKEY: qkey = qkey;
        ah_attr -> AV: ah_attr = to_ah_attr(&ah_attr);
        path_mtu -> PATH_MTU: path_mtu = mtu_code(path_mtu);
        timeout -> TIMEOUT: timeout = timeout;
        retry_cnt -> RETRY_CNT: retry_cnt = retry_cnt;
        rnr_retry -> RNR_RETRY: rnr_retry = rnr_retry;
        rq_psn -> RQ_PSN: rq_psn = rq_psn;
        max_rd_atomic -> MAX_QP_RD_ATOMIC: max_rd_atomic = max_rd_atomic;
        min_rnr_timer -> MIN_RNR_TIMER: min_rnr_timer = min_rnr_timer;
        sq_psn -> SQ_PSN: sq_psn = sq_psn;
        max_dest_rd_atomic -> MAX_DEST_RD_ATOMIC: max_dest_rd_atomic = max_dest_rd_atomic;
        dest_qp_num -> DEST_QPN: dest_qp_num = dest_qp_num;
    }

    (attr, set)
}

/// What `ibv_query_qp(3)` said, of the attributes in `set`.
pub(super) fn from_attr(attr: &ibv_qp_attr, set: c_int) -> QpAttributes {
    let has = |bit| set & bit != 0;
    QpAttributes {
        qp_state: Some(attr.qp_state),
        cur_qp_state: Some(attr.cur_qp_state),
        en_sqd_async_notify: None,
        qp_access_flags: has(mask::ACCESS_FLAGS).then_some(attr.qp_access_flags),
        pkey_index: has(mask::PKEY_INDEX).then_some(attr.pkey_index),
        port_num: has(mask::PORT).then_some(attr.port_num),
        qkey: has(mask::QKEY).then_some(attr.qkey),
        ah_attr: has(mask::AV).then(|| from_ah_attr(&attr.ah_attr)),
        path_mtu: has(mask::PATH_MTU).then(|| mtu_bytes(attr.path_mtu)),
        timeout: has(mask::TIMEOUT).then_some(attr.timeout),
        retry_cnt: has(mask::RETRY_CNT).then_some(attr.retry_cnt),
        rnr_retry: has(mask::RNR_RETRY).then_some(attr.rnr_retry),
        rq_psn: has(mask::RQ_PSN).then_some(attr.rq_psn),
        max_rd_atomic: has(mask::MAX_QP_RD_ATOMIC).then_some(attr.max_rd_atomic),
        min_rnr_timer: has(mask::MIN_RNR_TIMER).then_some(attr.min_rnr_timer),
        sq_psn: has(mask::SQ_PSN).then_some(attr.sq_psn),
        max_dest_rd_atomic: has(mask::MAX_DEST_RD_ATOMIC).then_some(attr.max_dest_rd_atomic),
        dest_qp_num: has(mask::DEST_QPN).then_some(attr.dest_qp_num),
        sq_draining: Some(attr.sq_draining != 0),
    }
}

/// Where to, for address handles and queue pairs.
pub(super) fn to_ah_attr(av: &AddressVector) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid {
                raw: av.dgid.unwrap_or_default(),
            },
            flow_label: av.flow_label,
            sgid_index: av.sgid_index,
            hop_limit: av.hop_limit,
            traffic_class: av.traffic_class,
        },
        dlid: av.dlid,
        sl: av.sl,
        src_path_bits: 0,
        static_rate: 0,
        is_global: av.dgid.is_some().into(),
        port_num: av.port,
    }
}

fn from_ah_attr(attr: &ibv_ah_attr) -> AddressVector {
    AddressVector {
        dgid: (attr.is_global != 0).then_some(attr.grh.dgid.raw),
        sgid_index: attr.grh.sgid_index,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        flow_label: attr.grh.flow_label,
        dlid: attr.dlid,
        sl: attr.sl,
        port: attr.port_num,
    }
}

/// `enum ibv_mtu`; 0, which it does not have, for what is no MTU.
fn mtu_code(bytes: u32) -> c_uint {
    let code = mtu::code(bytes);
    match mtu::bytes(code) == Some(bytes) {
        true => code.into(),
        false => 0,
    }
}

fn mtu_bytes(code: c_uint) -> u32 {
    mtu::bytes(code).unwrap_or(0)
}

/// `enum ibv_qp_type`.
pub(super) fn service(service: Service) -> c_uint {
    match service {
        Service::Rc => qp_type::RC,
        Service::Uc => qp_type::UC,
        Service::Ud => qp_type::UD,
        Service::XrcTarget => qp_type::XRC_RECV,
    }
}

/// Capacities to ask for.
pub(super) fn cap(what: &CreateQp) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: what.max_send_wr,
        max_recv_wr: what.max_recv_wr,
        max_send_sge: what.max_send_sge,
        max_recv_sge: what.max_recv_sge,
        max_inline_data: what.max_inline_data,
    }
}

/// `enum ibv_wr_opcode`.
pub(super) fn opcode(opcode: Opcode) -> c_uint {
    match opcode {
        Opcode::Send => wr_opcode::SEND,
        Opcode::SendWithImm => wr_opcode::SEND_WITH_IMM,
        Opcode::SendWithInv => wr_opcode::SEND_WITH_INV,
        Opcode::RdmaWrite => wr_opcode::RDMA_WRITE,
        Opcode::RdmaWriteWithImm => wr_opcode::RDMA_WRITE_WITH_IMM,
        Opcode::RdmaRead => wr_opcode::RDMA_READ,
        Opcode::CompareSwap => wr_opcode::ATOMIC_CMP_AND_SWP,
        Opcode::FetchAdd => wr_opcode::ATOMIC_FETCH_AND_ADD,
        Opcode::LocalInv => wr_opcode::LOCAL_INV,
        Opcode::BindMw => wr_opcode::BIND_MW,
    }
}

/// A completion. Of one that is an error only what verbs promises is passed on.
pub(super) fn completion(wc: &ibv_wc) -> Completion {
    let good = Completion {
        wr_id: wc.wr_id,
        status: wc.status,
        qp: wc.qp_num,
        ..Completion::default()
    };
    if wc.status != 0 {
        return good;
    }

    let has = |flag| wc.wc_flags & flag != 0;
    Completion {
        opcode: wc.opcode,
        byte_len: wc.byte_len,
        imm: has(wc_flags::WITH_IMM).then(|| wc.imm_or_rkey.to_ne_bytes()),
        invalidated: has(wc_flags::WITH_INV).then_some(wc.imm_or_rkey),
        grh: has(wc_flags::GRH),
        src_qp: wc.src_qp,
        ..good
    }
}

/// The device.
pub(super) fn device(name: &str, attr: &ibv_device_attr) -> DeviceInfo {
    let count = |number: c_int| u32::try_from(number).unwrap_or(0);
    DeviceInfo {
        name: name.to_owned(),
        ports: attr.phys_port_cnt,
        max_qp_rd_atom: count(attr.max_qp_rd_atom),
        max_qp_init_rd_atom: count(attr.max_qp_init_rd_atom),
        atomics: attr.atomic_cap != 0,
        auto_path_mig: attr.device_cap_flags & AUTO_PATH_MIG != 0,
        xrc: attr.device_cap_flags & XRC != 0,
        node_guid: u64::from_be_bytes(attr.node_guid),
        system_image_guid: u64::from_be_bytes(attr.sys_image_guid),
        vendor_id: attr.vendor_id,
        hw_ver: attr.hw_ver,
        vendor_part_id: attr.vendor_part_id,
        fw_ver: text(&attr.fw_ver),
    }
}

/// A C string in an array.
fn text(bytes: &[u8]) -> String {
    let until_nul = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(until_nul).into_owned()
}

/// A port.
pub(super) fn port(attr: &ibv_port_attr) -> PortState {
    PortState {
        state: attr.state,
        active_mtu: mtu_bytes(attr.active_mtu),
        gid_tbl_len: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
        pkey_tbl_len: attr.pkey_tbl_len,
        lid: attr.lid,
        sm_lid: attr.sm_lid,
        sm_sl: attr.sm_sl,
        lmc: attr.lmc,
        ethernet: attr.link_layer == ETHERNET,
        capabilities: attr.port_cap_flags,
        subnet_timeout: attr.subnet_timeout,
        bad_pkeys: attr.bad_pkey_cntr,
        bad_qkeys: attr.qkey_viol_cntr,
        max_mtu: mtu_bytes(attr.max_mtu),
        phys_state: attr.phys_state,
        max_vl_num: attr.max_vl_num,
        active_width: attr.active_width,
        init_type_reply: attr.init_type_reply,
    }
}

/// An entry of a port's GID table.
pub(super) fn gid(entry: &ibv_gid_entry) -> Reply {
    Reply::Gid {
        gid: entry.gid.raw,
        roce_v2: entry.gid_type == IBV_GID_TYPE_ROCE_V2,
    }
}

/// What an asynchronous event is of.
pub(super) enum EventOf {
    Qp,
    Srq,
    Port,
    Other,
}

/// What an event of `enum ibv_event_type` is of.
pub(super) fn kind_of_event(event: u32) -> EventOf {
    match event {
        1..=7 | 16 => EventOf::Qp,
        14 | 15 => EventOf::Srq,
        9..=13 | 17 | 18 => EventOf::Port,
        _ => EventOf::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtus_are_coded_both_ways() {
        for bytes in [256, 512, 1024, 2048, 4096] {
            assert_eq!(mtu_bytes(mtu_code(bytes)), bytes);
        }
        assert_eq!([mtu_code(0), mtu_code(1500), mtu_code(8192)], [0; 3]);
        assert_eq!(mtu_code(4096), 5);
    }

    #[test]
    fn what_is_not_given_is_not_in_the_mask() {
        let given = QpAttributes {
            qp_state: Some(3),
            timeout: Some(14),
            path_mtu: Some(1024),
            ..QpAttributes::default()
        };
        let (attr, set) = to_attr(&given);
        assert_eq!(set, mask::STATE | mask::TIMEOUT | mask::PATH_MTU);
        assert_eq!((attr.qp_state, attr.timeout, attr.path_mtu), (3, 14, 3));
        let back = from_attr(&attr, set);
        assert_eq!((back.timeout, back.path_mtu), (Some(14), Some(1024)));
        assert_eq!(back.retry_cnt, None);
    }
}
