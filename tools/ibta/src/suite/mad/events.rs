//! What programs of the device are told of ports: the events of 11.6.3.3, and queries.

use super::case::test;
use crate::catalog::{Mutant, Test};
use crate::mad::{Smp, Tester, lid_of};
use crate::protocol::{AsyncEvent, Command, PortState, Reply};
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use ferroce_wire::smp::{GuidInfo, PKeyBlock, attribute, method};
use std::time::Duration;

/// `enum ibv_event_type`.
const PORT_ACTIVE: u32 = 9;
const PORT_ERR: u32 = 10;
const LID_CHANGE: u32 = 11;
const PKEY_CHANGE: u32 = 12;
const SM_CHANGE: u32 = 13;
const GID_CHANGE: u32 = 18;
/// How long to listen for what must not come.
pub(in crate::suite) const SILENCE: Duration = Duration::from_millis(150);

pub(super) fn tests() -> Vec<Test> {
    vec![
        event(
            "S11_6_3_3_lid",
            LID_CHANGE,
            "LID change: PortInfo:LID or LMC",
            |port, tester| {
                tester
                    .change(port, |info| info.lid = lid_of(port) + 8)
                    .map(drop)
            },
        ),
        event(
            "S11_6_3_3_sm",
            SM_CHANGE,
            "SM change: PortInfo:MasterSMLID",
            |port, tester| tester.change(port, |info| info.master_sm_lid = 2).map(drop),
        ),
        event(
            "S11_6_3_3_pkey",
            PKEY_CHANGE,
            "P_Key change: P_KeyTable",
            |port, tester| set_p_key(port, tester, 5, 0x8555),
        ),
        event(
            "S11_6_3_3_gid",
            GID_CHANGE,
            "GID change: GUIDInfo",
            |port, tester| set_guid(port, tester, 1, 0x1b7a),
        ),
        event(
            "S11_6_3_3_prefix",
            GID_CHANGE,
            "GID change: PortInfo:GidPrefix",
            |port, tester| {
                tester
                    .change(port, |info| info.gid_prefix = 0xfec0_0000_0000_0007)
                    .map(drop)
            },
        ),
        port_goes_and_comes(),
        query_port(),
        query_tables(),
    ]
}

pub(super) fn without(number: u32) -> MadFaults {
    MadFaults::default().event(move |event| match event.event == number {
        true => Vec::new(),
        false => vec![event],
    })
}

type Cause = fn(u8, &mut Tester<'_>) -> Outcome;

/// An event that a change of an attribute raises; the same value again raises nothing.
fn event(id: &'static str, number: u32, title: &'static str, cause: Cause) -> Test {
    let (raised, once) = (format!("{id}#raised"), format!("{id}#once"));
    let rules = [raised.clone(), once.clone()];
    let (caught_raised, caught_once) = (raised.clone(), once.clone());
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            let before = (
                tester.port_info_data(port, 0)?,
                tester.data(port, attribute::P_KEY_TABLE, 0)?,
                tester.data(port, attribute::GUID_INFO, 0)?,
            );

            tester.forget_events()?;
            run.step(
                "1",
                format!("a change at port {port} raises event {number}"),
            );

            cause(port, tester)?;
            let due = AsyncEvent {
                event: number,
                element: port.into(),
            };

            let patience = tester.rig().patience();
            let mut events = tester.events(patience)?;
            events.extend(tester.events(SILENCE)?);
            let good =
                events.contains(&due) && events.iter().all(|event| event.element == due.element);
            run.check(&raised, good, || format!("{events:?}, must have {due:?}"))?;
            run.step("2", "the same value again raises nothing");
            cause(port, tester)?;
            let events = tester.events(SILENCE)?;
            run.check(&once, events.is_empty(), || format!("{events:?}"))?;
            tester.good(port, &Smp::set_port_info(0, &before.0))?;
            tester.good(port, &Smp::set(attribute::P_KEY_TABLE, before.1))?;
            tester.good(port, &Smp::set(attribute::GUID_INFO, before.2))?;
        }

        tester.forget_events()
    };

    test(id, "11.6.3.3", format!("event {title}"), body)
        .covers(&["11.6.3.3"])
        .asserts(rules)
        .tried_on_ports(2)
        .takes(Duration::from_secs(1))
        .mutant(Mutant::mad(
            "nobody-is-told",
            "there is no event",
            caught_raised,
            move || without(number),
        ))
        .mutant(Mutant::mad(
            "told-without-a-change",
            "every SubnSet raises the event, change or not",
            caught_once,
            move || {
                MadFaults::default().raise(move |mad| {
                    let is_set = mad.envelope.qp == 0 && mad.header().method == method::SET;
                    is_set.then(|| AsyncEvent {
                        event: number,
                        element: mad.port.into(),
                    })
                })
            },
        ))
}

