//! Making queue pairs: what each service is created with, the limits, and the place in the tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16};

use ferroce_control::faults::Verb;
use ferroce_control::objects::{Object, QueuePair};
use ferroce_control::random::random;
use ferroce_transport::{EarlyMemory, QpCap, QpConfig, QpState, QpType, Time};
use parking_lot::Mutex;

use crate::datapath::held::{Burst, Depth, Held, Unsignaled};
use crate::datapath::turns::Part;
use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::locks;
use crate::tuning::EARLY_BYTES;
use crate::verbs::completions::Completions;
use crate::verbs::context::{Context, Pd};
use crate::verbs::cq::Cq;
use crate::verbs::handles::Kind;
use crate::verbs::limits;
use crate::verbs::openers::Openers;
use crate::verbs::qp::{Inner, Qp};
use crate::verbs::rendezvous::TmQp;
use crate::verbs::shared_requests::Serves;
use crate::verbs::srq::Srq;
use crate::verbs::xrc::Xrcd;

/// What all queue pairs of the process keep of packets that came early.
static EARLY: EarlyMemory = EarlyMemory::new(EARLY_BYTES);

/// Bytes of a scatter/gather element, in whose place inline data goes.
const SGE_LEN: u32 = 16;

/// How to create a queue pair.
#[derive(Default)]
pub struct QpInit {
    /// `enum ibv_qp_type`: 2 (RC), 3 (UC), 4 (UD), 9 (XRC initiator), 10 (XRC target).
    pub qp_type: u32,
    /// Where send completions go. All but an XRC target need it.
    pub send_cq: Option<Arc<Cq>>,
    /// Where receive completions go. RC, UC and UD need it; XRC has none.
    pub recv_cq: Option<Arc<Cq>>,
    /// RC, UC, UD: takes receive requests from here rather than from a queue of its own.
    pub srq: Option<Arc<Srq>>,
    /// XRC target: its domain.
    pub xrcd: Option<Arc<Xrcd>>,
    /// Capacities asked for.
    pub cap: QpCap,
    /// Every send request raises a completion.
    pub sq_sig_all: bool,
    /// UD: no copies of its own multicast datagrams.
    pub block_loopback: bool,
    /// What async events name the queue pair by.
    pub cookie: u64,
}

impl Context {
    /// Creates an XRC target queue pair in RESET: it has neither protection domain nor completion
    /// queues.
    pub fn create_xrc_target(self: &Arc<Self>, init: QpInit) -> Result<Arc<Qp>> {
        Qp::create(self, None, init)
    }
}

impl Pd {
    /// Creates a queue pair in RESET.
    pub fn create_qp(self: &Arc<Self>, init: QpInit) -> Result<Arc<Qp>> {
        Qp::create(self.context(), Some(self), init)
    }
}

