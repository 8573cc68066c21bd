//! C14_024_06_CA_04: a request by one port about another needs the M_Key of both (C14-24.1.1,
//! C14-29, C14-30).

mod mutants;

use super::case::test;
use crate::catalog::Test;
use crate::mad::{Smp, Tester, lid_of};
use crate::run::{Outcome, Run, Stop};
use ferroce_wire::smp::{NodeInfo, PortInfo, attribute, method, node_type};
use std::time::Duration;

/// M_Key of all remote ports.
pub(in crate::suite) const REMOTE_KEY: u64 = 0x1b7a_0000_0000_0001;
/// M_Key of the local port where it must differ.
pub(in crate::suite) const LOCAL_KEY: u64 = 0x1b7a_0000_0000_0002;
/// M_Key of no port.
pub(in crate::suite) const NO_KEY: u64 = 0x1b7a_0000_0000_0003;
/// Even reading needs the key.
pub(in crate::suite) const PROTECTED: u8 = 2;

pub(in crate::suite) const REQUIRED: &str = "v1c14-024.1.1#06.01";
pub(in crate::suite) const ANSWERED: &str = "v1c14-024.1.1#06.02";
pub(in crate::suite) const BOTH: &str = "v1c14-024.1.1#06.07";
pub(in crate::suite) const CHECKED: &str = "v1c14-024.1.1#06.08";
pub(in crate::suite) const GET_SILENT: &str = "v1c14-029#01.02";
pub(in crate::suite) const SET_SILENT: &str = "v1c14-029#02.02";
pub(in crate::suite) const RESPONSE: &str = "v1c14-030#01";

pub(super) fn tests() -> Vec<Test> {
    let declared = test(
        "C14_024_06_CA_04",
        "C14-024",
        "PortInfo of a channel adapter, part 4: M_Key checks at both ports",
        body,
    );
    vec![as_its_description_declares(declared).takes(Duration::from_secs(5))]
}

/// Coverage, assertions, ports, and devices that break what it is about.
pub(in crate::suite) fn as_its_description_declares(test: Test) -> Test {
    let covers = [
        "C13-24",
        "C14-24.1.1",
        "C14-27",
        "C14-28",
        "C14-29",
        "C14-30",
    ];
    let asserts = [
        REQUIRED, ANSWERED, BOTH, CHECKED, GET_SILENT, SET_SILENT, RESPONSE,
    ];
    let test = test.covers(&covers).asserts(asserts).on_ports(2);
    let mutants = mutants::of_keys().into_iter().chain(mutants::of_answers());
    mutants.fold(test, Test::mutant)
}

fn body(run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
    let node = NodeInfo::parse(&tester.data(1, attribute::NODE_INFO, 0)?);

    // Note 1: xCAs and routers.
    if ![node_type::CHANNEL_ADAPTER, node_type::ROUTER].contains(&node.node_type) {
        let why = format!(
            "NodeInfo:NodeType is {}, neither xCA nor router",
            node.node_type
        );
        return Err(Stop::NotApplicable(why));
    }

    // Note 4: a device with one port has no port that is not the one that receives the request.
    if node.num_ports < 2 {
        return Err(Stop::NotApplicable("NodeInfo:NumPorts is 1".to_owned()));
    }

    // Note 6: for all legal ports, and all legal ports that differ from it.
    for local in 1..=tester.ports() {
        for remote in (1..=tester.ports()).filter(|remote| *remote != local) {
            Iteration { local, remote }.carry_out(run, tester)?;
        }
    }

    // All ports of NodeInfo:NumPorts are to be tried.
    match tester.ports() {
        cables if cables < node.num_ports => Err(Stop::Incomplete(format!(
            "NodeInfo:NumPorts is {}, and {cables} of the ports have a cable to the tester",
            node.num_ports
        ))),
        _ => Ok(()),
    }
}

/// The steps with one pair of ports.
struct Iteration {
    local: u8,
    remote: u8,
}

impl Iteration {
    fn carry_out(&self, run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
        let (local, remote) = (self.local, self.remote);
        run.note(format!(
            "SMPs go to port {local}, AttributeModifier is {remote}: M_Key {REMOTE_KEY:#x} at all remote ports, protection level {PROTECTED}"
        ));
        for port in 1..=tester.ports() {
            tester.set_m_key(port, REMOTE_KEY, PROTECTED)?;
        }
        let data = self.read(run, tester)?;
        run.step(
            "3",
            format!("Get M_KeyViolations of the local port {local}"),
        );

        let mut here = tester.m_key_violations(local)?;
        self.same_key(run, tester, "4")?;
        run.step(
            "5",
            format!("Get M_KeyViolations of the remote port {remote}"),
        );

        let mut there = self.remote_violations(run, tester)?;
        self.other_key(run, tester, "6")?;

        for (method, silent, first) in [(method::SET, SET_SILENT, 7), (method::GET, GET_SILENT, 16)]
        {
            let request = Smp {
                method,
                ..Smp::set_port_info(remote, &data)
            };

            // The key of the remote port only.
            self.refused(run, tester, first, &request.key(REMOTE_KEY), silent)?;
            here = self.counted_here(run, tester, first + 2, here)?;

            // That of the local port only.
            self.refused(run, tester, first + 3, &request.key(LOCAL_KEY), silent)?;
            run.step(
                first + 5,
                "Verify M_KeyViolations increased by one on the remote port, which had the mismatch",
            );

            there = self.counted_there(run, tester, there)?;

            // That of neither.
            self.refused(run, tester, first + 6, &request.key(NO_KEY), silent)?;
            run.step(
                first + 8,
                "Verify M_KeyViolations increased by one on both ports, which had the mismatch",
            );

            here = self.violations_here(run, tester, here)?;
            there = self.counted_there(run, tester, there)?;
        }

        for port in 1..=tester.ports() {
            tester.set_m_key(port, 0, 0)?;
        }
        Ok(())
    }

