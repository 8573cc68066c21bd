//! A queue pair of the transport without a host around it: memory is what the capture shows to have
//! been there, and what is sent is looked at.

use ferroce_transport::state::transition;
use ferroce_transport::{
    Datagram, Dest, EarlyMemory, Gather, Injected, MemoryError, PostError, Qp, QpAttr, QpAttrMask,
    QpCap, QpConfig, QpState, QpType, SendData, SendFlags, SendOp, SendRequest, Sge, Sink,
    Standing, Time, TxPacket,
};
use ferroce_wire::selective::REACH;
use ferroce_wire::{Bth, Ext, Packet, Psn, Service};

use crate::host::{ReplayHost, are_good};
use crate::journal::{Completed, Fate, Settings};

/// No request that was posted is refused for want of room: what was is not in a capture.
const ROOM: u32 = 1 << 30;

/// For requests that came early: however many the captured queue pair has kept.
static EARLY: EarlyMemory = EarlyMemory::new(usize::MAX);

/// A request to post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) op: SendOp,
    pub(crate) flags: SendFlags,
    pub(crate) wr_id: u64,
    pub(crate) len: u32,
    /// [`BAD_KEY`](crate::host::BAD_KEY) if its memory is not there.
    pub(crate) lkey: u32,
    pub(crate) dest: Dest,
}

/// A packet that the transport has made, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) bth: Bth,
    pub(crate) ext: Ext,
    pub(crate) payload: usize,
}

/// The queue pair and what is around it.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) qp: Qp,
    /// It understands selective acknowledgements.
    selective: bool,
    pub(crate) host: ReplayHost,
    pub(crate) settings: Settings,
}

/// Takes what is sent.
#[derive(Debug, Default)]
struct Taken(Vec<Made>);

