//! Managers that do what a captured message says its sender did.

use crate::pair::*;
use ferroce_fabric::Mad;
use ferroce_fabric::cm::*;
use ferroce_wire::cm::Req;

/// A manager in the place of the kernel that sent `guid`.
pub(crate) fn in_place_of(guid: u64) -> (Cm, Out) {
    let config = CmConfig {
        ca_guid: guid,
        ack_delay: 15,
        seed: [1; 32],
        limits: Limits::default(),
        stretch: 1,
    };
    (Cm::new(config), Out::default())
}

/// The path of a request, from its sender's side.
pub(crate) fn path_of(req: &Req) -> Path {
    let p = &req.primary;
    Path {
        av: Av {
            local_gid: p.local_gid,
            local_index: 0,
            remote_gid: p.remote_gid,
            pkey: req.pkey,
            sl: p.sl,
            traffic_class: p.traffic_class,
            flow_label: p.flow_label,
            hop_limit: p.hop_limit,
            local_lid: 0,
            remote_lid: 0,
        },
        mtu: req.mtu,
        packet_rate: p.packet_rate,
        packet_life_time: 18, // what rdma_cm of Linux 6.1 assumes for RoCE
    }
}

/// The sender of a request, as its receiver would answer.
pub(crate) fn reply_av(req: &Req) -> Av {
    let there = path_of(req).av;
    Av {
        local_gid: there.remote_gid,
        remote_gid: there.local_gid,
        ..there
    }
}

pub(crate) fn connect_like<'a>(req: &'a Req) -> Connect<'a> {
    Connect {
        service_id: req.service_id,
        path: path_of(req),
        qpn: req.local_qpn,
        transport: req.transport,
        starting_psn: req.starting_psn,
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        remote_response_timeout: req.remote_response_timeout,
        local_response_timeout: req.local_response_timeout,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        max_cm_retries: req.max_cm_retries,
        flow_control: req.flow_control,
        srq: req.srq,
        ece: req.ece,
        private_data: &req.private_data,
    }
}

/// The bytes of the only message that was sent, with `words` behind the header and the transaction
/// as in `like`.
pub(crate) fn only(out: &mut Out, like: &Mad, words: &[usize]) -> Mad {
    assert_eq!(out.sent.len(), 1);
    let mut mad = out.sent.pop_front().unwrap().1;
    mad[8..16].copy_from_slice(&like[8..16]);
    for word in words {
        let at = 24 + 4 * word;
        mad[at..at + 4].copy_from_slice(&like[at..at + 4]);
    }
    mad
}
