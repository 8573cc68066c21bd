//! The MAD tester in the words of the test specification: SendMad, ReceiveMad, VerifyNoReceiveMad,
//! and the timers of section 13.4.6.2.
//!
//! The tester is the subnet manager: it gives the device's ports LIDs and a short SubnetTimeOut
//! before a test, and takes back M_Keys after it, however it ended. What comes late is not lost: an
//! answer to a request that must not have one is noticed whenever it comes.

mod manage;
mod names;
mod programs;
mod smp;
mod verify;
pub mod wire;

pub use names::attribute_name;
pub use programs::reach;
pub use smp::{Answer, Smp, Trap};

use crate::rig::{Envelope, MadRig};
use crate::run::{Outcome, Run};
use anyhow::anyhow;
use ferroce_wire::mad::{Mad, MadHeader};
use ferroce_wire::smp::{CLASS_LID, Data, attribute, method};
use std::collections::VecDeque;
use std::time::Duration;

/// The tester's LID.
pub const SM_LID: u16 = 1;
/// SubnetTimeOut that ports have during tests: 1 ms.
pub const SUBNET_TIMEOUT: u8 = 8;
/// The unit of timers: 4.096 µs.
const TIME_UNIT: Duration = Duration::from_nanos(4096);
/// How long a link may take to come up.
const LINK_UP: Duration = Duration::from_secs(10);

/// Time of a timer's value n: 4.096 µs · 2^n.
pub fn timer(value: u8) -> Duration {
    TIME_UNIT * (1 << value.min(31))
}

/// The base LID that the tester gives to a port; as many LIDs above it as LMC can ask for are its
/// own.
pub fn lid_of(port: u8) -> u16 {
    u16::from(port) * 0x80
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    tid: u64,
    at: Duration,
    class: u8,
    attribute: u16,
}

/// What the tester knows of one port.
#[derive(Default)]
struct Known {
    /// M_Key that it has set.
    m_key: u64,
    /// Longest time to an answer, by the port's own account.
    response_time: Duration,
    /// Traps that came while something else was waited for.
    traps: VecDeque<Trap>,
    /// Other MADs that were not waited for.
    strays: VecDeque<(Envelope, Mad)>,
}

/// The MAD tester at work.
pub struct Tester<'r> {
    rig: &'r mut dyn MadRig,
    tid: u64,
    ports: Vec<Known>,
}

