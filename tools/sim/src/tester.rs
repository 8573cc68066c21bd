//! A transport tester: one queue pair under test, and a peer that the test plays by hand, packet by
//! packet.

use crate::memory::{Buffer, Memory};
use crate::rng::Rng;
use crate::tester_host::{Collector, Flushed, Referring};
pub use crate::tester_host::{NO_AH, Sent, TesterHost};
pub use crate::tester_setup::{
    CAP, DUT, DUT_PSN, GRH_BYTE, QKEY, TT, TT_PSN, ladder, ladder_of, usual,
};
use crate::tester_setup::{config, understanding};
use ferroce_transport::{
    Access, Completion, Dest, ModifyError, Note, Qp, QpAttr, QpAttrMask, QpConfig, QpEvent,
    QpState, QpType, SendData, SendFlags, SendOp, SendRequest, Time, TransmitOpts, WcStatus,
};
use ferroce_wire::{Aeth, Bth, Ext, Feth, Packet, Reth, Syndrome, opcode};
use std::cell::RefCell;
use std::rc::Rc;

/// The tester.
pub struct Tester {
    /// The queue pair under test.
    pub qp: Qp,
    /// Its host: counters, completions, shared receive queues.
    pub host: TesterHost,
    /// The time.
    pub now: Time,
    /// Limits of each `transmit`.
    pub opts: TransmitOpts,
    /// Whether the packets that come show that the peer understands selective acknowledgements.
    pub peer_selective: bool,
    /// Whether they have the bit of filled packets.
    pub peer_fills: bool,
    service: QpType,
    rng: Rng,
    sink: Collector,
}

impl Tester {
    /// A queue pair in RTS with the usual attributes.
    pub fn new() -> Tester {
        Tester::with(usual())
    }

    /// A queue pair in RTS.
    pub fn with(attr: QpAttr) -> Tester {
        Tester::in_state(attr, QpState::Rts, false)
    }

    /// A queue pair in some state on the way to RTS, perhaps on a shared receive queue.
    pub fn in_state(attr: QpAttr, state: QpState, srq: bool) -> Tester {
        Tester::of(QpType::Rc, attr, state, srq)
    }

    /// A queue pair of any service in RTS with the usual attributes.
    pub fn service(service: QpType) -> Tester {
        Tester::of(service, usual(), QpState::Rts, false)
    }

    /// A queue pair of any service in some state on the way to RTS, perhaps on a shared receive
    /// queue.
    pub fn of(service: QpType, attr: QpAttr, state: QpState, srq: bool) -> Tester {
        Tester::configured(config(service, &attr, srq), attr, state)
    }

    /// The same of a queue pair that understands selective acknowledgements, as its peer does.
    pub fn speaking(service: QpType, attr: QpAttr, state: QpState, srq: bool) -> Tester {
        let config = understanding(service, &attr, srq);
        let mut tester = Tester::configured(config, attr, state);
        tester.peer_selective = true;
        tester.qp.introduce();
        tester
    }

    /// A queue pair in RTS on a device that stretches timeouts.
    pub fn stretched(attr: QpAttr, stretch: u32) -> Tester {
        let config = QpConfig {
            stretch,
            ..config(QpType::Rc, &attr, false)
        };
        Tester::configured(config, attr, QpState::Rts)
    }

    /// A queue pair in RTS that understands selective acknowledgements, and a peer that does.
    pub fn selective(attr: QpAttr) -> Tester {
        Tester::speaking(QpType::Rc, attr, QpState::Rts, false)
    }

    /// A queue pair in RTS that shows everybody that it understands selective acknowledgements.
    pub fn open(attr: QpAttr) -> Tester {
        let config = QpConfig {
            introduced: true,
            ..understanding(QpType::Rc, &attr, false)
        };
        Tester::configured(config, attr, QpState::Rts)
    }

    /// A queue pair in RTS that understands selective acknowledgements, and has not been told
    /// whether its peer may.
    pub fn reserved(attr: QpAttr) -> Tester {
        let config = understanding(QpType::Rc, &attr, false);
        Tester::configured(config, attr, QpState::Rts)
    }

