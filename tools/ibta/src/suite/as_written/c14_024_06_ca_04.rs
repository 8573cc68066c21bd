//! C14_024_06_CA_04 as written: steps 1 to 24 in order, with the document's variables, for each
//! pair of ports.

use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester};
use crate::run::{Outcome, Run, Stop};
use crate::sim::{MadFaults, OnCable};
use crate::suite::mad::both_keys::{
    ANSWERED, BOTH, CHECKED, GET_SILENT, LOCAL_KEY, NO_KEY, PROTECTED, REMOTE_KEY, REQUIRED,
    RESPONSE, SET_SILENT, as_its_description_declares,
};
use crate::suite::mad::case;
use crate::suite::mad::mutants::{self, field, knows_key, named_port};
use ferroce_fabric::sma::Node;
use ferroce_wire::smp::{DATA_LEN, Data, NodeInfo, attribute, method, node_type, status};
use std::time::Duration;

const SAME_KEY: &str = "The M_Key of the local port becomes that of all remote ports";
const OTHER_KEY: &str = "The M_Key of the local port becomes another than that of all remote ports";

pub(super) fn test() -> Test {
    let declared = case::test(
        "C14_024_06_CA_04",
        "C14-024",
        "as written: PortInfo of xCA and router, part 4, M_Key checks at both ports",
        body,
    );

    as_its_description_declares(declared)
        .takes(Duration::from_secs(5))
        .mutant(Mutant::mad(
            "counts-by-two",
            "each violation raises M_KeyViolations by two",
            CHECKED,
            || {
                mutants::shows(attribute::PORT_INFO, |_, _, data| {
                    let violations = field("m_key_violations");
                    let seen = violations.load(data);
                    violations.store(data, 2 * seen);
                })
            },
        ))
        .mutant(Mutant::mad(
            "tells-that-a-key-was-wrong",
            "a SubnSet about another port that lacks a key is answered with status 7",
            SET_SILENT,
            tells_that_a_key_was_wrong,
        ))
}

fn tells_that_a_key_was_wrong() -> MadFaults {
    let lacking = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let refused = lacking.clone();
    let lacks_a_key = move |node: &Node, mad: &OnCable| {
        let named = named_port(mad);
        let about_another = mad.asks(method::SET, attribute::PORT_INFO) && named != mad.port;
        let lacks =
            about_another && !(knows_key(node, mad, mad.port) && knows_key(node, mad, named));
        if lacks {
            lacking.borrow_mut().push(mad.header().tid);
        }
        lacks
    };

    mutants::answers_without_key(lacks_a_key).tx_edit(move |_, mad| {
        if refused.borrow().contains(&mad.header().tid) {
            mutants::set_status(mad, status::INVALID_VALUE);
        }
    })
}

fn body(run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
    let node = NodeInfo::parse(&tester.data(1, attribute::NODE_INFO, 0)?);
    if ![node_type::CHANNEL_ADAPTER, node_type::ROUTER].contains(&node.node_type) {
        let kind = node.node_type;
        let why = format!("note 1: NodeInfo:NodeType is {kind}, neither xCA nor router");
        return Err(Stop::NotApplicable(why));
    }

    if node.num_ports < 2 {
        let why = "note 4: NodeInfo:NumPorts is 1".to_owned();
        return Err(Stop::NotApplicable(why));
    }

    for local in 1..=tester.ports() {
        for remote in (1..=tester.ports()).filter(|remote| *remote != local) {
            let mut iteration = Iteration {
                local,
                remote,
                port_info_data: [0; DATA_LEN],
                violations: 0,
                violations1: 0,
            };
            iteration.carry_out(run, tester)?;
        }
    }

    match tester.ports() {
        cables if cables < node.num_ports => Err(Stop::Incomplete(format!(
            "note 6: NodeInfo:NumPorts is {}, and {cables} of the ports have a cable to the tester",
            node.num_ports
        ))),
        _ => Ok(()),
    }
}

/// The steps with one pair of ports, and the document's variables.
struct Iteration {
    /// The port that receives the SMPs.
    local: u8,
    /// That of AttributeModifier.
    remote: u8,
    /// PORT_INFO_DATA.
    port_info_data: Data,
    /// M_KEY_VIOLATIONS, of the local port.
    violations: u16,
    /// M_KEY_VIOLATIONS1, of the remote port.
    violations1: u16,
}

impl Iteration {
    fn carry_out(&mut self, run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
        let (local, remote) = (self.local, self.remote);
        run.note(format!(
            "note 6: local port {local}, remote port {remote}. The document says nothing of PortInfo:M_KeyProtectBits; that a SubnGet without the key is \
             not answered takes {PROTECTED}, and so it is at all ports"
        ));

        for port in 1..=tester.ports() {
            tester.set_m_key(port, REMOTE_KEY, PROTECTED)?;
        }
        self.read(run, tester)?;
        run.step(
            "3",
            format!("M_KEY_VIOLATIONS = M_KeyViolations of the local port {local}"),
        );

        self.violations = tester.m_key_violations(local)?;
        run.step("4", SAME_KEY);
        tester.set_m_key(local, REMOTE_KEY, PROTECTED)?;
        run.step(
            "5",
            format!("M_KEY_VIOLATIONS1 = M_KeyViolations of the remote port {remote}"),
        );

        self.violations1 = self.remote_violations(run, tester)?;
        run.step("6", OTHER_KEY);
        tester.set_m_key(local, LOCAL_KEY, PROTECTED)?;
        self.mismatches(run, tester, (method::SET, SET_SILENT), 7)?;
        self.mismatches(run, tester, (method::GET, GET_SILENT), 16)?;
        for port in 1..=tester.ports() {
            tester.set_m_key(port, 0, 0)?;
        }
        Ok(())
    }

