//! Other hosts, as far as programs have asked about them: which of them are ferroce's too. What is
//! known and when it is asked is `ferroce_fabric::peers`; here are the ways of the questions, to
//! QP1 of a RoCE port and back, and of the news.

use std::collections::HashSet;
use std::time::Instant;

use ferroce_control::random::random;
use ferroce_fabric::peers::Peers;
use ferroce_wire::greeting::SELECTIVE;
use ferroce_wire::mad::{Gid, Mad, QP1, QP1_QKEY};

use crate::clock::Clock;
use crate::mads::{Address, Incoming, Outgoing, Route};
use crate::qp1;
use crate::service::Service;

/// A host, and from which entry of our GID table it is asked: a link-local address is another host
/// behind each interface.
type Host = (u8, Gid);

/// Other hosts.
#[derive(Debug)]
pub(crate) struct Hosts {
    peers: Peers<Host>,
    clock: Clock,
    /// Questions that are to be sent.
    questions: Vec<Outgoing>,
    /// Connections whose questions are open.
    waiting: HashSet<u64>,
    /// A host has answered.
    news: bool,
}

impl Service for Hosts {
    fn next_timeout(&self) -> Option<Instant> {
        self.peers.next_timeout().map(|at| self.clock.instant(at))
    }
}

impl Hosts {
    /// Knows nobody.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            peers: Peers::new(SELECTIVE),
            clock: Clock::at(now),
            questions: Vec::new(),
            waiting: HashSet::new(),
            news: false,
        }
    }

    /// Whether a host's programs understand selective acknowledgements, for a connection, which is
    /// told should that become known later.
    pub(crate) fn speaks_selective(&mut self, asker: u64, host: Host) -> bool {
        let (features, question) = self.peers.ask(self.clock.now(), host, random);
        self.questions
            .extend(question.map(|mad| outgoing(host, mad)));
        if features.is_none() {
            self.waiting.insert(asker);
        }
        features.is_some_and(|features| features & SELECTIVE != 0)
    }

    /// Takes a response, if it answers one of our questions.
    pub(crate) fn receive(&mut self, incoming: &Incoming) {
        if let Some(grh) = incoming.from.grh {
            let host = (grh.gid_index, grh.gid);
            let now = self.clock.now();
            self.news |= self.peers.receive(now, host, &incoming.mad);
        }
    }

    /// The answer to a MAD that asks who is here.
    pub(crate) fn answer(&self, mad: &Mad) -> Option<Mad> {
        self.peers.answer(mad)
    }

    /// Asks those again who have said nothing.
    pub(crate) fn handle_timeout(&mut self) {
        let again = self.peers.handle_timeout(self.clock.now());
        let again = again.into_iter().map(|(host, mad)| outgoing(host, mad));
        self.questions.extend(again);
    }

    /// Takes the questions that are to be sent.
    pub(crate) fn outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.questions)
    }

    /// Takes the connections that are to be told that hosts have answered.
    pub(crate) fn news(&mut self) -> HashSet<u64> {
        match std::mem::take(&mut self.news) {
            true => std::mem::take(&mut self.waiting),
            false => HashSet::new(),
        }
    }

    /// A connection has ended.
    pub(crate) fn forget(&mut self, asker: u64) {
        self.waiting.remove(&asker);
    }
}

fn outgoing((gid_index, gid): Host, mad: Mad) -> Outgoing {
    Outgoing {
        port: qp1::PORT,
        qpn: QP1,
        to: Address {
            qpn: QP1,
            qkey: QP1_QKEY,
            grh: Some(Route {
                gid_index,
                hop_limit: qp1::HOP_LIMIT,
                gid,
                ..Route::default()
            }),
            ..Address::default()
        },
        mad,
    }
}
