//! The MAD tester in the words of the test specification: SendMad, ReceiveMad, VerifyNoReceiveMad, and the timers of section
//! 13.4.6.2.
//!
//! The tester is the subnet manager: it gives the device's ports LIDs and a short SubnetTimeOut before a test, and takes back
//! M_Keys after it, however it ended. What comes late is not lost: an answer to a request that must not have one is
//! noticed whenever it comes.

mod smp;
pub mod wire;

pub use smp::{Answer, Smp, Trap};

use crate::protocol::{AsyncEvent, Command, PortState, Reply};
use crate::rig::{Envelope, MadRig};
use crate::run::{Outcome, Run, Stop};
use anyhow::anyhow;
use ferroce_wire::mad::{Mad, MadHeader};
use ferroce_wire::smp::{
    CLASS_DIRECTED, CLASS_LID, Data, PortInfo, attribute, method, phys_state, state,
};
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

/// The base LID that the tester gives to a port; as many LIDs above it as LMC can ask for are its own.
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

/// Runs a test with all ports Active and configured, and takes back afterwards what would hinder the next test.
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

    /// Longest time to wait for an answer of a port before it is none: RespTimeValue and twice the SubnetTimeOut (13.4.6.2).
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

    /// ReceiveMad: the answer to a request; `None` if there is none even when one waits much longer than one must.
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

    /// Sends and receives, and there must be an answer.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn must_answer(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        request: &Smp,
    ) -> Outcome<Answer> {
        let answer = self.ask(port, request)?;
        run.check(assertion, answer.is_some(), || {
            format!("no answer to {} by port {port}", name(request))
        })?;
        Ok(answer.expect("just checked"))
    }

    /// Sends and receives, and the answer must have this status.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn must_have_status(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        request: &Smp,
        status: u16,
    ) -> Outcome<Answer> {
        let answer = self.must_answer(run, assertion, port, request)?;
        run.check(assertion, answer.status() == status, || {
            format!(
                "{} by port {port} is answered with status {:#06x}, must be {status:#06x}",
                name(request),
                answer.status()
            )
        })?;
        Ok(answer)
    }

    /// VerifyNoReceiveMad: sends, waits as long as an answer could take, and there must be none.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn verify_no_receive_mad(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        sent: &Sent,
    ) -> Outcome {
        let within = self.response_timeout(port);
        let answer = self.answer_until(port, sent, within)?;
        run.check(assertion, answer.is_none(), || {
            let answer = answer.expect("there is one");
            format!(
                "port {port} answers with method {:#x}, status {:#06x}, where it must be silent",
                answer.header.method,
                answer.status()
            )
        })
    }

    /// VerifyNoReceiveMad of several requests that were sent together: one wait for all.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn verify_none_received(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        sent: &[Sent],
    ) -> Outcome {
        let Some((last, earlier)) = sent.split_last() else {
            return Ok(());
        };
        self.verify_no_receive_mad(run, assertion, port, last)?;
        for sent in earlier {
            let answer = self.answer_until(port, sent, Duration::ZERO)?;
            run.check(assertion, answer.is_none(), || {
                format!(
                    "port {port} answers transaction {:#x} where it must be silent",
                    sent.tid
                )
            })?;
        }
        Ok(())
    }

    /// Sends, and there must be no answer.
    ///
    /// # Errors
    /// The assertion failed, or the rig did.
    pub fn must_be_silent(
        &mut self,
        run: &mut Run,
        assertion: &str,
        port: u8,
        request: &Smp,
    ) -> Outcome {
        let sent = self.send_mad(port, request)?;
        self.verify_no_receive_mad(run, assertion, port, &sent)
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
        let came = self.next(port, within, is_answer)?;
        let now = self.rig.now();
        Ok(came.map(|(envelope, mad)| Answer::new(envelope, &mad, now - sent.at)))
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
            let is_trap = from.qp == 0 && mad[1] == CLASS_LID && mad[3] == method::TRAP;
            let known = self.known_mut(port);
            match is_trap {
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
        let is_trap = |from: &Envelope, mad: &Mad| {
            from.qp == 0 && mad[1] == CLASS_LID && mad[3] == method::TRAP
        };
        let came = self.next(port, within, is_trap)?;
        let at = self.rig.now();
        Ok(came.map(|(from, mad)| Trap::new(at, from, &mad)))
    }

    /// Tells a port that its trap has been heard.
    ///
    /// # Errors
    /// The rig failed.
    pub fn repress(&mut self, port: u8, trap: &Trap) -> Outcome {
        let request = Smp {
            data: *ferroce_wire::smp::data(&trap.mad),
            tid: Some(trap.header.tid),
            ..Smp::new(method::TRAP_REPRESS, attribute::NOTICE)
        };
        self.send_mad(port, &request.to_lid(lid_of(port)))?;
        Ok(())
    }

    /// Hears all traps that a port has to tell, and tells it so, until it is silent.
    ///
    /// # Errors
    /// The rig failed.
    pub fn hear_all_traps(&mut self, port: u8) -> Outcome {
        for _ in 0..100 {
            match self.receive_trap(port, timer(SUBNET_TIMEOUT) * 20)? {
                Some(trap) => self.repress(port, &trap)?,
                None => return Ok(()),
            }
        }
        Err(anyhow!("port {port} goes on sending traps that have been heard").into())
    }

    /// PortInfo of port `about` (0: itself), asked by `port` with the key that the tester knows. There must be an answer for
    /// the test to go on.
    ///
    /// # Errors
    /// The device does not answer, or the rig failed.
    pub fn port_info(&mut self, port: u8, about: u8) -> Outcome<PortInfo> {
        let request = Smp::get(attribute::PORT_INFO).about(about.into());
        Ok(self.good(port, &request)?.port_info())
    }

    /// PortInfo of a port by itself, ready to be written back: it commands no change of state.
    ///
    /// # Errors
    /// As [`port_info`](Self::port_info).
    pub fn port_info_data(&mut self, port: u8, about: u8) -> Outcome<PortInfo> {
        let mut info = self.port_info(port, about)?;
        info.port_state = state::NO_CHANGE;
        info.port_physical_state = phys_state::NO_CHANGE;
        Ok(info)
    }

    /// Changes PortInfo of a port by itself, as the test's preparation.
    ///
    /// # Errors
    /// The device does not answer, refuses, or the rig failed.
    pub fn change(&mut self, port: u8, change: impl FnOnce(&mut PortInfo)) -> Outcome<PortInfo> {
        let mut info = self.port_info_data(port, 0)?;
        change(&mut info);
        let answer = self.good(port, &Smp::set_port_info(0, &info))?;
        let now = answer.port_info();
        let known = self.known_mut(port);
        known.m_key = info.m_key;
        known.response_time = timer(now.resp_time_value) + 2 * timer(now.subnet_timeout);
        Ok(now)
    }

    /// Sets the M_Key of a port and how it protects.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub fn set_m_key(&mut self, port: u8, m_key: u64, protect: u8) -> Outcome {
        self.change(port, |info| {
            (info.m_key, info.m_key_protect_bits) = (m_key, protect);
        })?;
        Ok(())
    }

    /// The key that the tester knows a port by, from now on; what the port has is not changed.
    pub fn know_m_key(&mut self, port: u8, m_key: u64) {
        self.known_mut(port).m_key = m_key;
    }

    /// M_KeyViolations of a port, by itself.
    ///
    /// # Errors
    /// As [`port_info`](Self::port_info).
    pub fn m_key_violations(&mut self, port: u8) -> Outcome<u16> {
        Ok(self.port_info(port, 0)?.m_key_violations)
    }

    /// Asks for what must be answered for the test to go on.
    ///
    /// # Errors
    /// The device does not answer, or with a status; or the rig failed.
    pub fn good(&mut self, port: u8, request: &Smp) -> Outcome<Answer> {
        let answer = self.ask(port, request)?;
        let answer =
            answer.ok_or_else(|| anyhow!("no answer to {} by port {port}", name(request)))?;
        if answer.status() != 0 {
            return Err(Stop::Broken(anyhow!(
                "{} by port {port} is refused with status {:#06x}",
                name(request),
                answer.status()
            )));
        }
        Ok(answer)
    }

    /// An attribute, asked by a port; as [`good`](Self::good).
    ///
    /// # Errors
    /// As [`good`](Self::good).
    pub fn data(&mut self, port: u8, attribute: u16, modifier: u32) -> Outcome<Data> {
        let request = Smp::get(attribute).about(modifier);
        Ok(*self.good(port, &request)?.data())
    }

    /// Has the device side do something that must succeed; `None` if it cannot do such a thing.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn command(&mut self, command: &Command) -> Outcome<Option<Reply>> {
        match self.rig.command(command)? {
            // EOPNOTSUPP and ENOSYS.
            Reply::Errno { code: 95 | 38, .. } => Ok(None),
            Reply::Errno { code, what } => Err(anyhow!("{what}: errno {code}").into()),
            reply => Ok(Some(reply)),
        }
    }

    /// What programs are told of a port.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn query_port(&mut self, port: u8) -> Outcome<PortState> {
        match self.command(&Command::QueryPort { port })? {
            Some(Reply::Port(state)) => Ok(state),
            reply => Err(anyhow!("ibv_query_port answers {reply:?}").into()),
        }
    }

    /// Takes the events that programs have been told of, and forgets them.
    ///
    /// # Errors
    /// The rig failed.
    pub fn forget_events(&mut self) -> Outcome {
        while !self.events(Duration::from_millis(50))?.is_empty() {}
        Ok(())
    }

    /// The events that programs are told of.
    ///
    /// # Errors
    /// The rig failed.
    pub fn events(&mut self, within: Duration) -> Outcome<Vec<AsyncEvent>> {
        match self.command(&Command::Events { within })? {
            Some(Reply::Events { events }) => Ok(events),
            reply => Err(anyhow!("the device side answers {reply:?}").into()),
        }
    }

    /// Waits for an event of a port; whether it came.
    ///
    /// # Errors
    /// The rig failed.
    pub fn event_comes(&mut self, port: u8, event: u32) -> Outcome<bool> {
        let wanted = AsyncEvent {
            event,
            element: port.into(),
        };
        let deadline = self.rig.now() + self.rig.patience();
        while self.rig.now() < deadline {
            let left = deadline - self.rig.now();
            if self.events(left)?.contains(&wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until a port has the tester's link and is in a state, as another port or itself tells.
    ///
    /// # Errors
    /// It does not come to that, or the rig failed.
    pub fn wait_for_state(&mut self, by: u8, about: u8, wanted: &[u8]) -> Outcome<PortInfo> {
        let deadline = self.rig.now() + LINK_UP;
        let request = Smp::get(attribute::PORT_INFO).about(about.into());
        loop {
            let sent = self.send_mad(by, &request)?;
            let answer = self.answer_until(by, &sent, Duration::from_millis(500))?;
            if let Some(answer) = answer.filter(|answer| answer.status() == 0) {
                let info = answer.port_info();
                if wanted.contains(&info.port_state) {
                    return Ok(info);
                }
            }
            if self.rig.now() > deadline {
                return Err(
                    anyhow!("port {about} of the device never comes to state {wanted:?}").into(),
                );
            }
            self.rig.sleep(Duration::from_millis(20))?;
        }
    }

    /// Brings a port that is Initialized to Active.
    ///
    /// # Errors
    /// The device refuses, or the rig failed.
    pub fn activate(&mut self, port: u8) -> Outcome {
        for (from, to) in [(state::INIT, state::ARMED), (state::ARMED, state::ACTIVE)] {
            if self.port_info(port, 0)?.port_state == from {
                self.change(port, |info| info.port_state = to)?;
            }
        }
        Ok(())
    }

    /// Gives every port its LID and timers, and takes it to Active.
    pub fn initialize(&mut self) -> Outcome {
        let linked = [state::INIT, state::ARMED, state::ACTIVE];
        for port in 1..=self.ports() {
            let info = self.wait_for_state(port, 0, &linked)?;
            let known = self.known_mut(port);
            known.response_time = timer(info.resp_time_value) + 2 * timer(info.subnet_timeout);
            self.configure(port)?;
        }
        Ok(())
    }

    /// What every port has at the beginning of a test.
    ///
    /// # Errors
    /// The device refuses, or the rig failed.
    pub fn configure(&mut self, port: u8) -> Outcome {
        self.change(port, |info| {
            info.lid = lid_of(port);
            info.lmc = 0;
            info.master_sm_lid = SM_LID;
            info.master_sm_sl = 0;
            info.subnet_timeout = SUBNET_TIMEOUT;
            (info.m_key, info.m_key_protect_bits, info.m_key_lease_period) = (0, 0, 0);
            (
                info.m_key_violations,
                info.p_key_violations,
                info.q_key_violations,
            ) = (0, 0, 0);
        })?;
        self.activate(port)?;
        self.hear_all_traps(port)?;
        self.known_mut(port).strays.clear();
        Ok(())
    }

    /// Takes back keys. What fails here, fails at the next test's beginning.
    fn clean_up(&mut self) {
        for port in 1..=self.ports() {
            if self.known(port).m_key != 0 && self.set_m_key(port, 0, 0).is_err() {
                // Somebody else's key, or none.
                self.known_mut(port).m_key = 0;
            }
        }
    }

    /// A MAD of another class to queue pair 1 of a port, and the answer.
    ///
    /// # Errors
    /// The rig failed.
    pub fn ask_general(&mut self, port: u8, mad: &Mad) -> Outcome<Option<Answer>> {
        let sent = self.send_as_is(port, Envelope::gmp(SM_LID, lid_of(port)), mad)?;
        self.receive_mad(port, &sent)
    }

    /// Says which M_Keys must differ from both.
    ///
    /// # Errors
    /// Never with ports that there are.
    pub fn check_ports(&self, at_least: u8) -> Outcome {
        if self.ports() < at_least {
            let ports = self.ports();
            return Err(Stop::NotApplicable(format!(
                "the device has {ports} port, and {at_least} are needed"
            )));
        }
        Ok(())
    }
}

/// A request in the specification's words.
fn name(request: &Smp) -> String {
    let method = match request.method {
        method::GET => "SubnGet".to_owned(),
        method::SET => "SubnSet".to_owned(),
        method::TRAP_REPRESS => "SubnTrapRepress".to_owned(),
        other => format!("method {other:#x}"),
    };
    let class = if request.dlid.is_some() {
        CLASS_LID
    } else {
        CLASS_DIRECTED
    };
    format!(
        "{method}({}) of class {class:#x}, modifier {:#x},",
        attribute_name(request.attribute),
        request.modifier
    )
}

/// What the specification calls an attribute.
pub fn attribute_name(number: u16) -> String {
    let known = match number {
        attribute::NOTICE => "Notice",
        attribute::NODE_DESCRIPTION => "NodeDescription",
        attribute::NODE_INFO => "NodeInfo",
        attribute::SWITCH_INFO => "SwitchInfo",
        attribute::GUID_INFO => "GUIDInfo",
        attribute::PORT_INFO => "PortInfo",
        attribute::P_KEY_TABLE => "P_KeyTable",
        attribute::SL_TO_VL => "SLtoVLMappingTable",
        attribute::VL_ARBITRATION => "VLArbitrationTable",
        attribute::LINEAR_FORWARDING => "LinearForwardingTable",
        attribute::RANDOM_FORWARDING => "RandomForwardingTable",
        attribute::MULTICAST_FORWARDING => "MulticastForwardingTable",
        attribute::SM_INFO => "SMInfo",
        attribute::VENDOR_DIAG => "VendorDiag",
        attribute::LED_INFO => "LedInfo",
        other => return format!("{other:#06x}"),
    };
    known.to_owned()
}
