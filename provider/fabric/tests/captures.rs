//! The Linux kernel's messages: they are understood, come back byte for byte, and are what we send
//! in the kernel's place.

mod pair;
#[path = "captures/replayed.rs"]
mod replayed;

use ferroce_fabric::cm::Time;
use ferroce_fabric::cm::*;
use ferroce_fabric::ipcm::{HEADER_LEN, IpHeader, PortSpace, parse_service_id, service_id};
use ferroce_fabric::{Mad, Transport, reject, sidr_status};
use ferroce_wire::cm::{Message, Rep, Req, about};
use pair::*;
use replayed::*;
use std::collections::BTreeMap;

const CAPTURES: &str = include_str!("vectors/linux-6.1.txt");

fn captures() -> BTreeMap<&'static str, Mad> {
    let lines = CAPTURES.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let (name, _sender, hex) = (words.next().unwrap(), words.next(), words.next().unwrap());
            let mut mad = [0; 256];
            for (byte, digits) in mad.iter_mut().zip(hex.as_bytes().chunks(2)) {
                *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
            }
            (name, mad)
        })
        .collect()
}

fn capture(name: &str) -> (u64, Message) {
    let mad = captures()[name];
    let (header, message) = Message::parse(&mad).unwrap_or_else(|e| panic!("{name}: {e}"));
    (header.tid, message)
}

fn req(name: &str) -> Req {
    match capture(name) {
        (_, Message::Req(req)) => req,
        other => panic!("{name}: {other:?}"),
    }
}

