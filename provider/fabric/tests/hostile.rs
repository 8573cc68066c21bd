//! Random and mutated MADs, and such as are sent in another's name: they change counters, and
//! nothing else.

mod pair;

use ferroce_fabric::cm::Time;
use ferroce_fabric::cm::*;
use ferroce_wire::cm::{Message, about, reject};
use pair::*;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;

/// Managers that are in many states at once, and messages of all of these connections.
fn busy() -> (Pair, Vec<(Av, [u8; 256])>) {
    let limits = Limits {
        connections: 100,
        half_open: 20,
        listeners: 10,
        ..Limits::default()
    };
    let mut p = Pair::with_limits(limits);
    p.cm[1].listen(SERVICE, !0).unwrap();
    let mut messages = Vec::new();
    for n in 0..4 {
        let [a, b] = p.connected([10 + n, 20 + n]);
        match n {
            1 => p.cm[0]
                .disconnect(Time::ZERO, a, b"", &mut p.out[0])
                .unwrap(),
            2 => {
                p.cm[0]
                    .disconnect(Time::ZERO, a, b"", &mut p.out[0])
                    .unwrap();
                messages.extend(p.out[0].sent.iter().copied());
                p.deliver();
                p.cm[1]
                    .disconnect_reply(Time::ZERO, b, b"", &mut p.out[1])
                    .unwrap();
            }
            _ => {}
        }

        messages.extend(p.out.iter().flat_map(|out| out.sent.iter().copied()));
        p.deliver();
        for out in &mut p.out {
            out.events.clear();
        }
    }

    for n in 0..4 {
        p.cm[0]
            .connect(
                Time::ZERO,
                &connect(SERVICE, path(1, 2), 30 + n),
                &mut p.out[0],
            )
            .unwrap();

        messages.extend(p.out[0].sent.iter().copied());
        p.deliver();
        let (b, _) = p.out[1].events.pop_back().unwrap();
        if n > 0 {
            p.cm[1]
                .accept(Time::ZERO, b, &accept(40 + n), &mut p.out[1])
                .unwrap();
        }

        messages.extend(p.out[1].sent.iter().copied());
        if n > 1 {
            p.deliver();
        }
    }

    for out in &mut p.out {
        out.sent.clear();
        out.events.clear();
    }

    (p, messages)
}

/// Their states.
fn states(cm: &Cm, ids: &[CmId]) -> Vec<Option<State>> {
    ids.iter().map(|id| cm.state(*id)).collect()
}

/// Established connections of which no message was captured, and the states that they should be in.
struct Bystanders {
    ids: [Vec<CmId>; 2],
    states: [Vec<Option<State>>; 2],
    /// Those of side 1 whose peer is being asked.
    doubted: Vec<usize>,
}

impl Bystanders {
    /// The first of the peers' QPs, as each side sees them; the others follow.
    const QPNS: [u32; 2] = [200, 100];

    fn new(p: &mut Pair) -> Bystanders {
        let mut ids = [Vec::new(), Vec::new()];
        for n in 0..5 {
            let [a, b] = p.connected([100 + n, 200 + n]);
            ids[0].push(a);
            ids[1].push(b);
        }
        let states = [0, 1].map(|side| states(&p.cm[side], &ids[side]));
        Bystanders {
            ids,
            states,
            doubted: Vec::new(),
        }
    }

    /// No more than this comes of one message.
    fn check(&self, p: &mut Pair) {
        for side in 0..2 {
            let answers = p.out[side].sent.len();
            assert!(answers <= 2, "{answers} answers to one message");
            for (_, mad) in p.out[side].sent.drain(..) {
                Message::parse(&mad).expect("what we send is understood");
            }
            assert!(p.cm[side].len() <= 100);
            assert_eq!(states(&p.cm[side], &self.ids[side]), self.states[side]);
            p.out[side].events.clear();
        }
    }

    /// Nothing has come of what was pending, either; but whoever was asked and did not answer,
    /// while we waited, is gone.
    fn check_established(&self, p: &Pair, waited: bool) {
        for side in 0..2 {
            for (n, (id, state)) in self.ids[side].iter().zip(&self.states[side]).enumerate() {
                let left = p.cm[side].state(*id) == Some(State::Established);
                let gone = waited && side == 1 && self.doubted.contains(&n);
                assert_eq!(left, *state == Some(State::Established) && !gone);
            }
        }
    }

    /// A request of the peer, no repetition, that comes from the QP of a bystander says that the
    /// peer has forgotten it (section 12.9.8.3.1): the request is refused as stale, and just that
    /// bystander is taken down; by side 1, which has a question to put, when the peer has been
    /// asked.
    fn expect_stale(&mut self, p: &Pair, side: usize, mad: &[u8]) {
        let Ok((_, Message::Req(req))) = Message::parse(mad) else {
            return;
        };
        let Some(named) = req.local_qpn.checked_sub(Self::QPNS[side]) else {
            return;
        };

        let refused = p.out[side].sent.iter().any(|(_, answer)| {
            matches!(Message::parse(answer), Ok((_, Message::Rej(rej)))
                if rej.reason == reject::STALE_CONNECTION && rej.remote_comm_id == req.local_comm_id)
        });

        let known = (named as usize) < self.states[side].len();
        match side {
            0 if refused && known => self.states[0][named as usize] = Some(State::DisconnectSent),
            1 if refused && known => self.doubted.push(named as usize),
            _ => {}
        }
    }
}

