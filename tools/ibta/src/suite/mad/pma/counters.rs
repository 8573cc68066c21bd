//! What PortCounters and PortCountersExtended count, what resets them, and whose they are.

use super::{answers, ask};
use crate::catalog::{Mutant, Test};
use crate::mad::Tester;
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use crate::suite::mad::case::test;
use crate::suite::mad::provoke::perf;
use ferroce_wire::mad::Mad;
use ferroce_wire::pma::{self, PortCounters, PortCountersExtended, attribute};
use ferroce_wire::smp::{self, NodeInfo, method, status};
use std::cell::Cell;

/// Bytes of a MAD's packet without GRH, in words of 4 bytes: LRH, BTH, DETH, MAD, ICRC.
const WORDS: u64 = (8 + 12 + 8 + 256 + 4) / 4;

/// A request about a port's counters.
fn counters(tester: &mut Tester<'_>, asked: u8, number: u16, port: u8, select: u16) -> Mad {
    let mut mad = perf(tester, asked, number);
    let data = pma::data_mut(&mut mad);
    data[1] = port;
    data[2..4].copy_from_slice(&select.to_be_bytes());
    mad
}

/// Packets that the tester sends between two looks.
const PACKETS: u64 = 25;

/// Counters of what came and went: packets sent and received, words sent and received.
type Look = fn(&Mad) -> [u64; 4];

fn narrow(mad: &Mad) -> [u64; 4] {
    let seen = PortCounters::parse(pma::data(mad));
    [
        seen.port_xmit_pkts,
        seen.port_rcv_pkts,
        seen.port_xmit_data,
        seen.port_rcv_data,
    ]
    .map(u64::from)
}

fn wide(mad: &Mad) -> [u64; 4] {
    let seen = PortCountersExtended::parse(pma::data(mad));
    [
        seen.port_xmit_pkts,
        seen.port_rcv_pkts,
        seen.port_xmit_data,
        seen.port_rcv_data,
    ]
}

/// What PortCountersExtended alone has: unicast packets sent and received, multicast packets sent
/// and received.
fn by_kind(mad: &Mad) -> [u64; 4] {
    let seen = PortCountersExtended::parse(pma::data(mad));
    [
        seen.port_unicast_xmit_pkts,
        seen.port_unicast_rcv_pkts,
        seen.port_multicast_xmit_pkts,
        seen.port_multicast_rcv_pkts,
    ]
}

fn more(before: [u64; 4], after: [u64; 4]) -> [u64; 4] {
    std::array::from_fn(|nth| after[nth].wrapping_sub(before[nth]))
}

/// Has an attribute's counters shown, then some packets sent and answered, then the counters again;
/// both answers, and how many packets are due each way between them.
fn before_and_after(
    run: &mut Run,
    tester: &mut Tester<'_>,
    rule: &str,
    port: u8,
    (number, name): (u16, &str),
) -> Outcome<(Mad, Mad, u64)> {
    run.step("1", format!("PerformanceGet({name}) to port {port}"));
    let mad = counters(tester, method::GET, number, port, 0);
    let before = ask(run, tester, rule, port, &mad, 0)?.mad;
    run.step("2", format!("{PACKETS} SMPs and their answers"));
    for _ in 0..PACKETS {
        tester.data(port, smp::attribute::NODE_INFO, 0)?;
    }
    run.step(
        "3",
        format!("PerformanceGet({name}): these, and what asked for them, are counted"),
    );

    let mad = counters(tester, method::GET, number, port, 0);
    let after = ask(run, tester, rule, port, &mad, 0)?.mad;

    // Of the two requests here, the first one's answer and the second one's request.
    Ok((before, after, PACKETS + 1))
}

