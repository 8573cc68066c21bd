//! Attributes from C to the engine's types and back.

use crate::guard::Errno;
use ferroce_cabi::*;
use ferroce_engine::{
    Access, AddressVector, DeviceAttr, PortAttr, QpAttr, QpAttrMask, QpCap, QpState, mtu,
};
use libc::{c_int, c_uint};

const INVALID: Errno = Errno(libc::EINVAL);

/// What `ibv_query_device_ex(3)` returns.
pub(crate) fn device_attr(d: &DeviceAttr) -> ibv_device_attr_ex {
    // SAFETY: all bits zero is a valid value of these integers.
    let mut attr: ibv_device_attr_ex = unsafe { std::mem::zeroed() };
    let orig = &mut attr.orig_attr;

    // The last byte stays zero.
    let version = d.fw_ver.as_bytes();
    for (to, from) in orig.fw_ver[..63].iter_mut().zip(version) {
        *to = *from;
    }
    orig.node_guid = d.node_guid;
    orig.sys_image_guid = d.sys_image_guid;
    orig.max_mr_size = d.max_mr_size;
    orig.page_size_cap = d.page_size_cap;
    orig.vendor_id = d.vendor_id;
    orig.vendor_part_id = d.vendor_part_id;
    orig.hw_ver = d.hw_ver;
    orig.max_qp = d.max_qp;
    orig.max_qp_wr = d.max_qp_wr;
    orig.device_cap_flags = d.device_cap_flags as u32; // the upper half is told below
    orig.max_sge = d.max_sge;
    orig.max_sge_rd = d.max_sge_rd;
    orig.max_cq = d.max_cq;
    orig.max_cqe = d.max_cqe;
    orig.max_mr = d.max_mr;
    orig.max_pd = d.max_pd;
    orig.max_qp_rd_atom = d.max_qp_rd_atom;
    orig.max_ee_rd_atom = d.max_ee_rd_atom;
    orig.max_res_rd_atom = d.max_res_rd_atom;
    orig.max_qp_init_rd_atom = d.max_qp_init_rd_atom;
    orig.max_ee_init_rd_atom = d.max_ee_init_rd_atom;
    orig.atomic_cap = d.atomic_cap;
    orig.max_mw = d.max_mw;
    orig.max_mcast_grp = d.max_mcast_grp;
    orig.max_mcast_qp_attach = d.max_mcast_qp_attach;
    orig.max_total_mcast_qp_attach = d.max_total_mcast_qp_attach;
    orig.max_ah = d.max_ah;
    orig.max_srq = d.max_srq;
    orig.max_srq_wr = d.max_srq_wr;
    orig.max_srq_sge = d.max_srq_sge;
    orig.max_pkeys = d.max_pkeys;
    orig.local_ca_ack_delay = d.local_ca_ack_delay;
    orig.phys_port_cnt = d.phys_port_cnt;

    // What is left zero is not offered: TSO, RSS, work queues, packet pacing, raw packets. Atomics
    // of other devices on the PCI bus are not ours to promise.
    attr.odp_caps = ibv_odp_caps {
        general_caps: d.odp.general,
        rc_odp_caps: d.odp.rc,
        uc_odp_caps: d.odp.uc,
        ud_odp_caps: d.odp.ud,
    };

    attr.xrc_odp_caps = d.odp.xrc;
    attr.completion_timestamp_mask = d.completion_timestamp_mask;
    attr.hca_core_clock = d.hca_core_clock;
    attr.cq_mod_caps = ibv_cq_moderation_caps {
        max_cq_count: d.max_cq_count,
        max_cq_period: d.max_cq_period,
    };

    attr.max_dm_size = d.max_dm_size;
    attr.tm_caps = ibv_tm_caps {
        max_rndv_hdr_size: d.tm.max_rndv_hdr_size,
        max_num_tags: d.tm.max_num_tags,
        flags: IBV_TM_CAP_RC,
        max_ops: d.tm.max_ops,
        max_sge: d.tm.max_sge,
    };

    attr.device_cap_flags_ex = d.device_cap_flags;
    attr.phys_port_cnt_ex = d.phys_port_cnt.into();
    attr
}

/// What `ibv_query_port(3)` returns.
pub(crate) fn port_attr(p: &PortAttr) -> ibv_port_attr {
    ibv_port_attr {
        state: p.state,
        max_mtu: mtu::code(p.max_mtu).into(),
        active_mtu: mtu::code(p.active_mtu).into(),
        gid_tbl_len: p.gid_tbl_len,
        port_cap_flags: p.port_cap_flags,
        max_msg_sz: p.max_msg_sz,
        bad_pkey_cntr: p.bad_pkey_cntr,
        qkey_viol_cntr: p.qkey_viol_cntr,
        pkey_tbl_len: p.pkey_tbl_len,
        lid: p.lid,
        sm_lid: p.sm_lid,
        lmc: p.lmc,
        max_vl_num: p.max_vl_num,
        sm_sl: p.sm_sl,
        subnet_timeout: p.subnet_timeout,
        init_type_reply: p.init_type_reply,
        active_width: p.active_width,
        active_speed: p.active_speed,
        phys_state: p.phys_state,
        link_layer: p.link_layer,
        flags: p.flags,
        port_cap_flags2: p.port_cap_flags2,
    }
}

