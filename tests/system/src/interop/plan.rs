//! What is run in which settings.
//!
//! All combinations of every option would take hours: a program of each kind is run in every
//! setting, and every option in both roles, in settings that alternate from line to line.

use super::field::Family;
use super::programs::*;
use super::setting::{FAMILIES, MTUS, SIDES, Setting};

use Choice::Only;
use Family::{V4, V6};
use Program::{
    C, ClientKilled, Connected, FioSends, Iperf3Stops, Multicast, NobodyAnswers, NobodyListens,
    Perftest, Pingpong,
};

/// In every setting of a good network.
const EVERYWHERE: &[Program] = &[
    Pingpong("ibv_rc_pingpong -c -s 10000 -n 50"),
    Pingpong("ibv_srq_pingpong -c -s 10000 -n 50"),
    Pingpong("ibv_uc_pingpong -c -s 10000 -n 50"),
    Pingpong("ibv_ud_pingpong -c -s 1024 -n 50"),
    Perftest("ib_send_bw -n 50"),
    Perftest("ib_write_bw -n 50"),
    Perftest("ib_read_bw -n 50"),
    Perftest("ib_atomic_bw -A FETCH_AND_ADD -n 50"),
    Program::Stock(&RPING),
    Program::Stock(&UCMATOSE),
    Program::Stock(&UDADDY),
    Program::Stock(&RSTREAM),
    Program::Stock(&CMTIME),
    NobodyListens,
];

/// In both roles; the small MTU and the large, IPv4 and IPv6 take turns.
const BOTH_WAYS: &[Program] = &[
    Perftest("ib_send_bw -a -n 5"),
    Perftest("ib_write_bw -a -n 5"),
    Perftest("ib_read_bw -a -n 5"),
    Perftest("ib_send_lat -a -n 5"),
    Perftest("ib_write_lat -s 65536 -n 20"),
    Perftest("ib_read_lat -s 65536 -n 20"),
    Perftest("ib_send_bw -b -n 50"),
    Perftest("ib_write_bw -b -n 50"),
    Perftest("ib_read_bw -b -n 50"),
    Perftest("ib_send_bw -q 8 -s 4096 -n 50"),
    Perftest("ib_write_bw -q 8 -s 4096 -n 50"),
    Perftest("ib_read_bw -q 8 -s 4096 -n 50"),
    Perftest("ib_send_bw -m 256 -s 10000 -n 50"),
    Perftest("ib_write_bw -m 512 -s 10000 -n 50"),
    Perftest("ib_read_bw -m 256 -s 10000 -n 50"),
    Perftest("ib_send_lat -m 1024 -s 10000 -n 50"),
    Perftest("ib_write_bw -m 2048 -s 10000 -n 50"),
    Perftest("ib_read_bw -m 4096 -s 10000 -n 50"),
    Perftest("ib_send_bw -m 4096 -s 10000 -n 50"),
    Perftest("ib_atomic_bw -A CMP_AND_SWAP -n 50"),
    Perftest("ib_atomic_bw -A CMP_AND_SWAP -b -q 8 -n 50"),
    Perftest("ib_atomic_lat -A FETCH_AND_ADD -n 50"),
    Perftest("ib_atomic_lat -A CMP_AND_SWAP -n 50"),
    Perftest("ib_send_bw -I 64 -s 64 -n 100"),
    Perftest("ib_write_lat -I 64 -s 64 -n 100"),
    Perftest("ib_send_bw -e -n 50"),
    Perftest("ib_send_lat --use_old_post_send -n 50"),
    Perftest("ib_send_bw --use-srq -n 50"),
    Perftest("ib_send_bw --use-srq -q 4 -s 4096 -n 50"),
    Perftest("ib_send_bw -c UC -s 10000 -n 50"),
    Perftest("ib_send_lat -c UC -n 50"),
    Perftest("ib_write_bw -c UC -n 50"),
    Perftest("ib_write_lat -c UC -n 50"),
    Perftest("ib_send_bw -c UD -s 1024 -n 100"),
    Perftest("ib_send_bw -c UD -q 4 -s 512 -n 50"),
    Perftest("ib_send_lat -c UD -s 1024 -n 50"),
    Pingpong("ibv_rc_pingpong -c -e -s 65537 -n 20"),
    Pingpong("ibv_ud_pingpong -c -e -s 1 -n 50"),
    Connected("ib_send_bw -n 50"),
    Connected("ib_write_bw -q 4 -s 4096 -n 50"),
    Connected("ib_read_lat -n 50"),
    Connected("ib_atomic_bw -n 50"),
    Program::Stock(&RPING_LONG),
    Program::Stock(&UCMATOSE_MANY),
    Program::Stock(&RDMA_CLIENT),
    Connected("ib_send_lat -n 50"),
    Program::Stock(&RIOSTREAM),
    Connected("ib_write_lat -n 50"),
    Multicast(10),
    Connected("ib_read_bw -n 50"),
    ClientKilled,
    C("data", Choice::All),
    C("windows", Only(&["invalidated_by_the_other_process"])),
    C(
        "unreliable",
        Only(&[
            "operations",
            "longer_than_the_receive_request",
            "no_right_to_write",
            "nobody_there",
        ]),
    ),
    C(
        "datagrams",
        Only(&[
            "global_route_header",
            "wrong_qkey",
            "controlled_qkey",
            "longer_than_the_mtu",
        ]),
    ),
    C(
        "status",
        Only(&[
            "retry_exc_no_such_qp",
            "retry_exc_process_killed",
            "rnr_retry_exc",
            "rnr_patience",
        ]),
    ),
    C(
        "refusals",
        Only(&[
            "rem_inv_req_atomic_misaligned",
            "rem_access_write_unknown_key",
            "rem_access_read_unknown_key",
            "rem_access_out_of_bounds",
            "rem_access_out_of_bounds_long",
            "rem_access_write_to_readable",
            "rem_access_read_from_writable",
            "rem_access_atomic_without_right",
            "rem_access_other_pd",
        ]),
    ),
];

