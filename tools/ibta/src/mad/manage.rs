//! The tester as subnet manager: LIDs, M_Keys and states of the device's ports.

use super::{LINK_UP, SM_LID, SUBNET_TIMEOUT, Smp, Tester, lid_of, timer};
use crate::run::Outcome;
use anyhow::anyhow;
use ferroce_wire::smp::{PortInfo, attribute, phys_state, state};
use std::time::Duration;

/// The states of a port that has a link.
const LINKED: &[u8] = &[state::INIT, state::ARMED, state::ACTIVE];

impl Tester<'_> {
    /// PortInfo of port `about` (0: itself), asked by `port` with the key that the tester knows.
    /// There must be an answer for the test to go on.
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

    /// Waits until a port has the tester's link and is in a state, as another port or itself tells.
    ///
    /// # Errors
    /// It does not come to that, or the rig failed.
    pub fn wait_for_state(&mut self, by: u8, about: u8, wanted: &[u8]) -> Outcome<PortInfo> {
        let begun = self.rig.now();
        let request = Smp::get(attribute::PORT_INFO).about(about.into());
        let mut answered = false;
        loop {
            let sent = self.send_mad(by, &request)?;
            let answer = self.answer_until(by, &sent, Duration::from_millis(500))?;
            answered |= answer.is_some();
            if let Some(answer) = answer.filter(|answer| answer.status() == 0) {
                let info = answer.port_info();
                if wanted.contains(&info.port_state) {
                    return Ok(info);
                }
            }

            let too_long = self.waited_since(begun) > LINK_UP;
            if too_long && !answered {
                return Err(anyhow!(
                    "the device does not answer: no SubnGetResp(PortInfo) by port {by} within {} s",
                    LINK_UP.as_secs()
                )
                .into());
            }

            if too_long {
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

    /// Waits until every port has the tester's link, and answers.
    ///
    /// # Errors
    /// One does not come to that, or the rig failed.
    pub fn find(&mut self) -> Outcome {
        for port in 1..=self.ports() {
            self.wait_for_state(port, 0, LINKED)?;
        }
        Ok(())
    }

    /// Gives every port its LID and timers, and takes it to Active.
    pub fn initialize(&mut self) -> Outcome {
        for port in 1..=self.ports() {
            let info = self.wait_for_state(port, 0, LINKED)?;
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
    pub(super) fn clean_up(&mut self) {
        for port in 1..=self.ports() {
            if self.known(port).m_key != 0 && self.set_m_key(port, 0, 0).is_err() {
                // Somebody else's key, or none.
                self.known_mut(port).m_key = 0;
            }
        }
    }
}