fn set_p_key(port: u8, tester: &mut Tester<'_>, entry: usize, key: u16) -> Outcome {
    let mut keys = PKeyBlock::parse(&tester.data(port, attribute::P_KEY_TABLE, 0)?).0;
    keys[entry] = key;
    let mut data = [0; 64];
    PKeyBlock(keys).emit(&mut data);
    tester
        .good(port, &Smp::set(attribute::P_KEY_TABLE, data))
        .map(drop)
}

fn set_guid(port: u8, tester: &mut Tester<'_>, entry: usize, guid: u64) -> Outcome {
    let mut guids = GuidInfo::parse(&tester.data(port, attribute::GUID_INFO, 0)?).0;
    guids[entry] = guid;
    let mut data = [0; 64];
    GuidInfo(guids).emit(&mut data);
    tester
        .good(port, &Smp::set(attribute::GUID_INFO, data))
        .map(drop)
}

fn port_goes_and_comes() -> Test {
    const ERROR: &str = "S11_6_3_3_port#error";
    const ACTIVE: &str = "S11_6_3_3_port#active";

    test(
        "S11_6_3_3_port",
        "11.6.3.3",
        "events Port Error and Port Active",
        |run, tester| {
            for port in 1..=tester.ports() {
                tester.forget_events()?;
                run.step(
                    "1",
                    format!("the cable of port {port} is pulled out: Port Error"),
                );

                tester.rig().link(port, false)?;
                let raised = tester.event_comes(port, PORT_ERR)?;
                run.check(ERROR, raised, || "no IBV_EVENT_PORT_ERR".to_owned())?;
                run.step(
                    "2",
                    "it is plugged in again, and the port is taken to Active: Port Active",
                );

                tester.rig().link(port, true)?;
                tester.wait_for_state(port, 0, &[2, 3, 4])?;
                tester.configure(port)?;
                let raised = tester.event_comes(port, PORT_ACTIVE)?;
                run.check(ACTIVE, raised, || "no IBV_EVENT_PORT_ACTIVE".to_owned())?;
            }

            tester.forget_events()
        },
    )
    .covers(&["11.6.3.3"])
    .asserts([ERROR, ACTIVE])
    .takes(Duration::from_secs(1))
    .mutant(Mutant::mad(
        "silent-loss",
        "a lost link is not told",
        ERROR,
        || without(PORT_ERR),
    ))
    .mutant(Mutant::mad(
        "silent-return",
        "a port that is active again is not told",
        ACTIVE,
        || without(PORT_ACTIVE),
    ))
}

