//! One host with its queue pair and the application that follows a plan.

use crate::host::SimHost;
use crate::plan::{PlannedSend, SidePlan};
use crate::rng::Rng;
use crate::wire::{self, SimSink};
use crate::world::{Options, QPN};
use ferroce_transport::state::transition;
use ferroce_transport::{
    Access, Completion, Duration, EarlyMemory, PostError, Qp, QpAttr, QpAttrMask, QpCap, QpConfig,
    QpState, QpType, RecvWqe, SendData, SendRequest, Sge, Time,
};
use ferroce_wire::icrc::Flow;
use smallvec::SmallVec;

/// Where sides keep what comes early: as much as they like, or a few packets.
pub(crate) static EARLY: EarlyMemory = EarlyMemory::new(1 << 30);
static LITTLE: EarlyMemory = EarlyMemory::new(9000);

/// One side's settings.
#[derive(Clone, Copy, Debug)]
pub struct SideOptions {
    /// Attributes for the connection.
    pub attr: QpAttr,
    /// Queue capacities.
    pub cap: QpCap,
    /// All send requests are signaled.
    pub all_signaled: bool,
    /// Receives come from a shared receive queue.
    pub srq: bool,
    /// RC, or a side of an extended connection.
    pub service: QpType,
    /// Bytes in flight.
    pub window: u32,
    /// The window changes with every call, and calls are not always repeated at once.
    pub fickle: bool,
    /// Bytes a `transmit` call.
    pub budget: u32,
    /// How long ACKs may wait, if they may.
    pub defer: Option<Duration>,
    /// Longest pause between posts.
    pub pause: Duration,
    /// Longest pause between posts of receive requests.
    pub recv_pause: Duration,
    /// Whether it understands selective acknowledgements, and where it keeps what comes early.
    pub selective: Option<&'static EarlyMemory>,
    /// When it is told that the peer may be one that does, too; 0: before it connects.
    pub introduced_at: Time,
    /// Whether it understands filled packets, and which it prefers to send.
    pub fills: Fills,
    /// Bytes of one message that it sends in one piece at most, 0: packets.
    pub stretch: u32,
    /// When the side reaches RTS.
    pub ready_at: Time,
}

/// What a side fills, where its peer understands that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fills {
    /// No packets, and it understands none.
    Nothing,
    /// Packets of the path MTU: the peer is on another machine.
    Full,
    /// Short ones, too: it is on the same.
    All,
}

/// Something that a side's program or its queue pair did, for whoever keeps a record.
#[derive(Clone, Debug)]
pub enum Deed {
    /// The queue pair was set to this.
    Set(QpAttr),
    /// The request of this index was posted.
    PostSend(usize),
    /// The receive request of this index was posted.
    PostRecv(usize),
    /// A datagram came, and was whole.
    Came(Vec<u8>),
    /// A datagram was sent.
    Sent(Vec<u8>),
    /// A request was completed; `true`: a receive request.
    Completed(bool, Completion),
}

/// Which sides understand selective acknowledgements, and which filled packets, and which send in
/// stretches, of generators of their own: what else a seed means stays.
pub(crate) fn choose_recovery(seed: u64, sides: &mut [SideOptions; 2]) {
    let mut choice = Rng::new(seed ^ 0x5ac4);
    let mut moment = Rng::new(seed ^ 0x17d0);
    let mut filling = Rng::new(seed ^ 0xf111);
    let mut stretching = Rng::new(seed ^ 0x57e7);
    for side in sides {
        side.selective = choice.pick(&[None, Some(&EARLY), Some(&EARLY), Some(&LITTLE)]);
        let most = moment.pick(&[1, 1, 20_000, 300_000]);
        side.introduced_at = Time::from_nanos(moment.below(most));
        side.fills = filling.pick(&[Fills::Nothing, Fills::Full, Fills::All, Fills::All]);
        // A datagram holds no more than 64 KiB.
        side.stretch = stretching.pick(&[0, 0, 9_000, 60_000]);
    }
}

