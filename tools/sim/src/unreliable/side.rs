//! One host of an unreliable world: its queue pair, its program, and what of it has been seen.

use super::oracle::Oracle;
use super::plan::{Plan, SidePlan};
use crate::tester::{QKEY, TesterHost};
use crate::tester_host::Flushed;
use crate::wire::SimSink;
use crate::world::QPN;
use ferroce_transport::state::transition;
use ferroce_transport::{
    Access, PostError, Qp, QpAttr, QpAttrMask, QpCap, QpConfig, QpState, QpType, RecvWqe, SendData,
    SendFlags, SendRequest, Time, WcStatus,
};
use ferroce_wire::Packet;

pub(crate) struct Side {
    pub(crate) qp: Qp,
    pub(crate) host: TesterHost,
    pub(crate) sink: SimSink,
    pub(crate) plan: SidePlan,
    pub(crate) oracle: Oracle,
    /// Of each packet sent, the message and the place in it.
    pub(crate) program: Vec<(usize, usize)>,
    /// Messages posted, and receive requests.
    pub(crate) posted: [usize; 2],
    /// The message whose packets go out, or went last.
    pub(crate) sending: Option<usize>,
    pub(crate) flushed: Vec<bool>,
    /// Send and receive completions looked at.
    pub(crate) seen: [usize; 2],
    /// Message after the last whose completion was seen.
    pub(crate) next: usize,
    pub(crate) delivered: Option<usize>,
    pub(crate) broken: bool,
    pub(crate) post_at: Option<Time>,
    pub(crate) recv_at: Option<Time>,
    pub(crate) again_at: Option<Time>,
}

impl Side {
    pub(crate) fn new(index: usize, world: &Plan, plan: SidePlan) -> Side {
        let mut host = TesterHost::default();
        *host.memory.borrow_mut() = plan.memory.clone();
        let sink = SimSink::new(index, host.memory.clone());
        host.model = Flushed(Some(sink.referring.clone()));
        let config = QpConfig {
            qpn: QPN[index],
            qp_type: world.service,
            cap: QpCap {
                max_send_wr: 16,
                max_recv_wr: 256,
                max_send_sge: 3,
                max_recv_sge: 3,
                max_inline_data: 64,
            },
            srq: plan.srq,
            mtu: world.mtu,
            ..QpConfig::default()
        };

        let mut side = Side {
            qp: Qp::new(config),
            oracle: Oracle::new(world.service, world.mtu, plan.memory.clone()),
            host,
            sink,
            program: Vec::new(),
            posted: [0; 2],
            sending: None,
            flushed: vec![false; plan.messages.len()],
            seen: [0; 2],
            next: 0,
            delivered: None,
            broken: false,
            post_at: Some(Time::ZERO),
            recv_at: Some(Time::ZERO),
            again_at: None,
            plan,
        };

        let attr = QpAttr {
            path_mtu: world.mtu,
            dest_qp_num: QPN[1 - index],
            qp_access_flags: Access::REMOTE_WRITE,
            qkey: QKEY,
            sq_psn: side.plan.psn,
            rq_psn: world.sides[1 - index].psn,
            port_num: 1,
            ..QpAttr::default()
        };

        for (from, to) in [
            (QpState::Reset, QpState::Init),
            (QpState::Init, QpState::Rtr),
            (QpState::Rtr, QpState::Rts),
        ] {
            let row = transition(world.service, from, to).expect("a way to RTS");
            let attr = QpAttr {
                qp_state: to,
                ..attr
            };
            side.modify(&attr, row.required | QpAttrMask::STATE);
        }

        side
    }

    fn modify(&mut self, attr: &QpAttr, mask: QpAttrMask) {
        self.qp
            .modify(attr, mask, Time::ZERO, &mut self.host)
            .expect("modify");
    }

