//! Bulk transfer in one direction, to see what a lossy link leaves of it.

use crate::link::LinkConfig;
use crate::memory::Memory;
use crate::model::{Placed, RecvExpect, SendExpect};
use crate::plan::{PlannedSend, SidePlan};
use crate::rng::Rng;
use crate::side::{Fills, SideOptions};
use crate::world::{LIMIT, Options, World};
use ferroce_transport::congestion::Aimd;
use ferroce_transport::{
    Access, Dest, Duration, EarlyMemory, QpAttr, QpCap, QpState, QpType, SendFlags, SendOp, Sge,
    Time, WcData, WcOpcode,
};

/// What is transferred with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RDMA WRITE.
    Write,
    /// SEND.
    Send,
    /// RDMA READ.
    Read,
}

/// What all transfers may keep of packets that come early.
static EARLY: EarlyMemory = EarlyMemory::new(1 << 30);

fn plans(rng: &mut Rng, kind: Kind, len: u32, count: usize) -> [SidePlan; 2] {
    let mut near = Memory::default();
    let mut far = Memory::default();
    let here = near.alloc(len, Access::LOCAL_WRITE, rng);
    let there = far.alloc(
        len,
        Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ,
        rng,
    );

    let sges: Vec<Sge> = vec![here.sge()];
    let data = near.at(here.va, len as usize).to_vec();
    let (va, rkey) = (there.va, there.key);
    let (op, opcode) = match kind {
        Kind::Write => (SendOp::Write { va, rkey }, WcOpcode::RdmaWrite),
        Kind::Send => (SendOp::Send, WcOpcode::Send),
        Kind::Read => (SendOp::Read { va, rkey }, WcOpcode::RdmaRead),
    };

    let far_data = far.at(va, len as usize).to_vec();
    let send = |index: usize| PlannedSend {
        op,
        flags: SendFlags::SIGNALED,
        sges: sges.clone(),
        inline: None,
        dest: Dest::Connected,
        expect: SendExpect {
            opcode,
            signaled: true,
            local: (kind == Kind::Read).then(|| Placed {
                sges: sges.clone(),
                data: far_data.clone(),
            }),
            remote: (kind == Kind::Write).then(|| (va, data.clone())),
            consumes: (kind == Kind::Send).then_some(index),
            invalidates: None,
            fault: None,
        },
    };

    let receives = if kind == Kind::Send { count } else { 0 };
    let expect = RecvExpect {
        opcode: WcOpcode::Recv,
        len,
        data: WcData::None,
        solicited: false,
        placed: Placed {
            sges: vec![there.sge()],
            data: data.clone(),
        },
        srq: 0,
        fault: None,
    };

    let a = SidePlan {
        sends: (0..count).map(send).collect(),
        memory: near,
        ..SidePlan::default()
    };

    let b = SidePlan {
        memory: far,
        recvs: vec![vec![there.sge()]; receives],
        recv_expects: vec![expect; receives],
        ..SidePlan::default()
    };
    [a, b]
}

/// The way that a transfer takes: 25 Gb/s.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Packets lost in a million, in both directions.
    pub loss: u32,
    /// In one direction.
    pub delay: Duration,
    /// The attribute `timeout`, of both queue pairs.
    pub timeout: u8,
    /// The most that may be in flight, in bytes; a controller decides how much is, or else it is
    /// always so.
    pub window: u32,
    /// Whether there is a controller.
    pub controlled: bool,
    /// Whether both sides understand selective acknowledgements.
    pub selective: bool,
}

/// What came of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// In Gb/s.
    pub goodput: f64,
    /// Packets that were sent, by both sides.
    pub packets: u64,
}

/// As [`transfer`], and returns the goodput alone.
pub fn run(seed: u64, kind: Kind, len: u32, count: usize, way: Way) -> Option<f64> {
    transfer(seed, kind, len, count, way).map(|of| of.goodput)
}

/// Transfers `count` messages of `len` bytes; `None` if the retries ran out.
pub fn transfer(seed: u64, kind: Kind, len: u32, count: usize, way: Way) -> Option<Transfer> {
    let mut rng = Rng::new(seed);
    let attr = QpAttr {
        path_mtu: 4096,
        sq_psn: 0xff_ff00,
        rq_psn: 7,
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        min_rnr_timer: 1,
        timeout: way.timeout,
        retry_cnt: 7,
        rnr_retry: 7,
        ..QpAttr::default()
    };

    let cap = QpCap {
        max_send_wr: 64,
        max_recv_wr: 256,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };

    let side = SideOptions {
        attr,
        cap,
        all_signaled: false,
        srq: false,
        service: QpType::Rc,
        window: way.window,
        fickle: false,
        budget: 64 << 10,
        defer: None,
        pause: Duration::ZERO,
        recv_pause: Duration::ZERO,
        selective: way.selective.then_some(&EARLY),
        introduced_at: Time::ZERO,
        fills: Fills::Nothing,
        stretch: 0,
        ready_at: Time::ZERO,
    };

    let options = Options {
        seed,
        link: LinkConfig {
            delay: way.delay,
            byte_time: 320,
            loss: way.loss,
            ..LinkConfig::default()
        },
        sides: [
            side,
            SideOptions {
                attr: QpAttr {
                    sq_psn: 7,
                    rq_psn: 0xff_ff00,
                    ..attr
                },
                ..side
            },
        ],
        action: None,
        limit: LIMIT,
        record: false,
    };

    let mut world = World::new(options, plans(&mut rng, kind, len, count));
    if way.controlled {
        for side in &mut world.sides {
            side.host.controller = Some(Aimd::new(way.window));
        }
    }

    while world.sides[0].host.model.send.next < count && world.step() {}
    if world.sides[0].qp.state() != QpState::Rts {
        return None;
    }

    assert_eq!(
        world.sides[0].host.model.send.good, count,
        "the transfer hangs"
    );

    Some(Transfer {
        goodput: f64::from(len) * count as f64 * 8.0 / world.now.as_nanos() as f64,
        packets: world.packets,
    })
}