/// One host with its queue pair and application.
pub struct Side {
    /// The queue pair.
    pub qp: Qp,
    /// What it runs on.
    pub host: SimHost,
    /// Its sink.
    pub sink: SimSink,
    /// Its settings.
    pub options: SideOptions,
    /// Requests of the plan.
    pub sends: Vec<PlannedSend>,
    /// Receive requests of the plan.
    pub recvs: Vec<Vec<Sge>>,
    /// Shared receive queue of the XRC domain that each of them is for, 0 without.
    pub recv_srqs: Vec<u32>,
    /// Requests posted.
    pub posted: usize,
    /// Receive requests posted.
    pub recv_posted: usize,
    /// What was done, and when, if a record is kept.
    pub deeds: Option<Vec<(Time, Deed)>>,
    pub(crate) flow: Flow,
    pub(crate) ready: bool,
    pub(crate) blocked: bool,
    pub(crate) recv_blocked: bool,
    pub(crate) post_at: Option<Time>,
    pub(crate) recv_at: Option<Time>,
    pub(crate) ack_at: Option<Time>,
    pub(crate) resume_at: Option<Time>,
    pub(crate) introduce_at: Option<Time>,
    pub(crate) checked: usize,
    pub(crate) stopped: bool,
    /// Send and receive completions that are in the record.
    told: [usize; 2],
}

impl Side {
    pub(crate) fn new(index: usize, options: &Options, plan: SidePlan) -> Side {
        let o = options.sides[index];
        let mut host: SimHost = SimHost::default();
        let queues = plan.memory.srqs.keys();
        let queues = queues.map(|srq| (*srq, Default::default()));
        host.xrc.borrow_mut().extend(queues);
        *host.memory.borrow_mut() = plan.memory;
        host.model.sends = plan.sends.iter().map(|s| s.expect.clone()).collect();
        host.model.recvs = plan.recv_expects;
        host.model.peer = QPN[1 - index];
        let qp = Qp::new(QpConfig {
            qpn: QPN[index],
            qp_type: o.service,
            cap: o.cap,
            sq_sig_all: o.all_signaled,
            srq: o.srq,
            mtu: 0,
            seed: options.seed ^ index as u64,
            stretch: 1,
            selective: o.selective,
            introduced: o.introduced_at == Time::ZERO,
        });

        let sink = SimSink::new(index, host.memory.clone());
        let mut side = Side {
            qp,
            host,
            sink,
            options: o,
            sends: plan.sends,
            recvs: plan.recvs,
            recv_srqs: plan.recv_srqs,
            posted: 0,
            recv_posted: 0,
            deeds: options.record.then(Vec::new),
            flow: wire::flow(1 - index),
            ready: false,
            blocked: false,
            recv_blocked: false,
            post_at: Some(o.ready_at),
            recv_at: Some(Time::ZERO),
            ack_at: None,
            resume_at: None,
            introduce_at: (o.introduced_at != Time::ZERO).then_some(o.introduced_at),
            checked: 0,
            stopped: false,
            told: [0; 2],
        };

        side.connect(index);
        side
    }

    /// RESET to RTR.
    fn connect(&mut self, index: usize) {
        let attr = QpAttr {
            qp_state: QpState::Init,
            qp_access_flags: Access::REMOTE_READ
                | Access::REMOTE_WRITE
                | Access::REMOTE_ATOMIC
                | Access::FLUSH_GLOBAL
                | Access::FLUSH_PERSISTENT,
            port_num: 1,
            dest_qp_num: QPN[1 - index],
            ..self.options.attr
        };

        self.modify(&attr, self.step(QpState::Reset, QpState::Init), Time::ZERO);
        let attr = QpAttr {
            qp_state: QpState::Rtr,
            ..attr
        };
        self.modify(&attr, self.step(QpState::Init, QpState::Rtr), Time::ZERO);
        if self.introduce_at.is_none() {
            self.expect_filled();
        }
    }

    /// The peer may be one that understands filled packets.
    pub(crate) fn expect_filled(&mut self) {
        let fills = self.options.fills;
        if fills != Fills::Nothing {
            self.qp.expect_filled(fills == Fills::All);
        }
    }

