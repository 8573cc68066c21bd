//! What a capture does not say of requests, made up from what it does: what they ask for, which
//! their packets show, and whether the program's own memory was the trouble, as completions show.

mod introductions;

use std::collections::BTreeMap;

use ferroce_transport::{
    Datagram, Dest, Flush, Placement, QpState, QpType, Selectivity, SendOp, WcStatus, WindowBind,
};
use ferroce_wire::{Packet, Psn};

use crate::Options;
use crate::host::BAD_KEY;
use crate::journal::{Post, PostVerb, Settings};
use crate::machine::Request;
use crate::made_up::made_up;
use crate::subject::{Event, Subject, Timed};

/// What is known of a queue pair beside its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// All that was posted, and the message numbers: it was captured from its beginning.
    pub(crate) posts: bool,
    /// Its attributes, timers among them.
    pub(crate) attributes: bool,
}

/// A subject whose events leave nothing open that can be told.
pub(crate) struct Plan<'a> {
    pub(crate) known: Known,
    pub(crate) events: Vec<Timed<'a>>,
}

/// A packet that was sent, and its place among the events.
pub(crate) type Sent<'s, 'a> = (usize, &'s Packet<'a>);

/// Makes up what is missing.
pub(crate) fn plan<'a>(subject: Subject<'a>, options: &Options) -> Plan<'a> {
    let set = subject.events.iter().find_map(|timed| match &timed.event {
        Event::SetTo(settings) => Some(*settings),
        _ => None,
    });
    let known = Known {
        posts: set
            .is_some_and(|set| matches!(set.state, QpState::Reset | QpState::Init | QpState::Rtr)),
        attributes: set.is_some(),
    };
    let events = match known.posts {
        true => with_details(subject.events),
        false => made_up(subject.events, set, options),
    };
    Plan {
        known,
        events: introductions::noted(events),
    }
}