/// The speed of a port in units of 100 Mbit/s, all lanes together, as the kernel reckons it; `None`
/// for codes that it does not know. Of a port that is down it is what the link would have.
pub(crate) fn port_speed(p: &PortAttr) -> Option<u64> {
    let lanes = match p.active_width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => return None,
    };

    let lane = match p.active_speed {
        1 => 25,
        2 => 50,
        4 | 8 => 100,
        16 => 140,
        32 => 250,
        64 => 500,
        128 => 1000,
        _ => return None,
    };

    Some(lanes * lane)
}

/// Capacities asked for.
pub(crate) fn cap_in(cap: &ibv_qp_cap) -> QpCap {
    QpCap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Capacities granted.
pub(crate) fn cap_out(cap: &QpCap) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// An address vector.
pub(crate) fn av_in(ah: &ibv_ah_attr) -> AddressVector {
    AddressVector {
        dgid: ah.grh.dgid.raw,
        flow_label: ah.grh.flow_label,
        sgid_index: ah.grh.sgid_index,
        hop_limit: ah.grh.hop_limit,
        traffic_class: ah.grh.traffic_class,
        dlid: ah.dlid,
        sl: ah.sl,
        src_path_bits: ah.src_path_bits,
        static_rate: ah.static_rate,
        is_global: ah.is_global != 0,
        port_num: ah.port_num,
    }
}

fn av_out(av: &AddressVector) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: av.dgid },
            flow_label: av.flow_label,
            sgid_index: av.sgid_index,
            hop_limit: av.hop_limit,
            traffic_class: av.traffic_class,
        },
        dlid: av.dlid,
        sl: av.sl,
        src_path_bits: av.src_path_bits,
        static_rate: av.static_rate,
        is_global: av.is_global.into(),
        port_num: av.port_num,
    }
}

/// Attributes of the other end of an extended connection. Programs that treat XRC as RC give them
/// all the same, and like the kernel's uverbs we do not mind.
pub(crate) fn not_its_own(qp_type: c_uint) -> QpAttrMask {
    match qp_type {
        qp_type::XRC_SEND => QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER,
        qp_type::XRC_RECV => {
            QpAttrMask::MAX_QP_RD_ATOMIC | QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY
        }
        _ => QpAttrMask::empty(),
    }
}

/// The attributes of `ibv_modify_qp(3)` that the mask names; the others keep their defaults, as the
/// caller's structure need not even be initialised there.
pub(crate) fn qp_attr_in(a: &ibv_qp_attr, mask: c_int) -> Result<(QpAttr, QpAttrMask), Errno> {
    // What came later than these, such as a rate limit, is offered by none but the devices that it
    // came with.
    let mask = QpAttrMask::from_bits(mask as u32).ok_or(Errno(libc::EOPNOTSUPP))?;
    let has = |bit| mask.contains(bit);
    let state = |value| QpState::try_from(value).map_err(|_| INVALID);
    let mut attr = QpAttr::default();
    if has(QpAttrMask::STATE) {
        attr.qp_state = state(a.qp_state)?;
    }
    if has(QpAttrMask::CUR_STATE) {
        attr.cur_qp_state = state(a.cur_qp_state)?;
    }
    if has(QpAttrMask::PATH_MTU) {
        attr.path_mtu = mtu::bytes(a.path_mtu).ok_or(INVALID)?;
    }
    if has(QpAttrMask::PATH_MIG_STATE) {
        attr.path_mig_state = a.path_mig_state;
    }
    if has(QpAttrMask::ACCESS_FLAGS) {
        attr.qp_access_flags = Access::from_bits(a.qp_access_flags).ok_or(INVALID)?;
    }
    if has(QpAttrMask::CAP) {
        attr.cap = cap_in(&a.cap);
    }
    if has(QpAttrMask::AV) {
        attr.av = av_in(&a.ah_attr);
    }

    if has(QpAttrMask::ALT_PATH) {
        attr.alt_av = av_in(&a.alt_ah_attr);
        attr.alt_pkey_index = a.alt_pkey_index;
        attr.alt_port_num = a.alt_port_num;
        attr.alt_timeout = a.alt_timeout;
    }

    attr.qkey = a.qkey;
    attr.rq_psn = a.rq_psn;
    attr.sq_psn = a.sq_psn;
    attr.dest_qp_num = a.dest_qp_num;
    attr.pkey_index = a.pkey_index;
    attr.en_sqd_async_notify = a.en_sqd_async_notify != 0;
    attr.max_rd_atomic = a.max_rd_atomic;
    attr.max_dest_rd_atomic = a.max_dest_rd_atomic;
    attr.min_rnr_timer = a.min_rnr_timer;
    attr.port_num = a.port_num;
    attr.timeout = a.timeout;
    attr.retry_cnt = a.retry_cnt;
    attr.rnr_retry = a.rnr_retry;
    Ok((attr, mask))
}