/// Runs a test with all ports Active and configured, and takes back afterwards what would hinder
/// the next test.
///
/// # Errors
/// As the test's; the rig failed; the device did not answer.
pub fn with_tester(
    run: &mut Run,
    rig: &mut dyn MadRig,
    body: impl FnOnce(&mut Run, &mut Tester<'_>) -> Outcome,
) -> Outcome {
    let mut tester = Tester::new(rig);
    run.step(
        "init",
        "PortInfo:PortState is Initialized, Armed or Active for both MADTester and DUT",
    );
    tester.initialize()?;
    let outcome = body(run, &mut tester);
    tester.clean_up();
    outcome
}

impl<'r> Tester<'r> {
    /// A tester that knows nothing of the device yet.
    pub fn new(rig: &'r mut dyn MadRig) -> Tester<'r> {
        let ports = (0..rig.ports()).map(|_| Known::default()).collect();
        Tester {
            rig,
            tid: 0x1b7a_0000_0000,
            ports,
        }
    }

    /// Cables, and so the device's ports that can be tested.
    pub fn ports(&self) -> u8 {
        self.rig.ports()
    }

    /// Time since the rig began.
    pub fn now(&self) -> Duration {
        self.rig.now()
    }

    /// Time since then in which the machine ran: whoever waits for what must come is patient for so
    /// long.
    pub fn waited_since(&self, then: Duration) -> Duration {
        let now = self.rig.now();
        now.saturating_sub(then)
            .saturating_sub(self.rig.stalled(then, now))
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// The rig failed.
    pub fn sleep(&mut self, time: Duration) -> Outcome {
        Ok(self.rig.sleep(time)?)
    }

    /// The rig, for what has no word here.
    pub fn rig(&mut self) -> &mut dyn MadRig {
        self.rig
    }

    /// Longest time to wait for an answer of a port before it is none: RespTimeValue and twice the
    /// SubnetTimeOut (13.4.6.2).
    pub fn response_timeout(&self, port: u8) -> Duration {
        self.known(port).response_time
    }

    fn known(&self, port: u8) -> &Known {
        &self.ports[usize::from(port) - 1]
    }

    fn known_mut(&mut self, port: u8) -> &mut Known {
        &mut self.ports[usize::from(port) - 1]
    }

    /// SendMad: sends a request by a port.
    ///
    /// # Errors
    /// The rig failed.
    pub fn send_mad(&mut self, port: u8, request: &Smp) -> Outcome<Sent> {
        let tid = request.tid.unwrap_or_else(|| self.next_tid());
        let m_key = request.m_key.unwrap_or(self.known(port).m_key);
        let mad = request.emit(port, m_key, tid);
        let to = match request.dlid {
            Some(dlid) => Envelope::smp(SM_LID, dlid),
            None => Envelope::directed(),
        };
        self.send_as_is(port, to, &mad)
    }

    /// Sends a MAD as it stands.
    ///
    /// # Errors
    /// The rig failed.
    pub fn send_as_is(&mut self, port: u8, to: Envelope, mad: &Mad) -> Outcome<Sent> {
        self.send_packet(port, &wire::packet(&to, mad), mad)
    }

    /// Sends a packet as it stands, that a MAD is or should be in.
    ///
    /// # Errors
    /// The rig failed.
    pub fn send_packet(&mut self, port: u8, packet: &[u8], mad: &Mad) -> Outcome<Sent> {
        let header = MadHeader::parse(mad).expect("a whole MAD");
        let at = self.rig.now();
        self.rig.transmit(port, packet)?;
        Ok(Sent {
            tid: header.tid,
            at,
            class: header.class,
            attribute: header.attribute,
        })
    }

    /// A transaction that has not been used.
    pub fn next_tid(&mut self) -> u64 {
        self.tid += 1;
        self.tid
    }

    /// ReceiveMad: the answer to a request; `None` if there is none even when one waits much longer
    /// than one must.
    ///
    /// # Errors
    /// The rig failed.
    pub fn receive_mad(&mut self, port: u8, sent: &Sent) -> Outcome<Option<Answer>> {
        let within = self.rig.patience().max(self.response_timeout(port));
        self.answer_until(port, sent, within)
    }

    /// Sends and receives.
    ///
    /// # Errors
    /// The rig failed.
    pub fn ask(&mut self, port: u8, request: &Smp) -> Outcome<Option<Answer>> {
        let sent = self.send_mad(port, request)?;
        self.receive_mad(port, &sent)
    }

    /// The answer to a request, if it is there within that time.
    ///
    /// # Errors
    /// The rig failed.
    pub fn answer_until(
        &mut self,
        port: u8,
        sent: &Sent,
        within: Duration,
    ) -> Outcome<Option<Answer>> {
        let is_answer = |_: &Envelope, mad: &Mad| {
            let header = MadHeader::parse(mad).expect("a whole MAD");
            (header.tid, header.class, header.attribute) == (sent.tid, sent.class, sent.attribute)
                && header.method & method::RESPONSE != 0
        };
        let answer = self.next(port, within, is_answer)?;
        let now = self.rig.now();
        Ok(answer.map(|(envelope, mad)| Answer::new(envelope, &mad, now - sent.at)))
    }

    /// The next MAD of a port that is so; others are put aside.
    ///
    /// # Errors
    /// The rig failed.
    pub fn next(
        &mut self,
        port: u8,
        within: Duration,
        wanted: impl Fn(&Envelope, &Mad) -> bool,
    ) -> Outcome<Option<(Envelope, Mad)>> {
        let strays = &mut self.known_mut(port).strays;
        if let Some(at) = strays.iter().position(|(from, mad)| wanted(from, mad)) {
            return Ok(strays.remove(at));
        }

        let deadline = self.rig.now() + within;
        loop {
            let left = deadline.saturating_sub(self.rig.now());
            let Some((from, mad)) = self.rig.receive(port, left)? else {
                return Ok(None);
            };
            if wanted(&from, &mad) {
                return Ok(Some((from, mad)));
            }
            let at = self.rig.now();
            let known = self.known_mut(port);
            match is_trap(&from, &mad) {
                true => known.traps.push_back(Trap::new(at, from, &mad)),
                false => known.strays.push_back((from, mad)),
            }
        }
    }

    /// The next trap of a port.
    ///
    /// # Errors
    /// The rig failed.
    pub fn receive_trap(&mut self, port: u8, within: Duration) -> Outcome<Option<Trap>> {
        if let Some(trap) = self.known_mut(port).traps.pop_front() {
            return Ok(Some(trap));
        }
        let trap = self.next(port, within, is_trap)?;
        let at = self.rig.now();
        Ok(trap.map(|(from, mad)| Trap::new(at, from, &mad)))
    }

    /// Tells a port that its trap has been heard.
    ///
    /// # Errors
    /// The rig failed.
    pub fn repress(&mut self, port: u8, trap: &Trap) -> Outcome {
        self.send_mad(port, &Smp::repress(trap).to_lid(lid_of(port)))?;
        Ok(())
    }

    /// Hears all traps that a port has to tell, and tells it so, until it is silent and has heard
    /// all that it was told: it answers what it was asked behind that, and what it sent before
    /// comes first.
    ///
    /// # Errors
    /// The rig failed.
    pub fn hear_all_traps(&mut self, port: u8) -> Outcome {
        for _ in 0..100 {
            match self.receive_trap(port, timer(SUBNET_TIMEOUT) * 20)? {
                Some(trap) => self.repress(port, &trap)?,
                None => {
                    self.ask(port, &Smp::get(attribute::NODE_INFO))?;
                    if self.known(port).traps.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
        Err(anyhow!("port {port} goes on sending traps that have been heard").into())
    }

    /// An attribute, asked by a port; as [`good`](Self::good).
    ///
    /// # Errors
    /// As [`good`](Self::good).
    pub fn data(&mut self, port: u8, attribute: u16, modifier: u32) -> Outcome<Data> {
        let request = Smp::get(attribute).about(modifier);
        Ok(*self.good(port, &request)?.data())
    }

    /// A MAD of another class to queue pair 1 of a port, and the answer.
    ///
    /// # Errors
    /// The rig failed.
    pub fn ask_general(&mut self, port: u8, mad: &Mad) -> Outcome<Option<Answer>> {
        let sent = self.send_as_is(port, Envelope::gmp(SM_LID, lid_of(port)), mad)?;
        self.receive_mad(port, &sent)
    }
}

/// Whether a MAD is a trap of subnet management.
fn is_trap(from: &Envelope, mad: &Mad) -> bool {
    from.qp == 0 && mad[1] == CLASS_LID && mad[3] == method::TRAP
}
