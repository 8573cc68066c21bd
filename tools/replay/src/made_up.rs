//! A queue pair that was there before the capture, or of which there are packets alone: its
//! attributes and its requests are as packets show them, or as somebody says.

use std::collections::BTreeMap;

use ferroce_transport::{Access, QpState, QpType, SendFlags, Time};
use ferroce_wire::{Operation, Packet, Psn, Service, Syndrome};

use crate::Options;
use crate::journal::{Post, PostVerb, Settings};
use crate::machine::Request;
use crate::plan::{by_number, detailed, start};
use crate::subject::{Event, Timed};

/// The events of a queue pair that was connected before: it begins with the first messages that can
/// be seen whole, and what is posted is what is sent.
pub(crate) fn made_up<'a>(
    events: Vec<Timed<'a>>,
    set: Option<Settings>,
    options: &Options,
) -> Vec<Timed<'a>> {
    let settings = settings(&events, set, options);
    let time = events.first().map_or(Time::ZERO, |timed| timed.time);
    let posts = posts(&events, &settings);

    let mut whole = vec![Timed {
        time,
        event: Event::SetTo(settings),
    }];
    let before = |psn: u32, first: u32| Psn::new(psn).before(Psn::new(first));
    for (at, timed) in events.into_iter().enumerate() {
        let keeps = match &timed.event {
            Event::Came(packet, _) if packet.info.is_request() => {
                settings.service == QpType::Ud || !before(packet.bth.psn, settings.rq_psn)
            }
            Event::Sent(packet) if packet.info.is_request() => {
                settings.service == QpType::Ud || !before(packet.bth.psn, settings.sq_psn)
            }
            Event::Sent(packet) => !before(packet.bth.psn, settings.rq_psn),
            Event::SetTo(set) => matches!(set.state, QpState::Err | QpState::Reset),
            Event::PostSend(_) | Event::PostRecv { .. } | Event::Completion(_) => false,
            _ => true,
        };
        if let Some(request) = posts.get(&at) {
            whole.push(Timed {
                time: timed.time,
                event: Event::Post(*request),
            });
        }
        if keeps {
            whole.push(timed);
        }
    }
    whole
}

