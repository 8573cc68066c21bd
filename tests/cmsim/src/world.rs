//! Hosts, network and time; programs that decide at random; and the check that nobody is left with
//! half of a connection.

use crate::host::{Host, av, host_of};
use crate::network::Network;
use crate::plan::{MS, Outcome, Plan};
use crate::program::{Phase, Program, tag};
use ferroce_fabric::{Av, CmEvent, CmId, Connect, Ece, Limits, Path, Resolve, State, Transport};
use ferroce_sim::Rng;
use ferroce_wire::cm::Message;
use ferroce_wire::time::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    /// Host, other host.
    Connect(usize, usize),
    Resolve(usize, usize),
    /// The program behind an ID decides what to do next.
    Decide(usize, CmId),
    Destroy(usize, CmId),
    /// Somebody begins or ceases to listen.
    Toggle(usize, u64),
    /// A request arrives at a QP of a host.
    Request(usize, u32),
}

/// The services that hosts offer at times.
const SERVICES: [u64; 2] = [0x0106_0001, 0x0106_0002];

/// All there is.
pub struct World {
    /// Virtual time, in nanoseconds.
    pub now: Time,
    /// Both hosts.
    pub hosts: [Host; 2],
    pub(crate) rng: Rng,
    network: Network,
    plan: Plan,
    actions: BinaryHeap<Reverse<(Time, u64, Action)>>,
    order: u64,
    next_tag: u32,
    /// Who has a tag.
    tags: HashMap<u32, (usize, CmId)>,
    pub(crate) outcome: Outcome,
    trace: bool,
}

impl World {
    /// A world that follows from a seed.
    pub fn new(seed: u64, plan: Plan, trace: bool) -> World {
        let host = |n| Host::new(n, seed, Limits::default());
        World {
            now: Time::ZERO,
            hosts: [host(0), host(1)],
            rng: Rng::new(seed),
            network: Network::new(plan.network),
            plan,
            actions: BinaryHeap::new(),
            order: 0,
            next_tag: 1,
            tags: HashMap::new(),
            outcome: Outcome::default(),
            trace,
        }
    }

    /// Carries the plan out, until nothing more happens, and checks what is left.
    pub fn run(&mut self) -> Outcome {
        for host in 0..2 {
            for service in SERVICES {
                if self.rng.percent(90) {
                    self.toggle(host, service);
                }
                if self.rng.percent(10) {
                    let at = Time::ZERO + self.rng.span_below(self.plan.within);
                    self.schedule(at, Action::Toggle(host, service));
                }
            }
        }

        for _ in 0..self.plan.connections {
            let at = Time::ZERO + self.rng.span_below(self.plan.within);
            let (from, to) = (self.rng.below(2) as usize, self.rng.below(2) as usize);
            let action = if self.rng.percent(15) {
                Action::Resolve(from, to)
            } else {
                Action::Connect(from, to)
            };
            self.schedule(at, action);
        }

        self.settle();
        self.check_pairs();
        self.destroy_all();
        self.settle();
        for (n, host) in self.hosts.iter().enumerate() {
            assert!(host.cm.is_empty(), "host {n} keeps {}", host.cm.len());
            assert_eq!(host.cm.next_timeout(), None);
        }

        self.outcome.messages = self.network.sent;
        self.outcome
    }