impl Machine {
    /// In RESET, made as the settings have it, with selective acknowledgements or without.
    pub(crate) fn new(qpn: u32, settings: Settings, selective: bool) -> Machine {
        let qp = Qp::new(QpConfig {
            qpn,
            qp_type: settings.service,
            cap: QpCap {
                max_send_wr: ROOM,
                max_recv_wr: ROOM,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            sq_sig_all: settings.sq_sig_all,
            srq: settings.srq,
            mtu: 4096,
            seed: 1,
            stretch: settings.stretch,
            selective: selective.then_some(&EARLY),
            // What it sends shows whether and when it was told (see `introductions`).
            introduced: false,
        });
        Machine {
            qp,
            selective,
            host: ReplayHost::default(),
            settings,
        }
    }

    /// Another one of the same captured queue pair, in RESET.
    pub(crate) fn anew(&self, settings: Settings) -> Machine {
        Machine::new(self.qp.qpn(), settings, self.selective)
    }

    /// Takes it by way of the states between to what the settings say.
    pub(crate) fn set(&mut self, settings: &Settings, now: Time) {
        use QpState::{Err, Init, Reset, Rtr, Rts};
        self.settings = *settings;
        let to = settings.state;
        for (from, next) in [(Reset, Init), (Init, Rtr), (Rtr, Rts)] {
            let on_the_way = match to {
                Reset | Err => false,
                Init => next == Init,
                Rtr => next != Rts,
                _ => true,
            };
            if on_the_way && self.qp.state() == from {
                self.modify(settings, next, now);
            }
        }
        if self.qp.state() != to || to != Reset {
            self.modify(settings, to, now);
        }
    }

    fn modify(&mut self, settings: &Settings, to: QpState, now: Time) {
        let attr = QpAttr {
            qp_state: to,
            path_mtu: settings.path_mtu,
            sq_psn: settings.sq_psn,
            rq_psn: settings.rq_psn,
            dest_qp_num: settings.dest_qp_num,
            qp_access_flags: settings.access,
            qkey: settings.qkey,
            max_rd_atomic: settings.max_rd_atomic,
            max_dest_rd_atomic: settings.max_dest_rd_atomic,
            min_rnr_timer: settings.min_rnr_timer,
            timeout: settings.timeout,
            retry_cnt: settings.retry_cnt,
            rnr_retry: settings.rnr_retry,
            port_num: 1,
            ..QpAttr::default()
        };

        let from = self.qp.state();
        let row = transition(settings.service, from, to);
        let known = QpAttrMask::ACCESS_FLAGS
            | QpAttrMask::MIN_RNR_TIMER
            | QpAttrMask::TIMEOUT
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::RNR_RETRY
            | QpAttrMask::MAX_QP_RD_ATOMIC
            | QpAttrMask::MAX_DEST_RD_ATOMIC
            | QpAttrMask::QKEY;
        let mask = row.map_or(QpAttrMask::empty(), |row| {
            row.required | row.optional & known
        });
        // A way that the table does not have is one that the program did not go.
        let _ = self
            .qp
            .modify(&attr, mask | QpAttrMask::STATE, now, &mut self.host);
        self.qp.settle_once(&mut self.host);
    }

    pub(crate) fn post(&mut self, request: &Request) -> Result<(), PostError> {
        let sge = [Sge {
            length: request.len,
            lkey: request.lkey,
            ..Sge::default()
        }];
        let sges = if request.len == 0 { &sge[..0] } else { &sge };
        // Where what was never sent would have gone is not known.
        let dest = match (request.dest, self.settings.service) {
            (Dest::Connected, QpType::XrcSend) => Dest::XrcSrq(0),
            (Dest::Connected, QpType::Ud) => Dest::Datagram(Datagram::default()),
            (dest, _) => dest,
        };
        self.qp.post_send(&SendRequest {
            wr_id: request.wr_id,
            op: request.op,
            flags: request.flags,
            data: SendData::Sges(sges),
            dest,
        })?;
        self.qp.settle_once(&mut self.host);
        Ok(())
    }

    pub(crate) fn post_recv(&mut self, wr_id: u64, bytes: u64) -> Result<(), PostError> {
        let sge = [Sge {
            length: u32::try_from(bytes).unwrap_or(u32::MAX),
            ..Sge::default()
        }];
        let sges = if bytes == 0 { &sge[..0] } else { &sge };
        self.qp.post_recv(wr_id, sges)?;
        self.qp.settle_once(&mut self.host);
        Ok(())
    }

    /// Whether a request packet with this PSN comes early, and may be kept.
    pub(crate) fn may_keep(&self, psn: u32) -> bool {
        let expected = Psn::new(self.qp.standing().expected_psn);
        let ahead = Psn::new(psn).forward_from(expected);
        self.selective && self.qp.state() != QpState::Err && (1..=REACH).contains(&ahead)
    }

    /// Gives it a packet, or has it refuse it.
    pub(crate) fn receive(&mut self, now: Time, packet: &Packet<'_>, fate: Option<Fate>) {
        let refused = match fate {
            Some(Fate::NotReady) => Some(Injected::NotReady),
            Some(Fate::PsnSequence) => Some(Injected::PsnSequence),
            Some(Fate::InvalidRequest) => Some(Injected::InvalidRequest),
            Some(Fate::RemoteAccess) => Some(Injected::RemoteAccess),
            Some(Fate::RemoteOperational) => Some(Injected::RemoteOperational),
            _ => None,
        };
        match refused {
            Some(why) if self.qp.may_refuse(packet) => {
                self.qp.refuse_request(packet, why, &mut self.host);
            }
            _ if packet.info.service == Service::Ud => {
                self.qp
                    .receive_datagram(now, packet, &[0; 40], &mut self.host);
            }
            _ => self.qp.receive(now, packet, &mut self.host),
        }
        self.qp.settle_once(&mut self.host);
    }

    /// What it sends next by way of an answer.
    pub(crate) fn answer(&mut self) -> Option<Made> {
        let mut taken = Taken::default();
        self.qp.answer_once(&mut self.host, &mut taken);
        self.qp.settle_once(&mut self.host);
        taken.0.pop()
    }

    /// What it sends next by way of a request.
    pub(crate) fn request(&mut self, now: Time, window: u32) -> Option<Made> {
        let mut taken = Taken::default();
        self.qp
            .request_once(now, window, &mut self.host, &mut taken);
        self.qp.settle_once(&mut self.host);
        taken.0.pop()
    }

    /// What it sends if the request packet with this PSN was lost, or is sent again to ask about
    /// silence; of a READ that for so many responses.
    pub(crate) fn resend(&mut self, now: Time, psn: u32, responses: Option<u32>) -> Option<Made> {
        let mut taken = Taken::default();
        self.qp.resend_once(now, psn, responses, &mut taken);
        taken.0.pop()
    }

    /// Lets its timers lapse that are due.
    pub(crate) fn lapse(&mut self, now: Time) {
        self.qp.handle_timeout(now, &mut self.host);
        self.qp.settle_once(&mut self.host);
    }

    /// Takes a completion, and those before it that are not shown, as they were not asked for.
    pub(crate) fn take(&mut self, completed: &Completed) -> bool {
        let shared = self.settings.srq && completed.receive;
        let all = &mut self.host.completions;
        let found = all.iter().position(|(receive, of)| {
            *receive == completed.receive
                && of.status == completed.status
                && (shared || of.wr_id == completed.wr_id)
        });
        let Some(found) = found else {
            return false;
        };

        let mut place = 0;
        all.retain(|(receive, _)| {
            place += 1;
            place > found + 1 || *receive != completed.receive
        });
        true
    }

    pub(crate) fn view(&self) -> View {
        View {
            state: self.qp.state(),
            standing: self.qp.standing(),
        }
    }

    /// A reliable service, which acknowledges.
    pub(crate) fn is_reliable(&self) -> bool {
        !matches!(self.settings.service, QpType::Uc | QpType::Ud)
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) state: QpState,
    pub(crate) standing: Standing,
}

impl Sink for Taken {
    fn packet(&mut self, packet: &TxPacket<'_>) -> Result<(), MemoryError> {
        let payload = match packet.payload {
            Gather::Sges { sges, .. } if !are_good(sges) => return Err(MemoryError::Key),
            Gather::None => 0,
            Gather::Bytes(bytes) => bytes.len(),
            Gather::Sges { len, .. } | Gather::Remote { len, .. } => len as usize,
        };
        self.0.push(Made {
            bth: packet.bth,
            ext: packet.ext,
            payload,
        });
        Ok(())
    }
}
