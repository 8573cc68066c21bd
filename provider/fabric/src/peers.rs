//! What the daemons of hosts know of each other: who is ferroce too, and what it can do.
//!
//! Whoever connects to another host may [`ask`](Peers::ask). The first who does so has a question
//! sent to that host's QP1 ([`greeting`]); nobody waits for the answer.
//! Seven questions without one, or a refusal, and the host is somebody else's for a minute, as is
//! one that has answered ours for so long. Only an answer to a question that is open is believed,
//! with the 64 random bits of its transaction.

use std::collections::HashMap;
use std::hash::Hash;

use ferroce_wire::greeting::{self, Greeting};
use ferroce_wire::mad::{Mad, MadHeader};
use ferroce_wire::time::{Duration, Time};

/// How often a host is asked that says nothing.
const TRIES: u8 = 7;
/// How long the first answer is waited for, and each further one twice as long: 2.5 s in all. Where
/// packets are lost so are questions, and until one is answered losses cost most.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long what is known holds.
const HOLDS: Duration = Duration::from_secs(60);
/// The most hosts that are known of; the one that is due first goes.
const MOST: usize = 1024;

/// Hosts, by what names them and the way there.
#[derive(Debug)]
pub struct Peers<K> {
    /// What our own programs can do: bits of [`Greeting::features`].
    features: u32,
    hosts: HashMap<K, Host>,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    stage: Stage,
    /// When it is asked again, or known no longer.
    until: Time,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Asked { tid: u64, tries: u8 },
    Known { features: u32 },
}

impl<K: Copy + Eq + Hash> Peers<K> {
    /// Knows nobody. `features`: what is answered to others.
    pub fn new(features: u32) -> Peers<K> {
        Peers {
            features,
            hosts: HashMap::new(),
        }
    }

    /// What a host can do; `None` while that is not known. The MAD, if there is one, is to be sent
    /// to it. `tid`: random.
    pub fn ask(
        &mut self,
        now: Time,
        host: K,
        tid: impl FnOnce() -> u64,
    ) -> (Option<u32>, Option<Mad>) {
        match self.hosts.get(&host) {
            Some(Host {
                stage: Stage::Asked { .. },
                ..
            }) => return (None, None),
            Some(Host {
                stage: Stage::Known { features },
                until,
            }) if *until > now => return (Some(*features), None),
            _ => {}
        }

        self.make_room(host);
        let tid = tid();
        let asked = Host {
            stage: Stage::Asked { tid, tries: 1 },
            until: now + PATIENCE,
        };
        self.hosts.insert(host, asked);
        (None, Some(self.question(tid)))
    }

    /// Takes a MAD that has come from a host. Returns whether it has told something new.
    pub fn receive(&mut self, now: Time, host: K, mad: &Mad) -> bool {
        let Some(header) = MadHeader::parse(mad).filter(MadHeader::is_response) else {
            return false;
        };
        let Some(known) = self.hosts.get_mut(&host) else {
            return false;
        };
        let is_open = matches!(known.stage, Stage::Asked { tid, .. } if tid == header.tid);
        if header.class != greeting::CLASS || !is_open {
            return false;
        }

        // Nothing in it is ours: a refusal.
        let features = Greeting::parse(mad).map_or(0, |greeting| greeting.features);
        *known = Host {
            stage: Stage::Known { features },
            until: now + HOLDS,
        };
        features != 0
    }

    /// The answer to a MAD that asks who is here.
    pub fn answer(&self, mad: &Mad) -> Option<Mad> {
        let question = Greeting::parse(mad).filter(|greeting| !greeting.answer)?;
        let answer = Greeting {
            answer: true,
            features: self.features,
            ..question
        };
        Some(answer.emit())
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let asked = |host: &&Host| matches!(host.stage, Stage::Asked { .. });
        let asked = self.hosts.values().filter(asked);
        asked.map(|host| host.until).min()
    }

    /// The questions that are to be sent once more, and to whom. Who has said nothing often enough
    /// is somebody else.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<(K, Mad)> {
        let mut again = Vec::new();
        for (key, host) in &mut self.hosts {
            let Stage::Asked { tid, tries } = host.stage else {
                continue;
            };
            if host.until > now {
                continue;
            }
            *host = if tries < TRIES {
                again.push((*key, tid));
                Host {
                    stage: Stage::Asked {
                        tid,
                        tries: tries + 1,
                    },
                    until: now + PATIENCE * (1 << tries),
                }
            } else {
                Host {
                    stage: Stage::Known { features: 0 },
                    until: now + HOLDS,
                }
            };
        }

