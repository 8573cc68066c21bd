//! What passes in each state (C7-1), and that data take an armed port to Active.

use super::{command, to_init};
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, Tester, lid_of};
use crate::rig::Envelope;
use crate::run::Outcome;
use crate::sim::{MadFaults, OnCable};
use crate::suite::mad::case::test;
use crate::suite::mad::mutants::{field, shows};
use crate::suite::mad::provoke;
use ferroce_fabric::sma::Node;
use ferroce_wire::pma;
use ferroce_wire::smp::{PortInfo, attribute, method, state};
use std::time::Duration;

/// A MAD to queue pair 1; whether it is answered: `due` says whether to wait for the answer or for
/// silence.
fn is_heard(tester: &mut Tester<'_>, port: u8, due: bool) -> Outcome<bool> {
    let mad = provoke::perf(tester, method::GET, pma::attribute::CLASS_PORT_INFO);
    let sent = tester.send_as_is(port, Envelope::gmp(SM_LID, lid_of(port)), &mad)?;
    let answer = match due {
        true => tester.receive_mad(port, &sent)?,
        false => {
            let timeout = tester.response_timeout(port);
            tester.answer_until(port, &sent, timeout)?
        }
    };
    Ok(answer.is_some())
}

/// A mutant that hears nothing of one queue pair in one state.
fn deaf(qp: u32, in_state: u8) -> impl Fn() -> MadFaults {
    move || {
        MadFaults::default().rx_drop(move |node: &Node, mad: &OnCable| {
            let is_get = mad.header().method == method::GET
                && mad.header().attribute == attribute::NODE_INFO;
            let now = node.port(mad.port).map_or(0, |port| port.info().port_state);
            mad.envelope.qp == qp && (qp == 1 || is_get) && now == in_state
        })
    }
}

pub(super) fn smps() -> Test {
    const INIT: &str = "v1c07-001#07";
    const ARMED: &str = "v1c07-001#14";

    test(
        "C07_001_01",
        "C07-001",
        "SMPs are answered in Initialize and in Armed",
        |run, tester| {
            for port in 1..=tester.ports() {
                run.step(
                    "1",
                    format!(
                        "port {port} in Initialize: SubnGet(NodeInfo), by directed route and by LID"
                    ),
                );

                to_init(tester, port)?;
                let get = Smp::get(attribute::NODE_INFO);
                for request in [get, get.to_lid(lid_of(port))] {
                    tester.must_have_status(run, INIT, port, &request, 0)?;
                }
                run.step("2", "the same in Armed");
                command(tester, port, state::ARMED)?;
                for request in [get, get.to_lid(lid_of(port))] {
                    tester.must_have_status(run, ARMED, port, &request, 0)?;
                }
                let seen = tester.port_info(port, 0)?.port_state;
                run.check_eq(ARMED, "PortState after SMPs", seen, state::ARMED)?;
                tester.configure(port)?;
            }

            Ok(())
        },
    )
    .covers(&["C7-1"])
    .asserts([INIT, ARMED])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "deaf-in-initialize",
        "SMPs are not heard in Initialize",
        INIT,
        deaf(0, state::INIT),
    ))
    .mutant(Mutant::mad(
        "deaf-in-armed",
        "SMPs are not heard in Armed",
        ARMED,
        deaf(0, state::ARMED),
    ))
}

pub(super) fn data() -> Test {
    const DROPPED: &str = "S07_2_03#initialize";
    const TAKEN: &str = "S07_2_03#active";

    test(
        "S07_2_03",
        "7.2",
        "data packets are dropped in Initialize and taken in Active",
        |run, tester| {
            run.step("1", "in Initialize a MAD to queue pair 1 is not answered");
            to_init(tester, 1)?;
            let heard = is_heard(tester, 1, false)?;
            run.check(DROPPED, !heard, || "it is answered".to_owned())?;
            run.step("2", "in Active it is");
            tester.configure(1)?;
            let heard = is_heard(tester, 1, true)?;
            run.check(TAKEN, heard, || "it is not answered".to_owned())
        },
    )
    .covers(&["7.2"])
    .asserts([DROPPED, TAKEN])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "deaf-when-active",
        "data packets are dropped in Active",
        TAKEN,
        deaf(1, state::ACTIVE),
    ))
    .mutant(Mutant::mad(
        "all-ears",
        "the first data packet takes a port out of Initialize",
        DROPPED,
        || {
            // By commands that nobody has given.
            MadFaults::default()
                .rx(|node, mad| {
                    let info = node
                        .port(mad.port)
                        .map(|port| *port.info())
                        .unwrap_or_default();
                    if mad.envelope.qp != 1 || info.port_state != state::INIT {
                        return vec![mad];
                    }

                    let steps = [state::ARMED, state::ACTIVE].map(|port_state| {
                        let info = PortInfo {
                            port_state,
                            port_physical_state: 0,
                            ..info
                        };
                        OnCable {
                            envelope: Envelope::directed(),
                            mad: Smp::set_port_info(0, &info).emit(mad.port, info.m_key, 7),
                            port: mad.port,
                        }
                    });

                    steps.into_iter().chain([mad]).collect()
                })
                .tx_drop(|_, mad| mad.header().tid == 7)
        },
    ))
}

pub(super) fn armed() -> Test {
    const ACTIVE: &str = "S07_2_04#active";
    const ANSWERED: &str = "S07_2_04#answered";

    test(
        "S07_2_04",
        "7.2",
        "the first data packet takes an armed port to Active",
        |run, tester| {
            to_init(tester, 1)?;
            command(tester, 1, state::ARMED)?;
            run.step("1", "in Armed a MAD to queue pair 1 is answered");
            let heard = is_heard(tester, 1, true)?;
            run.check(ANSWERED, heard, || "it is not answered".to_owned())?;
            run.step("2", "PortState is Active");
            let seen = tester.port_info(1, 0)?.port_state;
            run.check_eq(ACTIVE, "PortState", seen, state::ACTIVE)?;
            tester.configure(1)
        },
    )
    .covers(&["7.2"])
    .asserts([ACTIVE, ANSWERED])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "waits-for-the-command",
        "data packets are dropped in Armed",
        ANSWERED,
        deaf(1, state::ARMED),
    ))
    .mutant(Mutant::mad(
        "says-armed",
        "the port says Armed until it is commanded",
        ACTIVE,
        || {
            shows(attribute::PORT_INFO, |_, _, data| {
                if field("port_state").load(data) == state::ACTIVE.into() {
                    field("port_state").store(data, state::ARMED.into());
                }
            })
            // Else the tester would command Active again, which is refused.
            .rx_edit(|_, mad| {
                if mad.asks(method::SET, attribute::PORT_INFO)
                    && field("port_state").load(mad.data()) == state::ACTIVE.into()
                {
                    let node_state = field("port_state");
                    node_state.store(mad.data_mut(), 0);
                }
            })
        },
    ))
}