/// A request that was captured, sent from `qpn`.
fn request_of(captured: &[(Av, [u8; 256])], qpn: u32) -> (Av, [u8; 256]) {
    *captured
        .iter()
        .find(|(_, mad)| matches!(Message::parse(mad), Ok((_, Message::Req(req))) if req.local_qpn == qpn))
        .expect("a request")
}

/// Where a REQ has its communication ID, and the last byte of its QPN.
const REQ_COMM_ID: usize = 24;
const REQ_QPN: usize = 58;

#[test]
fn a_repeated_request_from_the_qp_of_another_harms_nobody() {
    for qpn in [30, 31, 32, 33] {
        let (mut p, captured) = busy();
        let bystanders = Bystanders::new(&mut p);
        let (to, mut mad) = request_of(&captured, qpn);
        mad[REQ_QPN] = 104;
        p.arrive(1, &to, &mad);
        bystanders.check(&mut p);
    }
}

/// The first message comes from the QP of the request, which is then forgotten: the second is no
/// repetition of it.
#[test]
fn a_forgotten_request_from_the_qp_of_another_has_the_peer_asked() {
    for qpn in [30, 31, 32, 33] {
        let (mut p, captured) = busy();
        let bystanders = Bystanders::new(&mut p);
        let (to, mad) = request_of(&captured, qpn);
        let mut other = mad;
        other[REQ_COMM_ID] ^= 1;
        p.arrive(1, &to, &other);
        bystanders.check(&mut p);
        let mut again = mad;
        again[REQ_QPN] = 104;
        p.arrive(1, &to, &again);
        let answers: Vec<_> = p.out[1]
            .sent
            .iter()
            .map(|(_, mad)| Message::parse(mad))
            .collect();

        assert!(
            matches!(answers[..], [Ok((_, Message::Rep(rep))), Ok((_, Message::Rej(rej)))]
                if rep.local_qpn == 204
                    && (rej.message, rej.reason) == (about::REQ, reject::STALE_CONNECTION)),
            "{answers:?}"
        );

        bystanders.check(&mut p);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::with_failure_persistence(WithSource("regressions")) })]

    #[test]
    fn random_bytes_do_nothing(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..50),
    ) {
        let (mut p, _) = busy();
        let bystanders = Bystanders::new(&mut p);
        for bytes in &messages {
            for side in 0..2 {
                p.arrive(side, &av(3, 1 + side as u8), bytes);
            }
            bystanders.check(&mut p);
        }
    }

    /// With the header of the class, so that every handler sees random content.
    #[test]
    fn random_content_does_nothing(
        messages in prop::collection::vec((0x10u16..0x1c, prop::collection::vec(any::<u8>(), 232)), 1..50),
    ) {
        let (mut p, _) = busy();
        let bystanders = Bystanders::new(&mut p);
        for (attribute, content) in &messages {
            let mut mad = [0; 256];
            ferroce_wire::MadHeader::cm(*attribute, 1, 0).emit(&mut mad);
            mad[24..].copy_from_slice(content);
            for side in 0..2 {
                p.arrive(side, &av(2 - side as u8, 1 + side as u8), &mad);
            }
            bystanders.check(&mut p);
        }
    }

    /// Mutated messages of real connections, from their real peers: those connections may suffer,
    /// others not, unless a message names their QP.
    #[test]
    fn mutated_messages_harm_no_others(
        choices in prop::collection::vec((any::<prop::sample::Index>(), 0usize..256, 1u8..), 1..60),
        wait in any::<bool>(),
    ) {
        let (mut p, captured) = busy();
        let mut bystanders = Bystanders::new(&mut p);
        for (index, at, change) in &choices {
            let (to, mut mad) = captured[index.index(captured.len())];
            mad[*at] ^= change;
            let side = usize::from(to.remote_gid == gid(2));
            p.arrive(side, &to, &mad);
            bystanders.expect_stale(&p, side, &mad);
            bystanders.check(&mut p);
        }
        // Whatever is pending ends.
        while wait && p.pass() {
            for out in &mut p.out {
                out.sent.clear();
                out.events.clear();
            }
        }
        bystanders.check_established(&p, wait);
    }
}

#[test]
fn a_dreq_that_names_another_qp_ends_nothing() {
    let mut p = listening();
    let [a, b] = p.connected([1, 2]);
    p.cm[0]
        .disconnect(Time::ZERO, a, b"", &mut p.out[0])
        .unwrap();
    let (to, dreq) = p.out[0].sent.pop_front().unwrap();
    let mut wrong = dreq;
    wrong[24 + 10] ^= 1;
    p.arrive(1, &to, &wrong);
    assert_eq!(p.cm[1].state(b), Some(State::Established));
    assert!(p.out[1].sent.is_empty());
    p.arrive(1, &to, &dreq);
    assert_eq!(p.cm[1].state(b), Some(State::DisconnectReceived));
}

#[test]
fn nobody_speaks_in_another_name() {
    let mut p = listening();
    let [a, b] = p.connected([1, 2]);
    p.cm[0]
        .disconnect(Time::ZERO, a, b"", &mut p.out[0])
        .unwrap();
    let (_, dreq) = p.out[0].sent.pop_front().unwrap();
    p.arrive(1, &av(3, 2), &dreq);
    assert_eq!(p.cm[1].state(b), Some(State::Established));
    assert!(
        matches!(p.out[1].drain()[..], [Message::Drep(_)]),
        "as for nobody"
    );
    assert!(p.out[1].events.is_empty());
    assert_eq!(p.cm[1].counters().unknown, 1);
}