/// In both roles, in settings that the above leave out.
const FURTHER: &[(Program, Family, u32)] = &[
    (Perftest("ib_send_bw -a -n 5"), V6, 1500),
    (Perftest("ib_write_bw -a -n 5"), V6, 1500),
    (Perftest("ib_read_bw -a -n 5"), V4, 1500),
    (
        Perftest("ib_atomic_bw -A FETCH_AND_ADD -q 8 -n 50"),
        V6,
        9000,
    ),
    (Connected("ib_atomic_lat -n 50"), V4, 1500),
    (Multicast(10), V4, 9000),
    (NobodyAnswers, V4, 1500),
    (NobodyAnswers, V6, 1500),
    (NobodyAnswers, V4, 9000),
    (NobodyAnswers, V6, 9000),
    (ClientKilled, V4, 9000),
    (Program::Stock(&RDMA_CLIENT), V6, 9000),
    (Program::Stock(&RIOSTREAM), V4, 9000),
    (FioSends, V4, 1500),
    (Iperf3Stops, V4, 1500),
    (C("cm_killed", KILLED), V4, 1500),
    (C("cm_refused", Choice::All), V4, 1500),
    (C("cm_refused", Choice::All), V4, 9000),
    (
        C("datagrams", Only(&["global_route_header", "wrong_qkey"])),
        V4,
        9000,
    ),
];