    /// Lets time pass until nothing is under way and nothing is due.
    pub fn settle(&mut self) {
        loop {
            self.carry_out();
            let next = [
                self.network.next(),
                self.hosts[0].cm.next_timeout(),
                self.hosts[1].cm.next_timeout(),
                self.actions.peek().map(|Reverse((at, ..))| *at),
            ];
            let Some(next) = next.into_iter().flatten().min() else {
                return;
            };

            self.now = self.now.max(next);

            while let Some((to, mad)) = self.network.arrival(self.now) {
                let from = Av {
                    local_gid: to.remote_gid,
                    remote_gid: to.local_gid,
                    ..to
                };
                let host = &mut self.hosts[host_of(&to.remote_gid)];
                host.cm.receive(self.now, &from, &mad, &mut host.out);
                if let Ok((_, Message::Rtu(rtu))) = Message::parse(&mad) {
                    host.answered(&rtu);
                }
                self.carry_out();
            }

            for host in &mut self.hosts {
                let heard = |qpn| host.heard.contains(&qpn);
                host.cm.handle_timeout(self.now, &heard, &mut host.out);
            }

            self.carry_out();

            while let Some(Reverse((at, _, action))) = self.actions.peek().copied() {
                if at > self.now {
                    break;
                }
                self.actions.pop();
                self.act(action);
                self.carry_out();
            }
        }
    }

    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>12.6} {}", self.now.as_nanos() as f64 / 1e9, what());
        }
    }

    fn schedule(&mut self, at: Time, action: Action) {
        self.order += 1;
        self.actions.push(Reverse((at, self.order, action)));
    }

    pub(crate) fn decide_later(&mut self, host: usize, id: CmId) {
        let at = self.now + self.rng.span_below(self.plan.patience);
        self.schedule(at, Action::Decide(host, id));
    }

    /// Sends what was to be sent and shows events to the programs.
    fn carry_out(&mut self) {
        for n in 0..2 {
            for (to, mad) in std::mem::take(&mut self.hosts[n].out.sent) {
                self.say(|| {
                    let message = ferroce_wire::cm::Message::parse(&mad).map(|(_, m)| m);
                    format!(
                        "host {n} sends to {}: {message:x?}",
                        host_of(&to.remote_gid)
                    )
                });
                self.network.send(self.now, to, mad, &mut self.rng);
            }
            while let Some((id, event)) = self.hosts[n].out.events.pop_front() {
                self.take_event(n, id, &event);
            }
        }
    }

    fn take_event(&mut self, n: usize, id: CmId, event: &CmEvent) {
        self.say(|| format!("host {n} {id:?}: {event:?}"));
        match event {
            CmEvent::Request { request, .. } => {
                let partner = Some(tag(&request.private_data));
                self.adopt(n, id, Phase::Asked, partner);
            }
            CmEvent::ResolveRequest { .. } => {
                self.adopt(n, id, Phase::AskedToResolve, None);
            }
            _ => {
                let host = &mut self.hosts[n];
                let program = host.programs.get_mut(&id);
                let program = program.unwrap_or_else(|| panic!("event for {id:?}, which is gone"));
                assert!(
                    *event != CmEvent::ReplyTimedOut || !host.heard.contains(&program.tag),
                    "host {n} {id:?} gives up a peer that talks to it"
                );
                match program.take(event) {
                    Ok(true) => self.decide_later(n, id),
                    Ok(false) => {}
                    Err(wrong) => panic!("host {n} {id:?}: {wrong}"),
                }
            }
        }

        match event {
            CmEvent::Established(_) => self.outcome.established += 1,
            CmEvent::Rejected(_) => self.outcome.rejected += 1,
            CmEvent::RequestTimedOut | CmEvent::ReplyTimedOut | CmEvent::ResolveTimedOut => {
                self.outcome.timed_out += 1;
            }
            CmEvent::ResolveReply(_) => self.outcome.resolved += 1,
            _ => {}
        }
    }

    fn fresh_tag(&mut self) -> u32 {
        self.next_tag += 1;
        self.next_tag
    }

    /// A new ID gets a program.
    fn adopt(&mut self, n: usize, id: CmId, phase: Phase, partner: Option<u32>) {
        let tag = self.fresh_tag();
        self.adopt_tagged(n, id, phase, partner, tag);
        self.decide_later(n, id);
    }

    fn adopt_tagged(&mut self, n: usize, id: CmId, phase: Phase, partner: Option<u32>, tag: u32) {
        let program = Program {
            phase,
            tag,
            partner,
            comm_id: None,
            talks: self.rng.percent(50),
        };
        assert!(self.hosts[n].programs.insert(id, program).is_none());
        self.tags.insert(tag, (n, id));
        if self.rng.percent(self.plan.destroyed) {
            let at = self.now + self.rng.span_below(4 * self.plan.patience + 1000 * MS);
            self.schedule(at, Action::Destroy(n, id));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect(from, to) => self.connect(from, to),
            Action::Resolve(from, to) => self.resolve(from, to),
            Action::Decide(n, id) => self.decide(n, id),
            Action::Destroy(n, id) => self.destroy(n, id),
            Action::Toggle(n, service) => self.toggle(n, service),
            Action::Request(n, qpn) => {
                let (_, id) = self.tags[&qpn];
                let host = &mut self.hosts[n];
                let program = host.programs.get(&id);
                if program.is_some_and(|program| program.phase == Phase::Accepted) {
                    host.heard.insert(qpn);
                }
            }
        }
    }

    fn toggle(&mut self, n: usize, service: u64) {
        let host = &mut self.hosts[n];
        match host.listeners.remove(&service) {
            Some(id) => host.cm.destroy(self.now, id, &mut host.out).unwrap(),
            None => {
                let id = host.cm.listen(service, !0).unwrap();
                host.listeners.insert(service, id);
            }
        }
    }

    fn path(&mut self, from: usize, to: usize) -> Path {
        Path {
            av: av(from, to),
            mtu: 3,
            packet_rate: 2,
            packet_life_time: 16,
        }
    }

    fn connect(&mut self, from: usize, to: usize) {
        let tag = self.fresh_tag();
        let connect = Connect {
            service_id: self.rng.pick(&SERVICES),
            path: self.path(from, to),
            qpn: tag,
            transport: Transport::Rc,
            starting_psn: self.rng.below(1 << 24) as u32,
            responder_resources: 1,
            initiator_depth: 1,
            remote_response_timeout: self.plan.response_timeout,
            local_response_timeout: self.plan.response_timeout,
            retry_count: 7,
            rnr_retry_count: 7,
            max_cm_retries: 15,
            flow_control: false,
            srq: false,
            ece: Ece::default(),
            private_data: &tag.to_be_bytes(),
        };
        let host = &mut self.hosts[from];
        let id = host.cm.connect(self.now, &connect, &mut host.out).unwrap();
        self.say(|| format!("host {from} connects to {to}: {id:?}, tag {tag}"));
        self.adopt_tagged(from, id, Phase::Requested, None, tag);
    }

    fn resolve(&mut self, from: usize, to: usize) {
        let tag = self.fresh_tag();
        let resolve = Resolve {
            service_id: self.rng.pick(&SERVICES),
            path: self.path(from, to),
            response_timeout: self.plan.response_timeout,
            max_cm_retries: 15,
            private_data: &tag.to_be_bytes(),
        };
        let host = &mut self.hosts[from];
        let id = host.cm.resolve(self.now, &resolve, &mut host.out).unwrap();
        self.adopt_tagged(from, id, Phase::Resolving, None, tag);
    }

    pub(crate) fn destroy(&mut self, n: usize, id: CmId) {
        let host = &mut self.hosts[n];
        if host.programs.remove(&id).is_some() {
            host.cm.destroy(self.now, id, &mut host.out).unwrap();
            self.say(|| format!("host {n} {id:?} destroyed"));
        }
    }

    /// A program that talks sends requests, and again until they arrive.
    pub(crate) fn talk(&mut self, n: usize, id: CmId) {
        let program = &self.hosts[n].programs[&id];
        let Some(partner) = program.partner.filter(|_| program.talks) else {
            return;
        };
        let (m, _) = self.tags[&partner];
        let at = self.now + self.plan.network.delay + self.rng.span_below(1000 * MS);
        self.schedule(at, Action::Request(m, partner));
    }

    /// Ends everything.
    fn destroy_all(&mut self) {
        for n in 0..2 {
            let ids: Vec<CmId> = self.hosts[n].programs.keys().copied().collect();
            for id in ids {
                self.destroy(n, id);
            }
            for (_, id) in std::mem::take(&mut self.hosts[n].listeners) {
                let host = &mut self.hosts[n];
                host.cm.destroy(self.now, id, &mut host.out).unwrap();
            }
        }
    }

    /// Who is connected is connected to somebody who is, and nobody waits for anything.
    ///
    /// One who asked may not know that the other side has given it up: if that had never heard of
    /// this host, heard nothing of this connection but the request, and may not send more than came
    /// in this host's name. Whoever's RTU comes in time knows; whoever talks finds nobody.
    fn check_pairs(&mut self) {
        for (n, host) in self.hosts.iter().enumerate() {
            for (id, program) in &host.programs {
                let state = host.cm.state(*id);
                assert_eq!(
                    program.phase,
                    Phase::Up,
                    "host {n} {id:?} {state:?} waits for ever"
                );
                assert_eq!(state, Some(State::Established), "host {n} {id:?}");
                let partner = program.partner.unwrap();
                let (m, other) = self.tags[&partner];
                let told = &self.hosts[m].told;
                let unheard = program.comm_id.is_some_and(|id| !told.contains(&id));
                let other = self.hosts[m].programs.get(&other);
                if unheard && other.is_none_or(|o| matches!(o.phase, Phase::Over | Phase::Done)) {
                    self.outcome.unheard += 1;
                    continue;
                }
                assert!(
                    other.is_some_and(|o| o.phase == Phase::Up && o.partner == Some(program.tag)),
                    "host {n} {id:?} (tag {}) is connected to {other:?} (tag {partner})",
                    program.tag
                );
                self.outcome.left += 1;
            }
        }
    }
}
