//! Random and mutated MADs: they change counters, and nothing else.

mod pair;

use ferroce_fabric::cm::*;
use ferroce_wire::cm::Message;
use pair::*;
use proptest::prelude::*;

/// Managers that are in many states at once, and messages of all of these connections.
fn busy() -> (Pair, Vec<(Av, [u8; 256])>) {
    let limits = Limits {
        connections: 100,
        half_open: 20,
        listeners: 10,
    };
    let mut p = Pair::with_limits(limits);
    p.cm[1].listen(SERVICE, !0).unwrap();
    let mut messages = Vec::new();
    for n in 0..4 {
        let [a, b] = p.connected([10 + n, 20 + n]);
        match n {
            1 => p.cm[0].disconnect(0, a, b"", &mut p.out[0]).unwrap(),
            2 => {
                p.cm[0].disconnect(0, a, b"", &mut p.out[0]).unwrap();
                messages.extend(p.out[0].sent.iter().copied());
                p.deliver();
                p.cm[1].disconnect_reply(0, b, b"", &mut p.out[1]).unwrap();
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
            .connect(0, &connect(SERVICE, path(1, 2), 30 + n), &mut p.out[0])
            .unwrap();
        messages.extend(p.out[0].sent.iter().copied());
        p.deliver();
        let (b, _) = p.out[1].events.pop_back().unwrap();
        if n > 0 {
            p.cm[1]
                .accept(0, b, &accept(40 + n), &mut p.out[1])
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

/// Connections of which no message was captured.
fn bystanders(p: &mut Pair) -> [Vec<CmId>; 2] {
    let mut ids = [Vec::new(), Vec::new()];
    for n in 0..5 {
        let [a, b] = p.connected([100 + n, 200 + n]);
        ids[0].push(a);
        ids[1].push(b);
    }
    ids
}

/// No more than this comes of one message.
fn check(p: &mut Pair, ids: &[Vec<CmId>; 2], before: &[Vec<Option<State>>; 2]) {
    for side in 0..2 {
        let answers = p.out[side].sent.len();
        assert!(answers <= 2, "{answers} answers to one message");
        for (_, mad) in p.out[side].sent.drain(..) {
            Message::parse(&mad).expect("what we send is understood");
        }
        assert!(p.cm[side].len() <= 100);
        assert_eq!(states(&p.cm[side], &ids[side]), before[side]);
        p.out[side].events.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_do_nothing(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..50),
    ) {
        let (mut p, _) = busy();
        let ids = bystanders(&mut p);
        let before = [states(&p.cm[0], &ids[0]), states(&p.cm[1], &ids[1])];
        for bytes in &messages {
            for side in 0..2 {
                p.arrive(side, &av(3, 1 + side as u8), bytes);
            }
            check(&mut p, &ids, &before);
        }
    }

    /// With the header of the class, so that every handler sees random content.
    #[test]
    fn random_content_does_nothing(
        messages in prop::collection::vec((0x10u16..0x1c, prop::collection::vec(any::<u8>(), 232)), 1..50),
    ) {
        let (mut p, _) = busy();
        let ids = bystanders(&mut p);
        let before = [states(&p.cm[0], &ids[0]), states(&p.cm[1], &ids[1])];
        for (attribute, content) in &messages {
            let mut mad = [0; 256];
            ferroce_wire::MadHeader::cm(*attribute, 1, 0).emit(&mut mad);
            mad[24..].copy_from_slice(content);
            for side in 0..2 {
                p.arrive(side, &av(2 - side as u8, 1 + side as u8), &mad);
            }
            check(&mut p, &ids, &before);
        }
    }

    /// Mutated messages of real connections, from their real peers: those connections may suffer, others not.
    #[test]
    fn mutated_messages_harm_no_others(
        choices in prop::collection::vec((any::<prop::sample::Index>(), 0usize..256, 1u8..), 1..60),
        wait in any::<bool>(),
    ) {
        let (mut p, captured) = busy();
        let ids = bystanders(&mut p);
        let before = [states(&p.cm[0], &ids[0]), states(&p.cm[1], &ids[1])];
        for (index, at, change) in &choices {
            let (to, mut mad) = captured[index.index(captured.len())];
            mad[*at] ^= change;
            let side = usize::from(to.remote_gid == gid(2));
            p.arrive(side, &to, &mad);
            check(&mut p, &ids, &before);
        }
        // Whatever is pending ends.
        while wait && p.pass() {
            for out in &mut p.out {
                out.sent.clear();
                out.events.clear();
            }
        }
    }
}