    /// Steps 1 and 2.
    fn read(&mut self, run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
        let (local, remote) = (self.local, self.remote);
        run.step(
            "1",
            format!("SendMad (SubnGet(PortInfo)) to port {local}, AttributeModifier {remote}"),
        );

        let request = Smp::get(attribute::PORT_INFO).about(remote.into());
        let sent = tester.send_mad(local, &request)?;
        run.step(
            "2",
            "PORT_INFO_DATA = ReceiveMad (SubnGetResp(PortInfo):MADHeader:MADData)",
        );

        let answer = tester.receive_mad(local, &sent)?;
        run.check(ANSWERED, answer.is_some(), || {
            format!("port {local} does not answer about port {remote}")
        })?;
        let answer = answer.expect("just checked");
        let header = &answer.header;
        run.check_eq(
            RESPONSE,
            "method, attribute and modifier of the response",
            (header.method, header.attribute, header.modifier),
            (method::GET_RESP, attribute::PORT_INFO, remote.into()),
        )?;

        run.check_eq(REQUIRED, "the status", answer.status(), 0)?;
        self.port_info_data = *answer.data();
        Ok(())
    }

    /// Steps 7 to 15, or 16 to 24: requests that lack the key of the local port, that of the remote
    /// port, and both.
    fn mismatches(
        &mut self,
        run: &mut Run,
        tester: &mut Tester<'_>,
        kind: (u8, &str),
        step: u32,
    ) -> Outcome {
        self.refused(run, tester, kind, step, REMOTE_KEY)?;
        run.step(
            step + 2,
            "M_KeyViolations of the local port is M_KEY_VIOLATIONS + 1",
        );

        self.counted_here(run, tester)?;
        self.refused(run, tester, kind, step + 3, LOCAL_KEY)?;
        run.step(
            step + 5,
            "M_KeyViolations of the remote port is M_KEY_VIOLATIONS1 + 1",
        );

        self.counted_there(run, tester)?;
        self.refused(run, tester, kind, step + 6, NO_KEY)?;
        run.step(
            step + 8,
            "M_KeyViolations of both ports are M_KEY_VIOLATIONS + 1 and M_KEY_VIOLATIONS1 + 1",
        );

        self.counted_here(run, tester)?;
        self.counted_there(run, tester)
    }

    /// A request that must not be answered, with PORT_INFO_DATA as it came; and the step after it.
    fn refused(
        &self,
        run: &mut Run,
        tester: &mut Tester<'_>,
        (asked, silent): (u8, &str),
        step: u32,
        key: u64,
    ) -> Outcome {
        let verb = match asked {
            method::SET => "SubnSet",
            _ => "SubnGet",
        };

        let whose = match key {
            REMOTE_KEY => "not the local port's, the remote port's",
            LOCAL_KEY => "not the remote port's, the local port's",
            _ => "neither port's",
        };

        let (local, remote) = (self.local, self.remote);
        run.step(
            step,
            format!(
                "SendMad ({verb}(PortInfo)) to port {local}, AttributeModifier {remote}, MADData PORT_INFO_DATA, M_Key {whose}"
            ),
        );

        let request = Smp {
            method: asked,
            ..Smp::get(attribute::PORT_INFO)
        };
        let request = request.about(remote.into()).with(self.port_info_data);
        let sent = tester.send_mad(local, &request.key(key))?;
        run.step(step + 1, "VerifyNoReceiveMad (SubnGetResp(PortInfo))");
        tester.verify_no_receive_mad(run, silent, local, &sent)
    }

    /// M_KeyViolations of the local port, against M_KEY_VIOLATIONS and then into it.
    fn counted_here(&mut self, run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
        let now = tester.m_key_violations(self.local)?;
        let due = self.violations + 1;
        run.check_eq(CHECKED, "M_KeyViolations of the local port", now, due)?;
        self.violations = now;
        Ok(())
    }

    /// M_KeyViolations of the remote port, against M_KEY_VIOLATIONS1 and then into it; meanwhile
    /// the local port has its key.
    fn counted_there(&mut self, run: &mut Run, tester: &mut Tester<'_>) -> Outcome {
        run.note(SAME_KEY);
        tester.set_m_key(self.local, REMOTE_KEY, PROTECTED)?;
        let now = self.remote_violations(run, tester)?;
        let due = self.violations1 + 1;
        run.check_eq(CHECKED, "M_KeyViolations of the remote port", now, due)?;
        self.violations1 = now;
        run.note(OTHER_KEY);
        tester.set_m_key(self.local, LOCAL_KEY, PROTECTED)
    }

    fn remote_violations(&self, run: &mut Run, tester: &mut Tester<'_>) -> Outcome<u16> {
        let request = Smp::get(attribute::PORT_INFO).about(self.remote.into());
        let answer = tester.must_have_status(run, BOTH, self.local, &request, 0)?;
        Ok(answer.port_info().m_key_violations)
    }
}
