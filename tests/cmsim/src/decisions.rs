//! What programs do when it is their turn, at random.

use crate::program::Phase;
use crate::world::World;
use ferroce_fabric::cm::Time;
use ferroce_fabric::{Accept, CmId, ResolveReply, State, reject};

impl World {
    /// A program does what it may do in its phase.
    pub(crate) fn decide(&mut self, n: usize, id: CmId) {
        let Some(program) = self.hosts[n].programs.get(&id).cloned() else {
            return;
        };

        let dice = self.rng.below(100);
        self.say(|| format!("host {n} {id:?} decides ({dice}) while {:?}", program.phase));
        match program.phase {
            Phase::Asked => self.decide_request(n, id, program.tag, dice),
            Phase::Replied => self.decide_reply(n, id, dice),
            Phase::Up => match dice {
                0..40 => {
                    self.call(n, id, Phase::Closing, |cm, now, out| {
                        cm.disconnect(now, id, b"", out)
                    });
                }
                40..60 => self.destroy(n, id),
                _ => {}
            },
            Phase::AskedToClose if dice < 80 => {
                self.call(n, id, Phase::Over, |cm, now, out| {
                    cm.disconnect_reply(now, id, b"", out)
                });
            }
            Phase::AskedToResolve if dice < 80 => {
                let reply = ResolveReply {
                    qpn: program.tag,
                    qkey: 1,
                    ..ResolveReply::default()
                };
                self.call(n, id, Phase::Over, |cm, now, out| {
                    cm.resolve_reply(now, id, &reply, out)
                });
                self.decide_later(n, id);
            }
            Phase::AskedToClose | Phase::AskedToResolve | Phase::Over | Phase::Done => {
                self.destroy(n, id);
            }
            // Something else has come in between.
            Phase::Requested | Phase::Accepted | Phase::Closing | Phase::Resolving => {}
        }
    }

    fn decide_request(&mut self, n: usize, id: CmId, tag: u32, dice: u64) {
        match dice {
            0..75 => {
                let accept = Accept {
                    qpn: tag,
                    private_data: &tag.to_be_bytes(),
                    ..Accept::default()
                };
                self.call(n, id, Phase::Accepted, |cm, now, out| {
                    cm.accept(now, id, &accept, out)
                });
                if dice < 5 {
                    // Takes it back, perhaps after the other side has confirmed.
                    self.decide_to_reject(n, id);
                }
            }
            75..85 => {
                self.call(n, id, Phase::Over, |cm, now, out| {
                    cm.reject(now, id, reject::CONSUMER_DEFINED, b"", b"no", out)
                });
                self.decide_later(n, id);
            }
            85..95 => self.ask_for_patience(n, id),
            _ => self.destroy(n, id),
        }
    }

    fn decide_to_reject(&mut self, n: usize, id: CmId) {
        self.call(n, id, Phase::Over, |cm, now, out| {
            cm.reject(now, id, reject::CONSUMER_DEFINED, b"", b"", out)
        });
    }

    fn decide_reply(&mut self, n: usize, id: CmId, dice: u64) {
        match dice {
            0..80 => {
                self.call(n, id, Phase::Up, |cm, now, out| {
                    cm.establish(now, id, b"", out)
                });
                self.talk(n, id);
                self.outcome.established += 1;
                self.decide_later(n, id);
            }
            80..87 => {
                self.decide_to_reject(n, id);
                self.decide_later(n, id);
            }
            87..95 => self.ask_for_patience(n, id),
            _ => self.destroy(n, id),
        }
    }

    /// An MRA, once; then the decision is made anew.
    fn ask_for_patience(&mut self, n: usize, id: CmId) {
        let state = self.hosts[n].cm.state(id);
        if matches!(state, Some(State::RequestReceived | State::ReplyReceived)) {
            let delayed = self.rng.percent(50);
            let host = &mut self.hosts[n];
            host.cm
                .mra(self.now, id, 18, delayed, b"", &mut host.out)
                .unwrap();
        }
        self.decide_later(n, id);
    }

    /// A call that must succeed, and the phase after it.
    fn call(
        &mut self,
        n: usize,
        id: CmId,
        phase: Phase,
        f: impl FnOnce(
            &mut ferroce_fabric::Cm,
            Time,
            &mut dyn ferroce_fabric::Sink,
        ) -> Result<(), ferroce_fabric::CmError>,
    ) {
        let host = &mut self.hosts[n];
        let before = host.cm.state(id);
        if let Err(error) = f(&mut host.cm, self.now, &mut host.out) {
            panic!("host {n} {id:?} in {before:?}, to become {phase:?}: {error}");
        }
        host.programs.get_mut(&id).unwrap().phase = phase;
    }
}