fn counting(id: &'static str, number: u16, look: Look, name: &'static str) -> Test {
    let (packets, words) = (format!("{id}#packets"), format!("{id}#data"));
    let rules = [packets.clone(), words.clone()];
    let (caught_packets, caught_words) = (packets.clone(), words.clone());
    let unicast = (number == attribute::PORT_COUNTERS_EXTENDED).then(|| format!("{id}#unicast"));
    let caught_unicast = unicast.clone();
    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        for port in 1..=tester.ports() {
            let (before, after, due) =
                before_and_after(run, tester, &packets, port, (number, name))?;
            let seen = more(look(&before), look(&after));
            run.check_eq(
                &packets,
                "packets sent and received",
                &seen[..2],
                &[due, due],
            )?;

            run.check_eq(
                &words,
                "words sent and received",
                &seen[2..],
                &[due * WORDS, due * WORDS],
            )?;

            if let Some(unicast) = &unicast {
                let seen = more(by_kind(&before), by_kind(&after));
                run.check_eq(
                    unicast,
                    "unicast and multicast packets, each sent and received",
                    seen,
                    [due, due, 0, 0],
                )?;
            }
        }

        Ok(())
    };

    let test = test(id, "16.1", format!("{name} counts packets and words"), body)
        .covers(&["16.1"])
        .asserts(rules)
        .mutant(counts_bytes(number, caught_words))
        .mutant(Mutant::mad(
            "counts-data-packets-only",
            "packets of the management lane are not counted",
            caught_packets,
            move || {
                let first = Cell::new(None);
                answers(number, move |mad| {
                    let shown = *first.take().get_or_insert(*pma::data(mad));
                    first.set(Some(shown));
                    *pma::data_mut(mad) = shown;
                })
            },
        ));

    match caught_unicast {
        Some(rule) => test.asserts([&rule]).mutant(takes_for_multicast(rule)),
        None => test,
    }
}

fn counts_bytes(number: u16, rule: String) -> Mutant {
    Mutant::mad(
        "counts-bytes",
        "data are counted in bytes",
        rule,
        move || {
            answers(number, move |mad| {
                let data = pma::data_mut(mad);
                match number {
                    attribute::PORT_COUNTERS => {
                        let mut seen = PortCounters::parse(data);
                        (seen.port_xmit_data, seen.port_rcv_data) = (
                            seen.port_xmit_data.wrapping_mul(4),
                            seen.port_rcv_data.wrapping_mul(4),
                        );
                        seen.emit(data);
                    }
                    _ => {
                        let mut seen = PortCountersExtended::parse(data);
                        (seen.port_xmit_data, seen.port_rcv_data) =
                            (4 * seen.port_xmit_data, 4 * seen.port_rcv_data);
                        seen.emit(data);
                    }
                }
            })
        },
    )
}

/// The permissive LID, which directed routes go to, is beyond those of groups, and is none of them.
fn takes_for_multicast(rule: String) -> Mutant {
    Mutant::mad(
        "takes-the-permissive-lid-for-a-group",
        "packets to the permissive LID are counted as multicast",
        rule,
        || {
            answers(attribute::PORT_COUNTERS_EXTENDED, |mad| {
                let data = pma::data_mut(mad);
                let mut seen = PortCountersExtended::parse(data);
                seen.port_multicast_rcv_pkts += std::mem::take(&mut seen.port_unicast_rcv_pkts);
                seen.emit(data);
            })
        },
    )
}

pub(super) fn counts() -> Test {
    counting("S16_1_02", attribute::PORT_COUNTERS, narrow, "PortCounters")
}

pub(super) fn counts_wide() -> Test {
    counting(
        "S16_1_03",
        attribute::PORT_COUNTERS_EXTENDED,
        wide,
        "PortCountersExtended",
    )
}

pub(super) fn resets() -> Test {
    const RESET: &str = "S16_1_04#reset";
    const OTHERS: &str = "S16_1_04#others";
    /// Bits of CounterSelect: packets sent and received.
    const XMIT_PKTS: u16 = 1 << 14;

    test(
        "S16_1_04",
        "16.1",
        "PerformanceSet(PortCounters) writes the counters that CounterSelect names, and no others",
        |run, tester| {
            for _ in 0..PACKETS {
                tester.data(1, smp::attribute::NODE_INFO, 0)?;
            }
            let mad = counters(tester, method::GET, attribute::PORT_COUNTERS, 1, 0);
            let before = narrow(&ask(run, tester, RESET, 1, &mad, 0)?.mad);
            run.step(
                "1",
                "PerformanceSet(PortCounters) with CounterSelect bit 14 and zeros",
            );

            let mad = counters(tester, method::SET, attribute::PORT_COUNTERS, 1, XMIT_PKTS);
            let shown = narrow(&ask(run, tester, RESET, 1, &mad, 0)?.mad);
            run.check_eq(RESET, "PortXmitPkts of the answer", shown[0], 0)?;
            run.step(
                "2",
                "PerformanceGet(PortCounters): only PortXmitPkts began anew",
            );

            let mad = counters(tester, method::GET, attribute::PORT_COUNTERS, 1, 0);
            let after = narrow(&ask(run, tester, RESET, 1, &mad, 0)?.mad);
            run.check_eq(RESET, "PortXmitPkts", after[0], 1)?;
            run.check_eq(OTHERS, "PortRcvPkts", after[1], before[1] + 2)?;
            run.step("3", "PortCountersExtended has counters of its own");
            let mad = counters(tester, method::GET, attribute::PORT_COUNTERS_EXTENDED, 1, 0);
            let shown = ask(run, tester, OTHERS, 1, &mad, 0)?.mad;
            let (wide, [to_one, from_one, to_groups, from_groups]) =
                (wide(&shown), by_kind(&shown));
            for (what, seen, least) in [
                ("PortXmitPkts", wide[0], before[0]),
                (
                    "unicast and multicast packets sent",
                    to_one + to_groups,
                    before[0],
                ),
                (
                    "unicast and multicast packets received",
                    from_one + from_groups,
                    before[1],
                ),
            ] {
                run.check(OTHERS, seen >= least, || {
                    format!("{what}: {seen}, must be {least} at least")
                })?;
            }

            Ok(())
        },
    )
    .covers(&["16.1"])
    .asserts([RESET, OTHERS])
    .mutant(Mutant::mad(
        "never-resets",
        "CounterSelect is taken for 0",
        RESET,
        || select(0),
    ))
    .mutant(Mutant::mad(
        "resets-all",
        "CounterSelect is taken for all",
        OTHERS,
        || select(0xffff),
    ))
}

