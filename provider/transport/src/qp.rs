//! The queue pair: its parts, the consumer's calls, and the way into the error state.
//!
//! What each part does is in `requester`, `completer`, `responder` and `respond`; `modify` moves it
//! between states.

use crate::budget::Budget;
use crate::filler::Filling;
use crate::notification::Notification;
use crate::ping_pong::PingPong;
use crate::recv_queue::RecvQueue;
use crate::requester::Requester;
use crate::responder::{Incoming, Responder};
use crate::send_queue::{SendQueue, SendWqe};
use crate::state::QpType;
use crate::trace::{Traced, failed, is_watched, received};
use crate::{
    Completion, Duration, Host, PathSignal, QpAttr, QpConfig, QpEvent, QpState, SendFlags, Sink,
    Time, TransmitOpts, WcData, WcOpcode, WcStatus,
};
use ferroce_wire::{Packet, Service};

/// A queue pair. A copy goes its own way from then on.
#[derive(Clone, Debug)]
pub struct Qp {
    pub(crate) config: QpConfig,
    /// What is added to an RC opcode to get the service's own.
    pub(crate) opcode_base: u8,
    pub(crate) attr: QpAttr,
    pub(crate) sq: SendQueue,
    pub(crate) rq: RecvQueue,
    pub(crate) req: Requester,
    pub(crate) resp: Responder,
    pub(crate) ping_pong: PingPong,
    pub(crate) notification: Notification,
    /// The peer may be one that understands selective acknowledgements, as does this side.
    pub(crate) introduced: bool,
    pub(crate) filling: Filling,
}

impl Qp {
    /// A queue pair in RESET. It owns no memory besides itself until requests are posted.
    pub fn new(config: QpConfig) -> Qp {
        let mut attr = QpAttr {
            cap: config.cap,
            ..QpAttr::default()
        };
        if config.qp_type == QpType::Ud && config.mtu > 0 {
            attr.path_mtu = config.mtu;
        }

        let mut qp = Qp {
            config: QpConfig {
                srq: config.srq || config.qp_type == QpType::XrcRecv,
                ..config
            },
            opcode_base: config.qp_type.opcode_base(),
            attr,
            sq: SendQueue::default(),
            rq: RecvQueue::default(),
            req: Requester::default(),
            resp: Responder::default(),
            ping_pong: PingPong::default(),
            notification: Notification::default(),
            introduced: false,
            filling: Filling::default(),
        };

        if config.introduced {
            qp.introduce();
        }
        qp.req.timers.seed = config.seed | 1;
        qp.req.timers.stretch = config.stretch;
        qp
    }

    /// UD: the port's MTU, in bytes, is another now, and the longest message with it, of what is
    /// sent from now on (C10-93.1.1) and of what comes. Nothing to other services.
    pub fn limit_datagrams(&mut self, mtu: u32) {
        if self.config.qp_type == QpType::Ud {
            self.config.mtu = mtu;
            self.attr.path_mtu = mtu;
        }
    }

    /// Queue pair number.
    pub fn qpn(&self) -> u32 {
        self.config.qpn
    }

    /// The state.
    pub fn state(&self) -> QpState {
        self.attr.qp_state
    }

    /// Path MTU in bytes.
    pub fn path_mtu(&self) -> u32 {
        self.attr.path_mtu
    }

    /// All attributes as they are now, but PSNs as they were set: how far they are `standing` says.
    pub fn query(&self) -> QpAttr {
        QpAttr {
            cur_qp_state: self.attr.qp_state,
            ..self.attr
        }
    }