    /// Steps 1 and 2.
    fn read(&self, run: &mut Run, tester: &mut Tester<'_>) -> Outcome<PortInfo> {
        run.step(
            "1",
            format!(
                "SendMad (SubnGet(PortInfo)) to port {}, AttributeModifier {}",
                self.local, self.remote
            ),
        );

        let request = Smp::get(attribute::PORT_INFO).about(self.remote.into());
        let sent = tester.send_mad(self.local, &request)?;
        run.step("2", "PORT_INFO_DATA = ReceiveMad (SubnGetResp(PortInfo))");
        let answer = tester.receive_mad(self.local, &sent)?;
        run.check(ANSWERED, answer.is_some(), || {
            format!(
                "port {} does not answer about port {}",
                self.local, self.remote
            )
        })?;

        let answer = answer.expect("just checked");
        let header = &answer.header;
        run.check_eq(
            RESPONSE,
            "method, attribute and modifier of the response",
            (header.method, header.attribute, header.modifier),
            (method::GET_RESP, attribute::PORT_INFO, self.remote.into()),
        )?;

        run.check_eq(REQUIRED, "the status", answer.status(), 0)?;
        let data = answer.port_info();
        run.check_eq(
            ANSWERED,
            "LID of the port named",
            data.lid,
            lid_of(self.remote),
        )?;

        Ok(PortInfo {
            port_state: 0,
            port_physical_state: 0,
            ..data
        })
    }

    /// Sends what must not be answered (steps 7 and 8 and their like).
    fn refused(
        &self,
        run: &mut Run,
        tester: &mut Tester<'_>,
        step: u32,
        request: &Smp,
        silent: &str,
    ) -> Outcome {
        let verb = if request.method == method::SET {
            "SubnSet"
        } else {
            "SubnGet"
        };

        let whose = match request.m_key {
            Some(REMOTE_KEY) => "not that of the local port, and that of the remote port",
            Some(LOCAL_KEY) => "not that of the remote port, and that of the local port",
            _ => "that of neither port",
        };

        run.step(
            step,
            format!(
                "SendMad ({verb}(PortInfo)) to port {}, AttributeModifier {}, M_Key {whose}",
                self.local, self.remote
            ),
        );

        let sent = tester.send_mad(self.local, request)?;
        run.step(step + 1, "VerifyNoReceiveMad (SubnGetResp(PortInfo))");
        tester.verify_no_receive_mad(run, silent, self.local, &sent)
    }

    fn counted_here(
        &self,
        run: &mut Run,
        tester: &mut Tester<'_>,
        step: u32,
        before: u16,
    ) -> Outcome<u16> {
        run.step(
            step,
            "Verify M_KeyViolations increased by one on the local port, which had the mismatch",
        );
        self.violations_here(run, tester, before)
    }

    fn violations_here(&self, run: &mut Run, tester: &mut Tester<'_>, before: u16) -> Outcome<u16> {
        let now = tester.m_key_violations(self.local)?;
        run.check_eq(
            CHECKED,
            "M_KeyViolations of the local port",
            now,
            before + 1,
        )?;
        Ok(now)
    }

    /// M_KeyViolations of the remote port, for which the local one must have the same key for a
    /// while.
    fn counted_there(&self, run: &mut Run, tester: &mut Tester<'_>, before: u16) -> Outcome<u16> {
        tester.set_m_key(self.local, REMOTE_KEY, PROTECTED)?;
        let now = self.remote_violations(run, tester)?;
        run.check_eq(
            CHECKED,
            "M_KeyViolations of the remote port",
            now,
            before + 1,
        )?;
        tester.set_m_key(self.local, LOCAL_KEY, PROTECTED)?;
        Ok(now)
    }

    /// Asked by the local port: both have the key.
    fn remote_violations(&self, run: &mut Run, tester: &mut Tester<'_>) -> Outcome<u16> {
        let request = Smp::get(attribute::PORT_INFO).about(self.remote.into());
        let answer = tester.must_have_status(run, BOTH, self.local, &request, 0)?;
        Ok(answer.port_info().m_key_violations)
    }

    fn same_key(&self, run: &mut Run, tester: &mut Tester<'_>, step: &str) -> Outcome {
        run.step(
            step,
            "Set local port PortInfo:M_Key to the same value as all remote ports PortInfo:M_Key",
        );
        tester.set_m_key(self.local, REMOTE_KEY, PROTECTED)
    }

    fn other_key(&self, run: &mut Run, tester: &mut Tester<'_>, step: &str) -> Outcome {
        run.step(
            step,
            "Set local port PortInfo:M_Key to a value different from all remote ports PortInfo:M_Key",
        );
        tester.set_m_key(self.local, LOCAL_KEY, PROTECTED)
    }
}