impl Qp {
    /// Creates a queue pair in RESET. Only an XRC target is without a protection domain.
    pub(crate) fn create(
        context: &Arc<Context>,
        pd: Option<&Arc<Pd>>,
        mut init: QpInit,
    ) -> Result<Arc<Qp>> {
        context.hca().allows(Verb::CreateQp)?;
        let service = service(init.qp_type)?;
        let pd = pd.filter(|_| service != QpType::XrcRecv);
        fit(&mut init, service);
        check(context, pd, service, &init)?;
        let tm = share_tags(&mut init);
        // Its objects are listed together, whatever their lanes.
        let objects = &context.hca().objects;
        let taps = &context.hca().taps;
        let lane = lane(context, &init).clone();

        let QpInit {
            qp_type,
            send_cq,
            recv_cq,
            srq,
            xrcd,
            cap,
            sq_sig_all,
            block_loopback,
            cookie,
        } = init;

        let completions = |cq: Option<Arc<Cq>>| cq.map(|cq| cq.completions().clone());
        let recv_cq = match &tm {
            Some(tm) => Some(tm.completions().clone()),
            None => completions(recv_cq),
        };

        let send_cq = completions(send_cq);
        let srq = srq.map(|srq| srq.requests().clone());

        if let Some(xrcd) = &xrcd {
            xrcd.add_user()?;
        }

        let opener = xrcd.clone();

        let made = lane.qps.write().insert(|index| {
            let number = u32::from(lane.slot()) << 16 | u32::from(index);
            let config = QpConfig {
                qpn: number,
                qp_type: service,
                cap: match &tm {
                    Some(_) => TmQp::capacities(cap),
                    None => cap,
                },
                sq_sig_all,
                srq: srq.is_some(),
                mtu: lane.datagram_mtu(),
                seed: random(),
                stretch: lane.info().stretch_timeouts,
                selective: lane.hosts.is_selective().then_some(&EARLY),
                introduced: lane.hosts.introduces_all(),
            };

            lane.objects.set_heard(index, false);
            let numbered = |cq: &Option<Arc<Completions>>| cq.as_ref().map(|cq| cq.listed_number());
            let row = objects.row([&send_cq, &recv_cq].map(numbered));
            let row = row.ok_or(Error::Full("queue pairs"))?;
            let listed = QueuePair {
                number,
                qp_type: qp_type as u8,
                pd: pd.map(|pd| pd.listed_number()),
                srq: srq.as_ref().map(|srq| srq.listed_number()),
                row: row.place(),
                ..QueuePair::default()
            };

            Ok(Arc::new(Qp {
                context: context.clone(),
                lane: lane.clone(),
                pd: pd.cloned(),
                xrcd,
                number,
                ordinal: taps.next_ordinal(),
                qp_type,
                service,
                cap,
                sq_sig_all,
                block_loopback,
                send_cq,
                recv_cq,
                srq,
                tm,
                inner: locks::Mutex::new(Inner::new(config)),
                openers: Openers::new(context.events(), opener.clone(), cookie),
                groups: Mutex::default(),
                p_key: AtomicU16::new(0xffff),
                port: AtomicU8::new(0),
                latency: Mutex::default(),
                touched: AtomicBool::new(false),
                listing: objects.enter(Object::Qp(listed)),
                row,
            }))
        });

        let qp = made.inspect_err(|_| {
            if let Some(xrcd) = &opener {
                xrcd.remove_user();
            }
        })?;

        qp.enter();
        context.shared().add(Kind::QueuePair, qp.number, &qp);
        Ok(qp)
    }

    /// A queue pair that is in the table uses what it was created with.
    fn enter(self: &Arc<Self>) {
        if let Some(pd) = &self.pd {
            pd.add_user();
        }
        for cq in [&self.send_cq, &self.recv_cq].into_iter().flatten() {
            cq.add_user();
        }
        if let Some(srq) = &self.srq {
            srq.add_user();
        }
        if let Some(domain) = self.domain() {
            domain.add_target(self);
        }

        let mut inner = self.inner.lock();
        self.empty_places(&inner);
        self.show_attributes(&inner);
        self.list(&mut inner);
    }
}

impl Inner {
    fn new(config: QpConfig) -> Inner {
        Inner {
            transport: ferroce_transport::Qp::new(config),
            path: None,
            last_path: None,
            armed_at: Time::MAX,
            armed_then: Time::MAX,
            ack_at: Time::MAX,
            resume_at: Time::MAX,
            part: Part::None,
            held: Held::default(),
            depth: Depth::default(),
            burst: Burst::default(),
            unsignaled: Unsignaled::default(),
            waiting: false,
            expected: 0,
            listed: QpState::Reset,
            heard: false,
            ended: false,
        }
    }
}

/// The lane of the queue where its receive completions go: who polls that one receives for it. An
/// XRC initiator has its send completions only, an XRC target neither.
fn lane<'a>(context: &'a Arc<Context>, init: &'a QpInit) -> &'a Arc<Hca> {
    let cq = init.recv_cq.as_ref().or(init.send_cq.as_ref());
    cq.map_or(context.hca(), |cq| cq.lane())
}