fn select(bits: u16) -> MadFaults {
    MadFaults::default().rx_edit(move |_, mad| {
        if mad.envelope.qp == 1 && mad.header().method == method::SET {
            pma::data_mut(&mut mad.mad)[2..4].copy_from_slice(&bits.to_be_bytes());
        }
    })
}

pub(super) fn port_select() -> Test {
    const OTHER: &str = "S16_1_05#other-port";
    const NONE: &str = "S16_1_05#no-port";

    test(
        "S16_1_05",
        "16.1",
        "PortSelect names the port, whichever is asked; one that does not exist is refused",
        |run, tester| {
            for port in 1..=tester.ports() {
                let by = tester.ports() + 1 - port;
                run.step(
                    "1",
                    format!(
                        "PerformanceGet(PortCounters) of port {port}, by port {by} and by itself"
                    ),
                );

                let mad = counters(tester, method::GET, attribute::PORT_COUNTERS, port, 0);
                let own = narrow(&ask(run, tester, OTHER, port, &mad, 0)?.mad);
                for _ in 0..PACKETS {
                    tester.data(port, smp::attribute::NODE_INFO, 0)?;
                }
                let mad = counters(tester, method::GET, attribute::PORT_COUNTERS, port, 0);
                let answer = ask(run, tester, OTHER, by, &mad, 0)?;
                run.check_eq(
                    OTHER,
                    "PortSelect of the answer",
                    pma::data(&answer.mad)[1],
                    port,
                )?;

                let more = narrow(&answer.mad)[1].wrapping_sub(own[1]);
                run.check_eq(
                    OTHER,
                    "packets received since",
                    more,
                    PACKETS + u64::from(by == port),
                )?;
            }

            run.step("2", "ports that do not exist");
            let node = NodeInfo::parse(&tester.data(1, smp::attribute::NODE_INFO, 0)?);
            for none in [0, node.num_ports.saturating_add(1), 0xfe] {
                for number in [attribute::PORT_COUNTERS, attribute::PORT_COUNTERS_EXTENDED] {
                    let mad = counters(tester, method::GET, number, none, 0);
                    ask(run, tester, NONE, 1, &mad, status::INVALID_VALUE)?;
                }
            }

            Ok(())
        },
    )
    .covers(&["16.1"])
    .asserts([OTHER, NONE])
    .tried_on_ports(2)
    .mutant(Mutant::mad(
        "looks-at-itself-only",
        "a port shows its own counters, whichever is named",
        OTHER,
        || {
            MadFaults::default().rx_edit(|_, mad| {
                let port = mad.port;
                let data = pma::data_mut(&mut mad.mad);
                if mad.envelope.qp == 1 && (1..=2).contains(&data[1]) {
                    data[1] = port;
                }
            })
        },
    ))
    .mutant(Mutant::mad(
        "every-port-exists",
        "a port that does not exist has counters",
        NONE,
        || {
            MadFaults::default().rx_edit(|_, mad| {
                let data = pma::data_mut(&mut mad.mad);
                if mad.envelope.qp == 1 && !(1..=2).contains(&data[1]) {
                    data[1] = 1;
                }
            })
        },
    ))
}