    pub(crate) fn go(&mut self, state: QpState) {
        let attr = QpAttr {
            qp_state: state,
            en_sqd_async_notify: true,
            ..QpAttr::default()
        };
        let mask = match state {
            QpState::Sqd => QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY,
            _ => QpAttrMask::STATE,
        };
        self.modify(&attr, mask);
    }

    pub(crate) fn post_send(&mut self) {
        let Some(m) = self.plan.messages.get(self.posted[0]) else {
            return;
        };

        let data = match &m.inline {
            Some(bytes) => SendData::Inline(bytes),
            None => SendData::Sges(&m.sges),
        };

        match self.qp.post_send(&SendRequest {
            wr_id: self.posted[0] as u64,
            op: m.op,
            flags: m.flags,
            data,
            dest: m.dest,
        }) {
            Ok(()) => self.posted[0] += 1,
            Err(PostError::QueueFull) => {}
            Err(e) => panic!("post_send: {e}"),
        }
    }

    pub(crate) fn post_recv(&mut self) {
        let Some(sges) = self.plan.recvs.get(self.posted[1]) else {
            return;
        };

        let wr_id = self.posted[1] as u64;
        if self.plan.srq {
            let sges = sges.iter().copied().collect();
            self.host.srq.borrow_mut().push_back(RecvWqe {
                wr_id,
                sges,
                skip: 0,
            });
        } else {
            self.qp.post_recv(wr_id, sges).expect("post_recv");
        }

        self.oracle.posted(wr_id, &self.plan.recvs[self.posted[1]]);
        self.posted[1] += 1;
    }

    /// Each request completes once, in order: with success, its own error, or flushed after
    /// another's.
    pub(super) fn look_at_sends(&mut self) {
        while let Some(c) = self.host.sends.get(self.seen[0]) {
            self.seen[0] += 1;
            let index = c.wr_id as usize;
            assert!(index >= self.next && index < self.posted[0], "{c:?}");
            for silent in self.next..index {
                let m = &self.plan.messages[silent];
                let may = !m.flags.contains(SendFlags::SIGNALED) && m.fault.is_none();
                assert!(may && !self.broken, "the completion of {silent} is missing");
            }

            let m = &self.plan.messages[index];
            match c.status {
                WcStatus::Success => {
                    assert!(
                        m.flags.contains(SendFlags::SIGNALED) && !self.broken,
                        "{c:?}"
                    );
                    assert_eq!(m.fault, None);
                }
                WcStatus::WrFlushErr => {
                    assert!(self.broken, "{c:?} without an error");
                    self.flushed[index] = true;
                }
                status => {
                    assert!(!self.broken, "{c:?}");
                    assert_eq!(m.fault, Some(status), "request {index}");
                    self.broken = true;
                }
            }

            self.next = index + 1;
        }

        assert_eq!(self.broken, self.qp.state() == QpState::Sqe);
    }

    /// Books a packet that goes out: it must be the next of its program, and carry what that says.
    pub(crate) fn book(&mut self, service: QpType, mtu: u32, packet: &Packet<'_>) {
        let psn = self.plan.psn.wrapping_add(self.program.len() as u32) & 0xff_ffff;
        assert_eq!(
            packet.bth.psn, psn,
            "PSNs go up by one, and nothing goes out twice"
        );

        let k = match self.program.last() {
            Some((_, k)) if !packet.info.begins() => k + 1,
            _ => {
                let after = self.sending.map_or(0, |m| m + 1);
                let sent = |m: &usize| self.plan.messages[*m].is_sent() && !self.flushed[*m];
                self.sending = (after..self.posted[0]).find(sent);
                0
            }
        };

        let index = self.sending.expect("a packet of a message that was posted");
        let m = &self.plan.messages[index];
        let mtu = mtu as usize;
        let end = ((k + 1) * mtu).min(m.data.len());
        assert!(packet.payload == m.data[k * mtu..end], "message {index}");
        assert_eq!(packet.info.ends(), end == m.data.len());
        assert!(!packet.bth.ack_req || service != QpType::Uc);
        self.program.push((index, k));
    }
}