    /// The attributes that a step on the way to RTS takes.
    fn step(&self, from: QpState, to: QpState) -> QpAttrMask {
        let row = transition(self.options.service, from, to).expect("a way to RTS");
        row.required | QpAttrMask::STATE
    }

    /// RTR to RTS.
    pub(crate) fn get_ready(&mut self, now: Time) {
        let attr = QpAttr {
            qp_state: QpState::Rts,
            ..self.options.attr
        };
        self.modify(&attr, self.step(QpState::Rtr, QpState::Rts), now);
        self.ready = true;
        if self.introduce_at.is_none() {
            self.qp.introduce();
        }
    }

    pub(crate) fn modify(&mut self, attr: &QpAttr, mask: QpAttrMask, now: Time) {
        self.qp
            .modify(attr, mask, now, &mut self.host)
            .expect("modify");
        self.did(|side| Deed::Set(side.qp.query()));
    }

    /// Notes what was done, and before it what was completed.
    pub(crate) fn did(&mut self, deed: impl FnOnce(&Side) -> Deed) {
        if self.deeds.is_some() {
            let deed = deed(self);
            self.tell(Some(deed));
        }
    }

    /// Notes what was completed since the last thing that was done, and that.
    pub fn tell(&mut self, deed: Option<Deed>) {
        let now = self.host.now;
        let [sends, receives] = &mut self.told;
        let sent = self.host.sends[*sends..].iter().map(|c| (false, *c));
        let received = self.host.receives[*receives..].iter().map(|c| (true, *c));
        let completed = sent
            .chain(received)
            .map(|(receive, c)| Deed::Completed(receive, c));
        if let Some(deeds) = &mut self.deeds {
            deeds.extend(completed.chain(deed).map(|deed| (now, deed)));
        }
        (*sends, *receives) = (self.host.sends.len(), self.host.receives.len());
    }

    /// Posts the plan's next send requests, at most `n`.
    pub(crate) fn post_sends(&mut self, n: u64) {
        self.blocked = false;

        for _ in 0..n {
            let Some(planned) = self.sends.get(self.posted) else {
                return;
            };

            let data = match &planned.inline {
                Some(bytes) => SendData::Inline(bytes),
                None => SendData::Sges(&planned.sges),
            };

            let (op, flags, dest) = (planned.op, planned.flags, planned.dest);
            match self.qp.post_send(&SendRequest {
                wr_id: self.posted as u64,
                op,
                flags,
                data,
                dest,
            }) {
                Ok(()) => {
                    self.did(|side| Deed::PostSend(side.posted));
                    self.posted += 1;
                }
                Err(PostError::QueueFull) => {
                    self.blocked = true;
                    return;
                }
                Err(e) => panic!("post_send: {e}"),
            }
        }
    }

    pub(crate) fn post_recvs(&mut self, n: u64) {
        self.recv_blocked = false;

        for _ in 0..n {
            let Some(sges) = self.recvs.get(self.recv_posted) else {
                return;
            };

            let wr_id = self.recv_posted as u64;
            if self.options.srq {
                let wqe = RecvWqe {
                    skip: 0,
                    wr_id,
                    sges: SmallVec::from_slice(sges),
                };
                match self.recv_srqs.get(self.recv_posted) {
                    None | Some(0) => self.host.srq.borrow_mut().push_back(wqe),
                    Some(srq) => {
                        let mut xrc = self.host.xrc.borrow_mut();
                        xrc.entry(*srq).or_default().borrow_mut().push_back(wqe);
                    }
                }
            } else {
                match self.qp.post_recv(wr_id, sges) {
                    Ok(()) => {}
                    Err(PostError::QueueFull) => {
                        self.recv_blocked = true;
                        return;
                    }
                    Err(e) => panic!("post_recv: {e}"),
                }
            }

            self.did(|side| Deed::PostRecv(side.recv_posted));
            self.recv_posted += 1;
        }
    }
}