    /// Takes a packet of a connected service that was addressed to this queue pair and passed the
    /// ICRC. What the state or the protocol does not allow is dropped. Call
    /// [`transmit`](Self::transmit) afterwards.
    pub fn receive<H: Host>(&mut self, now: Time, packet: &Packet<'_>, host: &mut H) {
        if !self.receiving() {
            return;
        }

        let opened = self.filling.open(packet);
        let packet = opened.as_ref().unwrap_or(packet);
        received(self.config.qpn, packet);
        let response = packet.info.is_response();
        match (self.config.qp_type, packet.info.service) {
            (QpType::Rc, Service::Rc) => {}
            (QpType::Uc, Service::Uc) => return self.on_uc_packet(packet, host),
            (QpType::XrcSend, Service::Xrc) if response => {}
            (QpType::XrcRecv, Service::Xrc) if !response => {}
            // RoCEv2 (annex A17): a CNP names the queue pair whose packet was marked. What an XRC
            // target sends is answers.
            (QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv, Service::Cnp) => {
                return host.path_signal(PathSignal::Notified);
            }
            _ => return,
        }

        if !response {
            self.on_request(now, packet, 1, host);
        } else if self.attr.qp_state != QpState::Rtr {
            self.on_response(now, packet, 1, host);
        }
    }

    /// Does the state take packets (section 10.3.1)?
    pub(crate) fn receiving(&self) -> bool {
        matches!(
            self.attr.qp_state,
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
        )
    }

    /// Hands what may be sent now to `sink`: responses first, in the order of their requests, then
    /// requests. Returns whether more is ready at once, the budget being spent.
    pub fn transmit<H: Host, S: Sink>(
        &mut self,
        now: Time,
        opts: TransmitOpts,
        host: &mut H,
        sink: &mut S,
    ) -> bool {
        if self.attr.qp_state == QpState::Err {
            self.flush(host);
        }
        // Asked once: the sinks are called for each packet.
        match is_watched() {
            false => self.send(now, opts, host, sink),
            true => {
                let opts = TransmitOpts { stretch: 0, ..opts };
                self.send(now, opts, host, &mut Traced::new(self.config.qpn, sink))
            }
        }
    }

    fn send<H: Host, S: Sink>(
        &mut self,
        now: Time,
        opts: TransmitOpts,
        host: &mut H,
        sink: &mut S,
    ) -> bool {
        self.notify(host, sink);
        let mut budget = Budget::of(opts.budget).in_stretches_of(opts.stretch);
        if self.is_unreliable() {
            return self.send_unreliable(&mut budget, host, sink);
        }

        self.filling.worth_it = opts.fill;
        let hold = !opts.flush_acks && self.ack_deferrable();
        let owing = self.send_responses(&mut budget, hold, host, sink);
        if owing {
            // A peer that keeps reading must not keep our own requests from going out.
            budget = Budget::of(opts.budget / 4).in_stretches_of(opts.stretch);
        }

        let sent = self.req.packets;
        let more = self.send_requests(now, opts.window, &mut budget, host, sink);
        if hold && self.req.packets != sent {
            // Behind them, so that a program which looks for its own completion and then for the
            // message in memory has both of one look.
            self.send_ack(sink);
        }
        owing || more
    }

    /// An ACK is owed and nothing else would carry it.
    pub fn has_pending_ack(&self) -> bool {
        self.resp.ack_owed()
    }

    /// The PSN that the peer's next request is expected to have, 24 bits: another one after each
    /// that came.
    pub fn expected_psn(&self) -> u32 {
        self.resp.epsn.value()
    }

    /// Whether a request with the PSN that was expected has come since the connection was made.
    pub fn has_heard(&self) -> bool {
        self.resp.heard
    }

    /// Packets sent and not acknowledged.
    pub fn packets_in_flight(&self) -> u64 {
        self.req.next - self.req.una
    }

    /// Whether requests are on their way: unacknowledged, or awaiting their response.
    pub fn has_requests_in_flight(&self) -> bool {
        self.req.una != self.req.max
    }

    /// Has lately each received message been followed by a request of ours? Then an ACK may wait
    /// for the next one, but not in the middle of a message, whose rest may wait for it at the
    /// peer. Beyond a gap it may wait for a few packets more.
    pub fn ack_deferrable(&self) -> bool {
        match &self.resp.early {
            None => self.ping_pong.is_likely() && matches!(self.resp.incoming, Incoming::None),
            Some(early) => !early.is_urgent(),
        }
    }