fn query_port() -> Test {
    const RULE: &str = "S11_2_1_2_port#same";

    test("S11_2_1_2_port", "11.2.1.2", "programs are told of a port what its subnet manager has set", |run, tester| {
        for port in 1..=tester.ports() {
            for (lid, lmc, sm, sl) in [(0x300, 3, 0x21, 7), (0x310, 0, 1, 0)] {
                run.step("1", format!("SubnSet(PortInfo): LID {lid:#x}, LMC {lmc}, MasterSMLID {sm:#x}, MasterSMSL {sl}, to port {port}"));
                let info = tester.change(port, |info| {
                    (info.lid, info.lmc, info.master_sm_lid, info.master_sm_sl) = (lid, lmc, sm, sl);
                })?;
                run.step("2", "ibv_query_port");
                let due = |state: &PortState| {
                    (state.lid, state.lmc, state.sm_lid, state.sm_sl, state.state) == (lid, lmc, sm, sl, info.port_state.into())
                        && state.subnet_timeout == info.subnet_timeout
                };

                // What the device tells programs may be a moment later.
                let (begun, patience) = (tester.now(), tester.rig().patience());
                let mut state = tester.query_port(port)?;
                while !due(&state) && tester.waited_since(begun) < patience {
                    tester.sleep(Duration::from_millis(20))?;
                    state = tester.query_port(port)?;
                }

                run.check(RULE, due(&state), || format!("{state:?}, set was {info:?}"))?;
            }

            tester.configure(port)?;
        }

        Ok(())
    })
    .covers(&["11.2.1.2"])
    .asserts([RULE])
    .mutant(Mutant::mad("old-lid", "programs see the first LID for ever", RULE, || {
        MadFaults::default().reply(|reply| {
            if let Reply::Port(state) = reply {
                state.lid = lid_of(1);
            }
        })
    }))
}

fn query_tables() -> Test {
    const P_KEYS: &str = "S11_2_1_2_tables#p-keys";
    const GIDS: &str = "S11_2_1_2_tables#gids";

    test(
        "S11_2_1_2_tables",
        "11.2.1.2",
        "programs see the P_Keys and GIDs that the subnet manager has set",
        |run, tester| {
            for port in 1..=tester.ports() {
                let p_keys = tester.data(port, attribute::P_KEY_TABLE, 0)?;
                let guids = tester.data(port, attribute::GUID_INFO, 0)?;
                run.step(
                    "1",
                    format!("SubnSet(P_KeyTable), SubnSet(GUIDInfo) to port {port}"),
                );

                set_p_key(port, tester, 3, 0x8abc)?;
                set_guid(port, tester, 2, 0x1b7a_0002)?;
                run.step("2", "ibv_query_pkey, ibv_query_gid");
                let prefix = tester.port_info(port, 0)?.gid_prefix;
                let gid = (u128::from(prefix) << 64 | 0x1b7a_0002).to_be_bytes();
                let (begun, patience) = (tester.now(), tester.rig().patience());
                loop {
                    let pkey = tester.command(&Command::QueryPkey { port, index: 3 })?;
                    let seen = tester.command(&Command::QueryGid { port, index: 2 })?;
                    let pkey_good = matches!(pkey, Some(Reply::Pkey { pkey: 0x8abc }));
                    let gid_good =
                        matches!(&seen, Some(Reply::Gid { gid: seen, .. }) if *seen == gid);
                    let too_long = tester.waited_since(begun) > patience;
                    if pkey_good && gid_good || too_long {
                        run.check(P_KEYS, pkey_good, || format!("P_Key 3 is {pkey:x?}"))?;
                        run.check(GIDS, gid_good, || format!("GID 2 is {seen:x?}"))?;
                        break;
                    }
                    tester.sleep(Duration::from_millis(20))?;
                }

                tester.good(port, &Smp::set(attribute::P_KEY_TABLE, p_keys))?;
                tester.good(port, &Smp::set(attribute::GUID_INFO, guids))?;
            }

            tester.forget_events()
        },
    )
    .covers(&["11.2.1.2"])
    .asserts([P_KEYS, GIDS])
    .mutant(Mutant::mad(
        "old-p-keys",
        "programs see no P_Key but the first",
        P_KEYS,
        || {
            MadFaults::default().reply(|reply| {
                if let Reply::Pkey { pkey } = reply {
                    *pkey = 0;
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "old-gids",
        "programs see no GID but the first",
        GIDS,
        || {
            MadFaults::default().reply(|reply| {
                if let Reply::Gid { gid, .. } = reply {
                    *gid = [0; 16];
                }
            })
        },
    ))
}