    /// The same, which may be sent filled packets and sends them where its peer understands them.
    pub fn filling(mut self) -> Tester {
        self.qp.expect_filled(true);
        self.opts.fill = true;
        self
    }

    fn configured(config: QpConfig, attr: QpAttr, state: QpState) -> Tester {
        let service = config.qp_type;
        let referring = Referring::default();
        let unreliable = matches!(service, QpType::Uc | QpType::Ud);
        let host = TesterHost {
            model: Flushed(unreliable.then(|| referring.clone())),
            ..TesterHost::default()
        };
        let memory = host.memory.clone();
        let mut t = Tester {
            qp: Qp::new(config),
            host,
            now: Time::from_nanos(1_000_000),
            opts: TransmitOpts {
                window: 1 << 20,
                budget: 1 << 20,
                flush_acks: true,
                fill: false,
                stretch: 0,
            },
            peer_selective: false,
            peer_fills: false,
            service,
            rng: Rng::new(1),
            sink: Collector {
                memory,
                sent: Vec::new(),
                referring,
            },
        };

        for (to, mask) in ladder_of(service) {
            if t.qp.state() == state {
                break;
            }
            t.modify(
                &QpAttr {
                    qp_state: to,
                    ..attr
                },
                mask,
            )
            .expect("the way to RTS");
        }

        t
    }