/// In both roles over a bad network. What UC and UD lose nobody sends again: perftest waits for it
/// for ever unless it ends by the clock, and nobody waits for WRITEs.
const BAD_NETWORK: &[Program] = &[
    Pingpong("ibv_rc_pingpong -c -s 10000 -n 50"),
    Pingpong("ibv_srq_pingpong -c -s 10000 -n 50"),
    Perftest("ib_send_bw -s 10000 -n 50"),
    Perftest("ib_write_bw -s 10000 -n 50"),
    Perftest("ib_read_bw -s 10000 -n 50"),
    Perftest("ib_atomic_bw -A FETCH_AND_ADD -n 50"),
    Perftest("ib_atomic_lat -A CMP_AND_SWAP -n 50"),
    Perftest("ib_send_bw -b -q 4 -s 4096 -n 50"),
    Perftest("ib_send_bw --use-srq -n 20"),
    Perftest("ib_write_bw -c UC -s 10000 -n 50"),
    Perftest("ib_send_bw -c UC -s 4096 -D 1"),
    Perftest("ib_send_bw -c UD -s 1024 -D 1"),
    Connected("ib_send_bw -s 10000 -n 50"),
    Program::Stock(&RPING),
    Program::Stock(&UCMATOSE_MANY),
    Program::Stock(&UDADDY_RESOLVES),
    Program::Stock(&RSTREAM),
    Program::Stock(&CMTIME),
    NobodyListens,
    C(
        "data",
        Only(&["sizes_send", "sizes_write", "sizes_read", "atomics"]),
    ),
    Multicast(50),
];

/// What immediates, invalidation and inline data add to the sizes above.
const DATA_WITH_MORE: &[&str] = &[
    "sizes_send_imm",
    "sizes_write_imm",
    "inline_data",
    "send_with_invalidate",
];

/// In both roles over a bad network, in settings of their own.
const BAD_FURTHER: &[(Program, Family, u32)] = &[
    (Perftest("ib_send_bw -q 8 -s 4096 -n 50"), V4, 9000),
    (Perftest("ib_write_bw -q 8 -s 4096 -n 50"), V6, 1500),
    (Perftest("ib_read_bw -q 8 -s 4096 -n 50"), V6, 9000),
    (
        Perftest("ib_atomic_bw -A FETCH_AND_ADD -q 8 -n 20"),
        V4,
        1500,
    ),
    (Perftest("ib_send_bw -m 256 -s 10000 -n 20"), V4, 9000),
    (Perftest("ib_write_bw -m 256 -s 10000 -n 20"), V6, 1500),
    (Perftest("ib_read_bw -m 256 -s 10000 -n 20"), V6, 9000),
    (Perftest("ib_send_bw -I 64 -s 64 -n 100"), V4, 1500),
    (Perftest("ib_write_lat -I 64 -s 64 -n 100"), V4, 9000),
    (Connected("ib_write_bw -s 10000 -n 50"), V4, 1500),
    (Connected("ib_read_bw -q 4 -s 4096 -n 50"), V4, 9000),
    (Connected("ib_send_lat -s 1024 -n 50"), V4, 1500),
    (Connected("ib_atomic_bw -n 50"), V4, 9000),
    (Program::Stock(&RPING_LONG), V6, 1500),
    (Program::Stock(&RDMA_CLIENT), V6, 9000),
    (Program::Stock(&RIOSTREAM), V4, 1500),
    (ClientKilled, V4, 9000),
    (C("cm_killed", KILLED), V4, 1500),
    (C("cm_refused", Choice::All), V4, 9000),
    (
        C("windows", Only(&["invalidated_by_the_other_process"])),
        V4,
        1500,
    ),
    (C("data", Only(DATA_WITH_MORE)), V4, 9000),
    (
        C(
            "status",
            Only(&["retry_exc_no_such_qp", "retry_exc_process_killed"]),
        ),
        V6,
        1500,
    ),
    (NobodyAnswers, V4, 1500),
    (NobodyAnswers, V6, 9000),
];