fn rep(name: &str) -> Rep {
    match capture(name) {
        (_, Message::Rep(rep)) => rep,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_capture_comes_back_byte_for_byte() {
    let captures = captures();
    assert_eq!(captures.len(), 23);
    for (name, mad) in captures {
        let (header, message) = Message::parse(&mad).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(message.emit(header.tid), mad, "{name}: {message:?}");
    }
}

#[test]
fn a_request_says_what_rping_asked_for() {
    let req = req("rping_req");
    assert_eq!(
        parse_service_id(req.service_id),
        Some((PortSpace::Tcp, 7174))
    );

    assert_eq!((req.local_qpn, req.starting_psn), (0x11, 0x93_89fc));
    assert_eq!((req.responder_resources, req.initiator_depth), (1, 1));
    assert_eq!(
        (req.remote_response_timeout, req.local_response_timeout),
        (20, 20)
    );

    assert_eq!(
        (req.retry_count, req.rnr_retry_count, req.max_cm_retries),
        (7, 7, 15)
    );

    assert_eq!(
        (req.transport, req.flow_control, req.srq),
        (Transport::Rc, false, false)
    );

    assert_eq!((req.pkey, req.mtu), (0xffff, 3));
    let path = req.primary;
    assert_eq!(path.local_gid[10..], [0xff, 0xff, 10, 9, 0, 1]);
    assert_eq!(path.remote_gid[10..], [0xff, 0xff, 10, 9, 0, 2]);
    assert_eq!(
        (path.local_lid, path.remote_lid, path.hop_limit),
        (0xffff, 0xffff, 64)
    );

    assert_eq!(
        (path.flow_label, path.local_ack_timeout, path.subnet_local),
        (0x7_0d6f, 19, false)
    );

    assert_eq!(req.alternate, Default::default());
    let header = IpHeader::parse(&req.private_data).unwrap();
    assert_eq!(header.src.to_string(), "10.9.0.1");
    assert_eq!(header.dst.to_string(), "10.9.0.2");
    assert_eq!(header.src_port, 0xbd77);
    assert_eq!(header.emit(), req.private_data[..HEADER_LEN]);
}

#[test]
fn ipv6_travels_in_private_data() {
    let req = req("ipv6_req");
    let header = IpHeader::parse(&req.private_data).unwrap();
    assert_eq!(header.src.to_string(), "fd09::1");
    assert_eq!(header.dst.to_string(), "fd09::2");
    assert_eq!(header.emit(), req.private_data[..HEADER_LEN]);
}

#[test]
fn refusals_say_why() {
    let rej = |name| match capture(name).1 {
        Message::Rej(rej) => rej,
        other => panic!("{other:?}"),
    };
    let nobody = rej("nobody_rej");
    assert_eq!(
        (nobody.reason, nobody.message),
        (reject::INVALID_SERVICE_ID, about::REQ)
    );

    let refused = rej("refused_rej");
    assert_eq!(refused.reason, reject::CONSUMER_DEFINED);
    assert_eq!(&refused.private_data[..10], b"not today\0");
    let withdrawn = rej("withdrawn_rej");
    assert_eq!(
        (withdrawn.reason, withdrawn.message),
        (reject::TIMEOUT, about::OTHER)
    );

    assert_eq!(withdrawn.ari_len, 8);
    assert_eq!(
        withdrawn.ari[..8],
        req("withdrawn_req").ca_guid.to_be_bytes()
    );

    match capture("slow_mra").1 {
        Message::Mra(mra) => assert_eq!((mra.service_timeout, mra.message), (24, about::REQ)),
        other => panic!("{other:?}"),
    }

    let status = |name| match capture(name).1 {
        Message::SidrRep(rep) => (rep.status, rep.qpn, rep.qkey),
        other => panic!("{other:?}"),
    };

    assert_eq!(
        status("udaddy_sidr_rep"),
        (sidr_status::VALID, 0x12, 0x0123_4567)
    );

    assert_eq!(status("nobody_sidr_rep").0, sidr_status::UNSUPPORTED);
    assert_eq!(status("refused_sidr_rep").0, sidr_status::REJECTED);
}

#[test]
fn the_active_side_sends_what_the_kernel_sends() {
    let captures = captures();
    let request = req("rping_req");
    let (mut cm, mut out) = in_place_of(request.ca_guid);
    let id = cm
        .connect(Time::ZERO, &connect_like(&request), &mut out)
        .unwrap();
    let ours = Message::parse(&out.sent[0].1).unwrap().1;
    let Message::Req(ours) = ours else {
        panic!("{ours:?}")
    };

    assert_eq!(
        only(&mut out, &captures["rping_req"], &[0]),
        captures["rping_req"]
    );

    let from = path_of(&request).av;
    let reply = Rep {
        remote_comm_id: ours.local_comm_id,
        ..rep("rping_rep")
    };
    cm.receive(Time::ZERO, &from, &Message::Rep(reply).emit(7), &mut out);
    assert!(matches!(out.next(), (_, CmEvent::Reply(_))));
    cm.establish(Time::ZERO, id, b"", &mut out).unwrap();
    assert_eq!(
        only(&mut out, &captures["rping_rtu"], &[0]),
        captures["rping_rtu"]
    );

    // 2 · 2^18 and 2^15, as rping's QP had it.
    assert_eq!(cm.qp_rts(id).unwrap().timeout, 19);
    cm.disconnect(Time::ZERO, id, b"", &mut out).unwrap();
    assert_eq!(
        only(&mut out, &captures["rping_dreq"], &[0]),
        captures["rping_dreq"]
    );
}

#[test]
fn the_passive_side_sends_what_the_kernel_sends() {
    let captures = captures();
    let (request, reply) = (req("rping_req"), rep("rping_rep"));
    let (mut cm, mut out) = in_place_of(reply.ca_guid);
    let from = reply_av(&request);
    cm.listen(service_id(PortSpace::Tcp, 7174), !0).unwrap();
    cm.receive(Time::ZERO, &from, &captures["rping_req"], &mut out);
    let (id, event) = out.next();
    assert!(matches!(event, CmEvent::Request { .. }));
    let accept = Accept {
        qpn: reply.local_qpn,
        starting_psn: reply.starting_psn,
        responder_resources: reply.responder_resources,
        initiator_depth: reply.initiator_depth,
        rnr_retry_count: reply.rnr_retry_count,
        flow_control: reply.flow_control,
        private_data: &reply.private_data,
        ..Accept::default()
    };

    cm.accept(Time::ZERO, id, &accept, &mut out).unwrap();
    let ours = Message::parse(&out.sent[0].1).unwrap().1;
    let Message::Rep(ours) = ours else {
        panic!("{ours:?}")
    };

    assert_eq!(
        only(&mut out, &captures["rping_rep"], &[0]),
        captures["rping_rep"]
    );

    // The kernel's next messages, to our name of the connection.
    for name in ["rping_rtu", "rping_dreq"] {
        let mut mad = captures[name];
        mad[28..32].copy_from_slice(&ours.local_comm_id.to_be_bytes());
        cm.receive(Time::ZERO, &from, &mad, &mut out);
    }

    assert!(matches!(out.next(), (_, CmEvent::Established(Some(_)))));
    assert!(matches!(out.next(), (_, CmEvent::DisconnectRequest(_))));
    cm.disconnect_reply(Time::ZERO, id, b"", &mut out).unwrap();
    assert_eq!(
        only(&mut out, &captures["rping_drep"], &[0]),
        captures["rping_drep"]
    );
}

#[test]
fn refusals_are_those_of_the_kernel() {
    let captures = captures();

    // Nobody listens.
    let (mut cm, mut out) = in_place_of(2);
    cm.receive(
        Time::ZERO,
        &reply_av(&req("nobody_req")),
        &captures["nobody_req"],
        &mut out,
    );

    assert_eq!(
        only(&mut out, &captures["nobody_rej"], &[]),
        captures["nobody_rej"]
    );

    // A slow server: an MRA once the request is repeated, then a refusal.
    let request = req("slow_req");
    let from = reply_av(&request);
    cm.listen(request.service_id, !0).unwrap();
    cm.receive(Time::ZERO, &from, &captures["slow_req"], &mut out);
    let (id, _) = out.next();
    cm.mra(Time::ZERO, id, 24, true, b"", &mut out).unwrap();
    assert!(out.sent.is_empty());
    cm.receive(
        Time::from_nanos(1),
        &from,
        &captures["slow_req_again"],
        &mut out,
    );

    assert_eq!(
        only(&mut out, &captures["slow_mra"], &[0]),
        captures["slow_mra"]
    );

    let reason = reject::CONSUMER_DEFINED;
    cm.reject(Time::from_nanos(2), id, reason, b"", b"not today", &mut out)
        .unwrap();
    assert_eq!(
        only(&mut out, &captures["slow_rej"], &[0]),
        captures["slow_rej"]
    );

    // A client that goes before it has an answer.
    let request = req("withdrawn_req");
    let (mut cm, mut out) = in_place_of(request.ca_guid);
    let id = cm
        .connect(Time::ZERO, &connect_like(&request), &mut out)
        .unwrap();
    out.sent.clear();
    cm.destroy(Time::ZERO, id, &mut out).unwrap();
    assert_eq!(
        only(&mut out, &captures["withdrawn_rej"], &[0]),
        captures["withdrawn_rej"]
    );
}

#[test]
fn resolutions_are_those_of_the_kernel() {
    let captures = captures();
    let Message::SidrReq(question) = capture("udaddy_sidr_req").1 else {
        panic!()
    };

    let (mut cm, mut out) = in_place_of(1);
    let resolve = Resolve {
        service_id: question.service_id,
        path: path(1, 2),
        response_timeout: 20,
        max_cm_retries: 15,
        private_data: &question.private_data,
    };
    cm.resolve(Time::ZERO, &resolve, &mut out).unwrap();
    let like = &captures["udaddy_sidr_req"];
    assert_eq!(only(&mut out, like, &[0]), *like);

    let from = av(2, 1);
    cm.receive(Time::ZERO, &from, &captures["nobody_sidr_req"], &mut out);
    let like = &captures["nobody_sidr_rep"];
    assert_eq!(only(&mut out, like, &[]), *like);

    cm.listen(question.service_id, !0).unwrap();
    cm.receive(Time::ZERO, &from, &captures["udaddy_sidr_req"], &mut out);
    let (id, event) = out.next();
    assert!(matches!(event, CmEvent::ResolveRequest { .. }));
    let reply = ResolveReply {
        qpn: 0x12,
        qkey: 0x0123_4567,
        ..ResolveReply::default()
    };
    cm.resolve_reply(Time::ZERO, id, &reply, &mut out).unwrap();
    let like = &captures["udaddy_sidr_rep"];
    assert_eq!(only(&mut out, like, &[]), *like);
}