/// Gives each request that was posted what its packets show.
fn with_details(events: Vec<Timed<'_>>) -> Vec<Timed<'_>> {
    let mut requests: BTreeMap<usize, Request> = BTreeMap::new();
    let mut settings: Option<Settings> = None;
    for (at, timed) in events.iter().enumerate() {
        let Event::SetTo(set) = &timed.event else {
            continue;
        };
        let before = settings.replace(*set).map(|before| before.state);
        if set.state == QpState::Rts && before != Some(QpState::Rts) && before != Some(QpState::Sqd)
        {
            let end = events[at + 1..].iter().position(
                |timed| matches!(&timed.event, Event::SetTo(set) if set.state == QpState::Reset),
            );
            let end = end.map_or(events.len(), |end| at + 1 + end);
            connection(&events, at..end, set, &mut requests);
        }
    }

    let mut events = events;
    for (at, timed) in events.iter_mut().enumerate() {
        if let Event::PostSend(post) = &timed.event {
            let request = requests.get(&at).copied();
            timed.event = Event::Post(request.unwrap_or_else(|| detailed(post, None, None)));
        }
    }
    events
}

/// The requests of one connection.
fn connection(
    events: &[Timed<'_>],
    range: std::ops::Range<usize>,
    settings: &Settings,
    requests: &mut BTreeMap<usize, Request>,
) {
    let sent = by_number(&events[range.clone()], range.start, settings.sq_psn);
    let faulty = faulty(&events[range.clone()]);
    let (mut next, mut posted) = (start(settings.sq_psn), 0);
    for (at, timed) in (range.start..).zip(&events[range]) {
        let Event::PostSend(post) = &timed.event else {
            continue;
        };
        let count = match post.verb {
            PostVerb::LocalInv | PostVerb::Bind => 0,
            _ if settings.service == QpType::Ud => 1,
            PostVerb::CompareSwap | PostVerb::FetchAdd | PostVerb::Flush => 1,
            _ => u64::from(post.bytes.div_ceil(settings.path_mtu).max(1)),
        };
        let packet = |number: u64| sent.get(&number).map(|(_, packet)| *packet);
        let last = packet((next + count).saturating_sub(1));
        let mut request = detailed(post, packet(next), last);
        if faulty == Some(posted) {
            spoil(&mut request);
        }
        requests.insert(at, request);
        next += count;
        posted += 1;
    }
}

/// Which of the requests that were posted failed for what is the program's own: the one after which
/// all others were flushed. Errors are always told.
fn faulty(events: &[Timed<'_>]) -> Option<usize> {
    let sends = |wanted: fn(WcStatus) -> bool| {
        let is = move |timed: &&Timed<'_>| match &timed.event {
            Event::Completion(completed) => !completed.receive && wanted(completed.status),
            _ => false,
        };
        events.iter().filter(is).count()
    };
    let own = sends(|status| {
        use WcStatus::{LocProtErr, LocQpOpErr, MwBindErr};
        matches!(status, LocProtErr | LocQpOpErr | MwBindErr)
    });
    let posts = events
        .iter()
        .filter(|timed| matches!(timed.event, Event::PostSend(_)));
    let flushed = sends(|status| status == WcStatus::WrFlushErr);
    (own > 0).then(|| posts.count().checked_sub(flushed + 1))?
}

/// Makes a request one that names memory that is not there.
fn spoil(request: &mut Request) {
    request.lkey = BAD_KEY;
    match &mut request.op {
        SendOp::LocalInv(key) => *key = BAD_KEY,
        SendOp::BindMw(bind) => {
            *bind = WindowBind {
                lkey: BAD_KEY,
                ..*bind
            };
        }
        _ => {}
    }
}

/// Where numbers of more than 24 bits start, so that one before the first is still positive.
pub(crate) fn start(psn: u32) -> u64 {
    u64::from(psn) + (1 << 24)
}

/// The requests that were sent, by their numbers counted on beyond 24 bits, each as it was first
/// seen.
pub(crate) fn by_number<'s, 'a>(
    events: &'s [Timed<'a>],
    from: usize,
    first: u32,
) -> BTreeMap<u64, Sent<'s, 'a>> {
    let mut highest = start(first);
    let mut numbered = BTreeMap::new();
    for (at, timed) in (from..).zip(events) {
        let Event::Sent(packet) = &timed.event else {
            continue;
        };
        if !packet.info.is_request() {
            continue;
        }
        let ahead = Psn::new(packet.bth.psn).distance(Psn::new(highest as u32 & 0xff_ffff));
        let number = highest.saturating_add_signed(i64::from(ahead));
        highest = highest.max(number);
        numbered.entry(number).or_insert((at, packet));
    }
    numbered
}

/// A request, with what its first and its last packet show. What was never sent asks for nothing in
/// particular.
pub(crate) fn detailed(
    post: &Post,
    first: Option<&Packet<'_>>,
    last: Option<&Packet<'_>>,
) -> Request {
    let ext = first.map(|packet| packet.ext).unwrap_or_default();
    let ends = last.map(|packet| packet.ext).unwrap_or_default();
    let reth = ext.reth.unwrap_or_default();
    let atomic = ext.atomic.unwrap_or_default();
    let imm = ends.imm.unwrap_or_default();
    let (va, rkey) = (reth.va, reth.rkey);
    let (word, key) = (atomic.va, atomic.rkey);

    let op = match post.verb {
        PostVerb::Send => SendOp::Send,
        PostVerb::SendImm => SendOp::SendWithImm(imm),
        PostVerb::SendInv => SendOp::SendWithInv(ends.ieth.unwrap_or_default()),
        PostVerb::Write => SendOp::Write { va, rkey },
        PostVerb::WriteImm => SendOp::WriteWithImm { va, rkey, imm },
        PostVerb::Read => SendOp::Read { va, rkey },
        PostVerb::CompareSwap => SendOp::CompareSwap {
            va: word,
            rkey: key,
            compare: atomic.compare,
            swap: atomic.swap_add,
        },
        PostVerb::FetchAdd => SendOp::FetchAdd {
            va: word,
            rkey: key,
            add: atomic.swap_add,
        },
        PostVerb::AtomicWrite => SendOp::AtomicWrite { va, rkey },
        PostVerb::Flush => {
            let feth = ext.feth.unwrap_or_default();
            let placement = Placement::from_bits_truncate(feth.placement);
            SendOp::Flush(Flush {
                va,
                rkey,
                len: reth.len,
                placement: match placement.is_empty() {
                    true => Placement::GLOBAL,
                    false => placement,
                },
                selectivity: match feth.selectivity {
                    1 => Selectivity::Region,
                    _ => Selectivity::Range,
                },
            })
        }
        PostVerb::LocalInv => SendOp::LocalInv(0),
        PostVerb::Bind => SendOp::BindMw(Default::default()),
    };

    let dest = match (ext.deth, ext.xrceth) {
        (Some(deth), _) => Dest::Datagram(Datagram {
            qpn: first.map_or(0, |packet| packet.bth.dest_qp),
            qkey: deth.qkey,
            ..Datagram::default()
        }),
        (None, Some(srq)) => Dest::XrcSrq(srq),
        (None, None) => Dest::Connected,
    };
    Request {
        op,
        flags: post.flags,
        wr_id: post.wr_id,
        len: post.bytes,
        lkey: 0,
        dest,
    }
}