        let again = again.into_iter();
        again.map(|(key, tid)| (key, self.question(tid))).collect()
    }

    fn question(&self, tid: u64) -> Mad {
        let question = Greeting {
            answer: false,
            tid,
            features: self.features,
        };
        question.emit()
    }

    fn make_room(&mut self, host: K) {
        if self.hosts.len() < MOST || self.hosts.contains_key(&host) {
            return;
        }
        let first = self.hosts.iter().min_by_key(|(_, host)| host.until);
        if let Some(key) = first.map(|(key, _)| *key) {
            self.hosts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_wire::greeting::SELECTIVE;

    const OURS: u32 = SELECTIVE;
    const THEIRS: u32 = SELECTIVE | 1 << 9;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn peers() -> Peers<u16> {
        Peers::new(OURS)
    }

    /// Host 7 is asked; the question.
    fn asked(peers: &mut Peers<u16>, now: Time) -> Mad {
        match peers.ask(now, 7, || 0x1234) {
            (None, Some(question)) => question,
            other => panic!("{other:?}"),
        }
    }

    fn known(peers: &mut Peers<u16>, now: Time) -> Option<u32> {
        let (features, question) = peers.ask(now, 7, || unreachable!("it is not asked again"));
        assert!(question.is_none());
        features
    }

    #[test]
    fn who_is_ferroce_too_says_so_once_a_minute() {
        let (mut we, they) = (peers(), Peers::<u16>::new(THEIRS));
        let question = asked(&mut we, at(0));
        assert_eq!(known(&mut we, at(0)), None, "one question is enough");
        let answer = they.answer(&question).expect("an answer");
        assert!(we.receive(at(0), 7, &answer));
        assert_eq!(known(&mut we, at(59)), Some(THEIRS));
        assert_eq!(we.next_timeout(), None);
        asked(&mut we, at(60));
    }

    #[test]
    fn silence_is_asked_about_seven_times() {
        let millis = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut we = peers();
        let question = asked(&mut we, at(0));
        for due in [20, 60, 140, 300, 620, 1260] {
            assert_eq!(we.next_timeout(), Some(millis(due)));
            assert_eq!(we.handle_timeout(millis(due)), [(7, question)]);
        }
        assert_eq!(we.next_timeout(), Some(millis(2540)));
        assert!(we.handle_timeout(at(3)).is_empty());
        assert_eq!(we.next_timeout(), None);
        assert_eq!(known(&mut we, at(62)), Some(0));
        asked(&mut we, at(63));
    }

    /// Section 13.4.7: what nobody takes is refused with a status.
    #[test]
    fn a_refusal_ends_the_questions() {
        let mut we = peers();
        let question = asked(&mut we, at(0));
        let refusal = crate::gsi::refuse(&question).expect("a refusal");
        assert!(!we.receive(at(0), 7, &refusal), "nothing to tell of");
        assert_eq!(we.next_timeout(), None);
        assert_eq!(known(&mut we, at(1)), Some(0));
    }

    #[test]
    fn answers_that_were_not_asked_for_are_not_believed() {
        let they = Peers::<u16>::new(THEIRS);
        let mut we = peers();
        let question = asked(&mut we, at(0));
        let answer = they.answer(&question).expect("an answer");

        let mut guessed = answer;
        guessed[15] ^= 1; // of another transaction
        assert!(!we.receive(at(0), 7, &guessed));
        let mut other = answer;
        other[1] = 0x0e; // of another class
        assert!(!we.receive(at(0), 7, &other));
        assert!(!we.receive(at(0), 8, &answer), "from another host");
        assert!(!we.receive(at(0), 7, &question), "no answer");
        assert_eq!(known(&mut we, at(0)), None);
        assert!(we.receive(at(0), 7, &answer));
        assert!(!we.receive(at(0), 7, &answer), "nothing new");
    }

    #[test]
    fn only_questions_are_answered() {
        let (mut we, they) = (peers(), Peers::<u16>::new(THEIRS));
        let question = asked(&mut we, at(0));
        let answer = they.answer(&question).expect("an answer");
        assert_eq!(they.answer(&answer), None);
        let mut somebody_elses = question;
        somebody_elses[24] = 0;
        assert_eq!(they.answer(&somebody_elses), None);
    }

    #[test]
    fn the_table_has_an_end() {
        let mut we = peers();
        for host in 0..MOST as u16 + 5 {
            let now = Time::ZERO + Duration::from_millis(host.into());
            assert!(we.ask(now, host, || 1).1.is_some());
        }
        assert_eq!(we.hosts.len(), MOST);
        assert!(!we.hosts.contains_key(&4) && we.hosts.contains_key(&5));
    }
}