/// Of each kind one, for the short form.
const SHORT: &[Program] = &[
    Pingpong("ibv_rc_pingpong -c -s 10000 -n 50"),
    Pingpong("ibv_ud_pingpong -c -s 1024 -n 50"),
    Pingpong("ibv_uc_pingpong -c -s 10000 -n 50"),
    Perftest("ib_send_bw -s 10000 -n 50"),
    Perftest("ib_write_bw -n 50"),
    Perftest("ib_read_bw -s 10000 -n 50"),
    Perftest("ib_atomic_bw -A CMP_AND_SWAP -n 50"),
    Program::Stock(&RPING),
    Program::Stock(&UCMATOSE),
    Program::Stock(&UDADDY),
    C("data", Only(&["sizes_send_imm", "inline_data"])),
    C("windows", Only(&["invalidated_by_the_other_process"])),
    EXS_SHORT,
];
const SHORT_BAD: &[Program] = &[
    Pingpong("ibv_rc_pingpong -c -s 10000 -n 50"),
    Program::Stock(&RPING),
];

/// Every run of the whole, or of the short form: ordered so that the link changes seldom.
pub(super) fn plan(short: bool) -> Vec<(Program, Setting)> {
    let mut runs = Vec::new();
    let (both, bad) = if short {
        (SHORT, SHORT_BAD)
    } else {
        for mtu in MTUS {
            for program in EVERYWHERE {
                for family in FAMILIES {
                    runs.extend(roles(*program, family, mtu, false));
                }
            }
        }
        for (further, bad) in [(FURTHER, false), (BAD_FURTHER, true)] {
            for (program, family, mtu) in further {
                runs.extend(roles(*program, *family, *mtu, bad));
            }
        }
        (BOTH_WAYS, BAD_NETWORK)
    };
    for (index, program) in both.iter().enumerate() {
        let family = FAMILIES[index / 2 % 2];
        runs.extend(roles(*program, family, mtu_for(*program, index), false));
    }
    for (index, program) in bad.iter().enumerate() {
        runs.extend(roles(
            *program,
            FAMILIES[index / 2 % 2],
            MTUS[index % 2],
            true,
        ));
    }
    runs.sort_by_key(|(_, setting)| (setting.bad, setting.mtu));
    runs
}

fn roles(
    program: Program,
    family: Family,
    mtu: u32,
    bad: bool,
) -> impl Iterator<Item = (Program, Setting)> {
    SIDES.into_iter().map(move |server| {
        let setting = Setting {
            server,
            family: if program.is_v4_only() {
                Family::V4
            } else {
                family
            },
            mtu,
            bad,
        };
        (program, setting)
    })
}

/// The small MTU and the large take turns, but a path MTU must fit, and many bytes in small packets
/// take long in an emulated guest.
fn mtu_for(program: Program, index: usize) -> u32 {
    match program {
        Perftest(line)
            if ["-a", "-m 2048", "-m 4096"]
                .iter()
                .any(|option| line.contains(option)) =>
        {
            MTUS[1]
        }
        _ => MTUS[index % 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_run_in_both_roles() {
        for short in [true, false] {
            let runs = plan(short);
            for (program, setting) in &runs {
                let other = Setting {
                    server: setting.server.other(),
                    ..*setting
                };
                let name = program.name();
                assert!(
                    runs.iter()
                        .any(|(program, setting)| program.name() == name && *setting == other),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn nothing_is_run_twice() {
        let runs = plan(false);
        for (index, (program, setting)) in runs.iter().enumerate() {
            let name = program.name();
            let again =
                |(other, there): &(Program, Setting)| other.name() == name && there == setting;
            assert!(
                !runs[..index].iter().any(again),
                "{name} ({})",
                setting.name()
            );
        }
    }

    #[test]
    fn the_whole_has_every_setting_and_the_link_changes_seldom() {
        let runs = plan(false);
        let mut changes = 0;
        for pair in runs.windows(2) {
            let [(_, a), (_, b)] = pair else { continue };
            changes += usize::from((a.mtu, a.bad) != (b.mtu, b.bad));
        }
        assert_eq!(changes, 3);
        for server in SIDES {
            for family in FAMILIES {
                for mtu in MTUS {
                    for bad in [false, true] {
                        let setting = Setting {
                            server,
                            family,
                            mtu,
                            bad,
                        };
                        assert!(runs.iter().any(|(_, there)| *there == setting));
                    }
                }
            }
        }
    }
}