/// The attributes: those that are said, by options, and by what packets show.
fn settings(events: &[Timed<'_>], set: Option<Settings>, options: &Options) -> Settings {
    let packets = || {
        events.iter().filter_map(|timed| match &timed.event {
            Event::Came(packet, _) => Some((true, packet)),
            Event::Sent(packet) => Some((false, packet)),
            _ => None,
        })
    };
    let first = |incoming: bool| {
        let begins = |packet: &Packet<'_>| packet.info.is_request() && packet.info.begins();
        let found = packets().find(|(way, packet)| *way == incoming && begins(packet));
        found.map_or(0, |(_, packet)| packet.bth.psn)
    };
    let peer = packets().find(|(incoming, _)| !incoming);
    let peer = peer.map_or(0, |(_, packet)| packet.bth.dest_qp);

    let full = packets().find(|(_, packet)| {
        !packet.info.ends() && matches!(packet.info.operation, Operation::Send | Operation::Write)
            || packet.info.operation == Operation::ReadResponse && !packet.info.ends()
    });
    let full = full.map(|(_, packet)| packet.payload.len() as u32);
    let full = full.filter(|mtu| mtu.is_power_of_two() && (256..=4096).contains(mtu));

    let initiates = packets().any(|(incoming, packet)| incoming == packet.info.is_response());
    let service = match packets().next().map(|(_, packet)| packet.info.service) {
        Some(Service::Uc) => QpType::Uc,
        Some(Service::Ud) => QpType::Ud,
        Some(Service::Xrc) if initiates => QpType::XrcSend,
        Some(Service::Xrc) => QpType::XrcRecv,
        _ => QpType::Rc,
    };
    let known = set.unwrap_or(Settings {
        service,
        state: QpState::Rts,
        path_mtu: options.path_mtu.or(full).unwrap_or(4096),
        sq_psn: 0,
        rq_psn: 0,
        dest_qp_num: peer,
        timeout: options.timeout.unwrap_or(14),
        retry_cnt: options.retry_cnt.unwrap_or(7),
        rnr_retry: options.rnr_retry.unwrap_or(7),
        min_rnr_timer: rnr_timer(events),
        max_rd_atomic: 128,
        max_dest_rd_atomic: 128,
        access: Access::all(),
        qkey: qkey(events),
        stretch: 1,
        srq: false,
        sq_sig_all: true,
    });
    Settings {
        state: QpState::Rts,
        sq_psn: first(false),
        rq_psn: first(true),
        ..known
    }
}

/// The timer that the queue pair's RNR NAKs say.
fn rnr_timer(events: &[Timed<'_>]) -> u8 {
    let timer = |timed: &Timed<'_>| match &timed.event {
        Event::Sent(packet) => match packet.ext.aeth?.kind() {
            Syndrome::RnrNak { timer } => Some(timer),
            _ => None,
        },
        _ => None,
    };
    events.iter().find_map(timer).unwrap_or(12)
}

/// The Q_Key that datagrams to it bear.
fn qkey(events: &[Timed<'_>]) -> u32 {
    let qkey = |timed: &Timed<'_>| match &timed.event {
        Event::Came(packet, _) => packet.ext.deth.map(|deth| deth.qkey),
        _ => None,
    };
    events.iter().find_map(qkey).unwrap_or_default()
}

/// The requests that packets show, by the place of the packet before which each was posted.
fn posts(events: &[Timed<'_>], settings: &Settings) -> BTreeMap<usize, Request> {
    let sent = by_number(events, 0, settings.sq_psn);
    let mut posts = BTreeMap::new();
    let mut next = start(settings.sq_psn);
    // Behind a gap nothing can be sent: what was in it is not known.
    while let Some((at, first)) = sent.get(&next) {
        let count = match first.info.operation {
            Operation::ReadRequest => {
                let len = first.ext.reth.unwrap_or_default().len;
                let packets = len.div_ceil(settings.path_mtu).max(1);
                posts.insert(*at, shown(first, first, len));
                u64::from(packets)
            }
            Operation::Send | Operation::Write => {
                let rest = sent.range(next..).zip(next..);
                let mut rest = rest.take_while(|((number, _), wanted)| *number == wanted);
                let ends = rest.find(|((_, (_, packet)), _)| packet.info.ends());
                let last = ends.map_or(next, |((number, _), _)| *number);
                let mtu = u64::from(settings.path_mtu);
                let (_, end) = sent[&last];
                let len = match first.ext.reth {
                    Some(reth) => reth.len,
                    None => {
                        let bytes = (last - next) * mtu + end.payload.len() as u64;
                        u32::try_from(bytes).unwrap_or(u32::MAX)
                    }
                };
                posts.insert(*at, shown(first, end, len));
                last - next + 1
            }
            Operation::CompareSwap | Operation::FetchAdd | Operation::AtomicWrite => {
                posts.insert(*at, shown(first, first, 8));
                1
            }
            _ => {
                posts.insert(*at, shown(first, first, 0));
                1
            }
        };
        next += count;
    }
    posts
}

/// A request as its first and last packet show it.
fn shown(first: &Packet<'_>, last: &Packet<'_>, bytes: u32) -> Request {
    let verb = match first.info.operation {
        Operation::Write if last.info.has_imm() => PostVerb::WriteImm,
        Operation::Write => PostVerb::Write,
        Operation::ReadRequest => PostVerb::Read,
        Operation::CompareSwap => PostVerb::CompareSwap,
        Operation::FetchAdd => PostVerb::FetchAdd,
        Operation::AtomicWrite => PostVerb::AtomicWrite,
        Operation::Flush => PostVerb::Flush,
        _ if last.ext.ieth.is_some() => PostVerb::SendInv,
        _ if last.info.has_imm() => PostVerb::SendImm,
        _ => PostVerb::Send,
    };
    let mut flags = SendFlags::SIGNALED;
    flags.set(SendFlags::SOLICITED, last.bth.solicited);
    let post = Post {
        verb,
        wr_id: 0,
        bytes,
        flags,
    };
    detailed(&post, Some(first), Some(last))
}