    /// How long an ACK that may be held back is worth holding, going by how long the requests
    /// before took to follow: at most 200 µs, or `least` if that is longer. Beyond a gap no longer
    /// than it has to be.
    pub fn ack_patience(&self, least: Duration) -> Duration {
        match &self.resp.early {
            None => self.ping_pong.patience().max(least),
            Some(_) => Duration::ZERO,
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if at all.
    pub fn next_timeout(&self) -> Option<Time> {
        self.req.timers.next()
    }

    /// Acts on timers that have passed. Call [`transmit`](Self::transmit) afterwards.
    pub fn handle_timeout<H: Host>(&mut self, now: Time, host: &mut H) {
        if self.req.timers.rnr.is_some_and(|t| t <= now) {
            self.req.timers.rnr = None;
        }
        if self.req.timers.ack.is_some_and(|t| t <= now) {
            self.on_ack_timeout(host);
        }
        self.on_recovery_timers(now, host);
    }

    /// Moves to ERR on the host's behalf (a CQ overflow, say), flushes, and raises `event` if there
    /// is one.
    pub fn fail<H: Host>(&mut self, host: &mut H, event: Option<QpEvent>) {
        if self.attr.qp_state == QpState::Err || self.attr.qp_state == QpState::Reset {
            return;
        }
        if let Some(event) = event {
            host.event(event);
        }
        self.enter_error(host);
        self.resp.silence();
    }

    /// Enters ERR and flushes. Responses that are already owed stay until they are sent: the NAK
    /// that says why is among them.
    pub(crate) fn enter_error<H: Host>(&mut self, host: &mut H) {
        self.enter(QpState::Err);
        self.attr.sq_draining = false;
        self.resp.early = None;
        self.req.timers.stop();
        self.flush(host);
        // The queues of an XRC target's domain are not its own: there is no last request to reach.
        if self.config.srq && self.config.qp_type != QpType::XrcRecv {
            host.event(QpEvent::LastWqeReached);
        }
    }

    /// Completes everything queued with a flush error, sends before receives (section 10.3.1).
    pub(crate) fn flush<H: Host>(&mut self, host: &mut H) {
        self.flush_sends(host);
        if let Some(wqe) = self.resp.srq_wqe.take() {
            self.complete_recv(wqe.wr_id, WcStatus::WrFlushErr, 0, WcData::None, true, host);
        }
        while let Some(wr_id) = self.rq.pop() {
            self.complete_recv(wr_id, WcStatus::WrFlushErr, 0, WcData::None, true, host);
        }
    }

    /// Completes every send request with a flush error, one that is posted afterwards too (C10-96).
    pub(crate) fn flush_sends<H: Host>(&mut self, host: &mut H) {
        while let Some(wqe) = self.sq.pop() {
            self.complete_send(&wqe, WcStatus::WrFlushErr, host);
        }
        self.req.forget(self.sq.end());
    }

    /// Whether a send request with these flags raises a completion when it succeeds.
    #[inline]
    pub fn is_signaled(&self, flags: SendFlags) -> bool {
        self.config.sq_sig_all || flags.contains(SendFlags::SIGNALED)
    }

    /// Raises the completion of a send request that left the queue. Errors are always raised.
    pub(crate) fn complete_send<H: Host>(&self, wqe: &SendWqe, status: WcStatus, host: &mut H) {
        if status == WcStatus::Success && !self.is_signaled(wqe.flags) {
            return;
        }

        failed(self.config.qpn, "send", wqe.wr_id, status);
        host.complete_send(Completion {
            wr_id: wqe.wr_id,
            status,
            opcode: wqe.opcode(),
            byte_len: wqe.len,
            data: WcData::None,
            solicited: status != WcStatus::Success,
            src_qp: self.attr.dest_qp_num,
            grh: false,
            srq: 0,
            count: self.sq.base() as u32,
        });
    }

    /// Raises the completion of a receive request that left its queue.
    pub(crate) fn complete_recv<H: Host>(
        &self,
        wr_id: u64,
        status: WcStatus,
        byte_len: u32,
        data: WcData,
        solicited: bool,
        host: &mut H,
    ) {
        failed(self.config.qpn, "receive", wr_id, status);
        host.complete_recv(Completion {
            wr_id,
            status,
            opcode: WcOpcode::Recv,
            byte_len,
            data,
            solicited,
            src_qp: self.attr.dest_qp_num,
            grh: false,
            srq: self.resp.srq,
            count: self.rq.base() as u32,
        });
    }
}