/// Leaves out what a queue pair of this kind has no use for, and grants what there is room for.
fn fit(init: &mut QpInit, service: QpType) {
    if matches!(service, QpType::XrcSend | QpType::XrcRecv) {
        // They receive into the queues that requests name, if at all.
        init.recv_cq = None;
        init.srq = None;
        (init.cap.max_recv_wr, init.cap.max_recv_sge) = (0, 0);
    }

    if service == QpType::XrcRecv {
        init.send_cq = None;
        init.cap = QpCap::default();
        return;
    }

    init.xrcd = None;

    // As with other devices, what there is room for anyway may be sent inline: some programs count
    // on it.
    let free = init.cap.max_send_sge.saturating_mul(SGE_LEN);
    let granted = init.cap.max_inline_data.max(free.min(limits::MAX_INLINE));
    init.cap.max_inline_data = granted;
}

/// With a shared receive queue that matches tags, messages complete where that queue says, and the
/// send queue is its own.
fn share_tags(init: &mut QpInit) -> Option<Box<TmQp>> {
    let tm = TmQp::new(init.srq.as_ref()?.requests().tags()?.completions());
    init.cap.max_send_wr = 0;
    init.cap.max_send_sge = 0;
    init.cap.max_inline_data = 0;
    Some(Box::new(tm))
}

fn service(qp_type: u32) -> Result<QpType> {
    Ok(match qp_type {
        2 => QpType::Rc,
        3 => QpType::Uc,
        4 => QpType::Ud,
        9 => QpType::XrcSend,
        10 => QpType::XrcRecv,
        _ => {
            return Err(Error::Unsupported(
                "queue pair types other than RC, UC, UD and XRC",
            ));
        }
    })
}

fn check(
    context: &Arc<Context>,
    pd: Option<&Arc<Pd>>,
    service: QpType,
    init: &QpInit,
) -> Result<()> {
    let cap = init.cap;
    if cap.max_send_wr > limits::MAX_QP_WR || cap.max_recv_wr > limits::MAX_QP_WR {
        return Err(Error::Invalid(
            "more work requests than the device's max_qp_wr",
        ));
    }

    if cap.max_send_sge > limits::MAX_SGE || cap.max_recv_sge > limits::MAX_SGE {
        return Err(Error::Invalid(
            "more scatter/gather elements than the device's max_sge",
        ));
    }

    if cap.max_inline_data > limits::MAX_INLINE {
        return Err(Error::Invalid("max_inline_data exceeds 1024"));
    }

    let needs = |what: bool, why| {
        if what {
            Ok(())
        } else {
            Err(Error::Invalid(why))
        }
    };

    match service {
        QpType::XrcRecv => needs(init.xrcd.is_some(), "an XRC target needs an XRC domain")?,
        _ => {
            needs(pd.is_some(), "the queue pair needs a protection domain")?;
            needs(init.send_cq.is_some(), "the queue pair needs a send CQ")?;
            needs(
                service == QpType::XrcSend || init.recv_cq.is_some(),
                "the queue pair needs a receive CQ",
            )?;
        }
    }

    match init.srq.as_ref().map(|srq| srq.requests().serves()) {
        Some(Serves::XrcTargets(_)) => {
            return Err(Error::Invalid(
                "an XRC shared receive queue serves XRC targets only",
            ));
        }
        Some(Serves::Tags(_)) if service != QpType::Rc => {
            return Err(Error::Invalid("tags are matched on RC only"));
        }
        _ => {}
    }

    let same = |c: &Arc<Context>| Arc::ptr_eq(c, context);
    let cqs = [&init.send_cq, &init.recv_cq];
    if !cqs.into_iter().flatten().all(|cq| same(cq.context()))
        || !pd.is_none_or(|pd| same(pd.context()))
        || !init.srq.as_ref().is_none_or(|s| same(s.pd().context()))
        || !init.xrcd.as_ref().is_none_or(|x| same(x.context()))
    {
        return Err(Error::Invalid(
            "the protection domain and the queues are of different contexts",
        ));
    }

    Ok(())
}