/// What `ibv_query_qp(3)` returns.
pub(crate) fn qp_attr_out(a: &QpAttr) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: a.qp_state as c_uint,
        cur_qp_state: a.cur_qp_state as c_uint,
        path_mtu: mtu::code(a.path_mtu).into(),
        path_mig_state: a.path_mig_state,
        qkey: a.qkey,
        rq_psn: a.rq_psn,
        sq_psn: a.sq_psn,
        dest_qp_num: a.dest_qp_num,
        qp_access_flags: a.qp_access_flags.bits(),
        cap: cap_out(&a.cap),
        ah_attr: av_out(&a.av),
        alt_ah_attr: av_out(&a.alt_av),
        pkey_index: a.pkey_index,
        alt_pkey_index: a.alt_pkey_index,
        en_sqd_async_notify: a.en_sqd_async_notify.into(),
        sq_draining: a.sq_draining.into(),
        max_rd_atomic: a.max_rd_atomic,
        max_dest_rd_atomic: a.max_dest_rd_atomic,
        min_rnr_timer: a.min_rnr_timer,
        port_num: a.port_num,
        timeout: a.timeout,
        retry_cnt: a.retry_cnt,
        rnr_retry: a.rnr_retry,
        alt_port_num: a.alt_port_num,
        alt_timeout: a.alt_timeout,
        rate_limit: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> ibv_qp_attr {
        // SAFETY: all bits zero is a valid value of these integers.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn no_mtu_is_refused() {
        let way_in = |path_mtu| {
            let mut attr = nothing();
            attr.path_mtu = path_mtu;
            let attr = qp_attr_in(&attr, QpAttrMask::PATH_MTU.bits() as c_int);
            attr.map(|(attr, _)| attr.path_mtu)
        };
        assert_eq!([0, 6, 257].map(way_in), [Err(INVALID); 3]);
        assert_eq!([1, 5].map(way_in), [Ok(256), Ok(4096)]);
    }

    #[test]
    fn attributes_survive_the_way_in_and_out() {
        let mut c = nothing();
        c.qp_state = 2;
        c.path_mtu = 4;
        c.dest_qp_num = 0x12_3456;
        c.rq_psn = 0xff_ffff;
        c.max_dest_rd_atomic = 7;
        c.min_rnr_timer = 31;
        c.ah_attr.is_global = 1;
        c.ah_attr.grh.dgid.raw[15] = 9;
        c.ah_attr.grh.sgid_index = 3;
        let mask = QpAttrMask::STATE
            | QpAttrMask::PATH_MTU
            | QpAttrMask::DEST_QPN
            | QpAttrMask::RQ_PSN
            | QpAttrMask::AV
            | QpAttrMask::MAX_DEST_RD_ATOMIC
            | QpAttrMask::MIN_RNR_TIMER;
        let (attr, got) = qp_attr_in(&c, mask.bits() as c_int).unwrap();
        assert_eq!(got, mask);
        let out = qp_attr_out(&attr);
        assert_eq!(
            (out.qp_state, out.path_mtu, out.dest_qp_num, out.rq_psn),
            (c.qp_state, c.path_mtu, c.dest_qp_num, c.rq_psn)
        );

        assert_eq!((out.max_dest_rd_atomic, out.min_rnr_timer), (7, 31));
        assert_eq!(
            (
                out.ah_attr.is_global,
                out.ah_attr.grh.dgid.raw[15],
                out.ah_attr.grh.sgid_index
            ),
            (1, 9, 3)
        );
    }

    #[test]
    fn numbers_outside_an_enumeration_are_refused() {
        let mut c = nothing();
        c.qp_state = 7;
        c.qp_access_flags = 1 << 19;
        assert_eq!(
            qp_attr_in(&c, QpAttrMask::STATE.bits() as c_int).unwrap_err(),
            INVALID
        );

        assert_eq!(
            qp_attr_in(&c, QpAttrMask::ACCESS_FLAGS.bits() as c_int).unwrap_err(),
            INVALID
        );

        // An attribute that nobody knows, as by the kernel.
        assert_eq!(
            qp_attr_in(&c, 1 << 30).unwrap_err(),
            Errno(libc::EOPNOTSUPP)
        );

        // What the mask does not name may hold anything.
        assert!(qp_attr_in(&c, 0).is_ok());
    }
}