    /// Modifies the queue pair.
    pub fn modify(&mut self, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError> {
        self.qp.modify(attr, mask, self.now, &mut self.host)
    }

    /// Moves it to a state that needs no attributes.
    pub fn go(&mut self, state: QpState) {
        self.modify(
            &QpAttr {
                qp_state: state,
                ..QpAttr::default()
            },
            QpAttrMask::STATE,
        )
        .expect("go");
    }

    /// A buffer of random bytes.
    pub fn buffer(&mut self, len: u32, access: Access) -> Buffer {
        self.host
            .memory
            .borrow_mut()
            .alloc(len, access, &mut self.rng)
    }

    /// The memory.
    pub fn memory(&self) -> Rc<RefCell<Memory>> {
        self.host.memory.clone()
    }

    /// The contents of a buffer.
    pub fn bytes(&self, buffer: Buffer) -> Vec<u8> {
        self.host
            .memory
            .borrow()
            .at(buffer.va, buffer.len as usize)
            .to_vec()
    }

    /// Events so far.
    pub fn events(&self) -> &[QpEvent] {
        &self.host.events
    }

    /// What was counted so far.
    pub fn notes(&self) -> &[Note] {
        &self.host.notes
    }

    /// Posts a signaled send request on one buffer.
    pub fn post(&mut self, wr_id: u64, op: SendOp, buffer: Buffer) {
        self.post_flags(wr_id, op, buffer, SendFlags::SIGNALED);
    }

    /// Posts a send request on one buffer.
    pub fn post_flags(&mut self, wr_id: u64, op: SendOp, buffer: Buffer, flags: SendFlags) {
        self.post_to(wr_id, op, buffer, flags, Dest::Connected);
    }

    /// Posts a send request on one buffer that says where it goes.
    pub fn post_to(
        &mut self,
        wr_id: u64,
        op: SendOp,
        buffer: Buffer,
        flags: SendFlags,
        dest: Dest,
    ) {
        let sges = [buffer.sge()];
        let data = SendData::Sges(&sges);
        self.qp
            .post_send(&SendRequest {
                wr_id,
                op,
                flags,
                data,
                dest,
            })
            .expect("post_send");
    }

    /// Posts a receive request on one buffer.
    pub fn post_recv(&mut self, wr_id: u64, buffer: Buffer) {
        self.qp
            .post_recv(wr_id, &[buffer.sge()])
            .expect("post_recv");
    }

    /// What the queue pair has to send.
    pub fn sent(&mut self) -> Vec<Sent> {
        let mut calls = 0;
        while self
            .qp
            .transmit(self.now, self.opts, &mut self.host, &mut self.sink)
        {
            calls += 1;
            assert!(calls < 100_000, "transmit without end");
        }
        std::mem::take(&mut self.sink.sent)
    }

    /// What one call of `transmit` sends.
    pub fn call(&mut self) -> Vec<Sent> {
        let _more = self
            .qp
            .transmit(self.now, self.opts, &mut self.host, &mut self.sink);
        std::mem::take(&mut self.sink.sent)
    }

    /// One packet, and no more, is sent.
    #[track_caller]
    pub fn one(&mut self) -> Sent {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// Nothing is sent.
    #[track_caller]
    pub fn none(&mut self) {
        let sent = self.sent();
        assert!(sent.is_empty(), "{sent:#?}");
    }

    /// The queue pair receives a packet: a datagram if it is of that service, with a GRH that is 40
    /// times `GRH_BYTE`.
    pub fn inject(&mut self, opcode: u8, psn: u32, ack_req: bool, ext: Ext, payload: &[u8]) {
        let info = opcode::info(opcode).expect("an opcode of the table");
        let bth = Bth {
            opcode,
            psn: psn & 0xff_ffff,
            ack_req,
            dest_qp: DUT,
            selective: self.peer_selective,
            filled: self.peer_fills,
            ..Bth::default()
        };

        let packet = Packet {
            bth,
            info,
            ext,
            payload: payload.into(),
        };

        self.host.selected = None;
        if ext.deth.is_some() {
            let grh = [GRH_BYTE; 40];
            self.qp
                .receive_datagram(self.now, &packet, &grh, &mut self.host);
        } else {
            self.qp.receive(self.now, &packet, &mut self.host);
        }
    }

    /// An ACK (with unlimited credits), NAK or RNR NAK comes.
    pub fn answer(&mut self, syndrome: Syndrome, psn: u32, msn: u32) {
        let ext = Ext {
            aeth: Some(Aeth::new(syndrome, msn)),
            ..Ext::default()
        };
        let opcode = match self.service {
            QpType::XrcSend => opcode::XRC_ACKNOWLEDGE,
            _ => opcode::RC_ACKNOWLEDGE,
        };
        self.inject(opcode, psn, false, ext, &[]);
    }

    /// A plain ACK comes.
    pub fn ack(&mut self, psn: u32, msn: u32) {
        self.answer(Syndrome::from_byte(0x1f), psn, msn);
    }

    /// Time passes until a timer is due; its time, unless there is none.
    pub fn expire(&mut self) -> Option<Time> {
        let at = self.qp.next_timeout()?;
        self.now = self.now.max(at);
        self.qp.handle_timeout(self.now, &mut self.host);
        Some(at)
    }

    /// Statuses of the send completions so far, with their `wr_id`.
    pub fn send_statuses(&self) -> Vec<(u64, WcStatus)> {
        self.host
            .sends
            .iter()
            .map(|c| (c.wr_id, c.status))
            .collect()
    }

    /// The receive completions so far.
    pub fn receives(&self) -> &[Completion] {
        &self.host.receives
    }

    /// Statuses of the receive completions so far, with their `wr_id`.
    pub fn recv_statuses(&self) -> Vec<(u64, WcStatus)> {
        self.host
            .receives
            .iter()
            .map(|c| (c.wr_id, c.status))
            .collect()
    }
}

impl Default for Tester {
    fn default() -> Self {
        Tester::new()
    }
}

/// Extended headers with a RETH.
pub fn reth(va: u64, rkey: u32, len: u32) -> Ext {
    Ext {
        reth: Some(Reth { va, rkey, len }),
        ..Ext::default()
    }
}

/// Extended headers of a FLUSH.
pub fn feth(placement: u8, selectivity: u8, va: u64, rkey: u32, len: u32) -> Ext {
    Ext {
        feth: Some(Feth {
            placement,
            selectivity,
        }),
        ..reth(va, rkey, len)
    }
}

/// Extended headers with an AETH that acknowledges, with unlimited credits.
pub fn aeth(msn: u32) -> Ext {
    Ext {
        aeth: Some(Aeth::new(Syndrome::from_byte(0x1f), msn)),
        ..Ext::default()
    }
}
