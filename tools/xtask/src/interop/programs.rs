//! What is run between rdma_rxe and ferroce, and in which settings.
//!
//! All combinations of every option would take hours: a program of each kind is run in every setting, and every option in both
//! roles, in settings that alternate from line to line.

use super::field::{Family, Side};
use crate::groups::cm::{Stock, UDP, stock};

/// A program to run.
#[derive(Clone, Copy)]
pub enum Program {
    /// perftest, whose ends exchange addresses over TCP.
    Perftest(&'static str),
    /// perftest, connected by rdma_cm.
    Connected(&'static str),
    /// A pingpong of rdma-core.
    Pingpong(&'static str),
    /// A program of librdmacm.
    Stock(&'static Stock),
    /// This many datagrams to a group, by mckey, whose receiver awaits 10.
    Multicast(u32),
    /// A client of rdma_cm where nobody listens.
    NobodyListens,
    /// A client of rdma_cm that is killed while it is connected: its server is told.
    ClientKilled,
    /// Tests of a C program of `tests/verbs`: those named, or all but those.
    C(&'static str, Choice),
}

/// Which tests of a C program.
#[derive(Clone, Copy)]
pub enum Choice {
    /// These.
    Only(&'static [&'static str]),
    /// All that it has.
    All,
}

/// A test of a C program that rdma_rxe does not pass, because it does something else than the specification or has something not.
pub struct Differs {
    /// Program and test.
    pub test: (&'static str, &'static str),
    /// The second process of the test, if it is that which rdma_rxe cannot be, or the first.
    pub server: Option<Side>,
    /// What it does.
    pub why: &'static str,
}

/// Where rdma_rxe of Linux 6.1 differs; said in `docs/conformance.md` with the clauses, and in the table of `docs/interop.md`.
pub const DIFFERS: &[Differs] = &[
    Differs {
        test: ("data", "send_with_invalidate"),
        server: Some(Side::Rxe),
        why: "rdma_rxe acknowledges a SEND whose key it could not invalidate",
    },
    Differs {
        test: ("unreliable", "longer_than_the_receive_request"),
        server: Some(Side::Rxe),
        why: "rdma_rxe ends the queue pair when a message of UC is too long",
    },
    Differs {
        test: ("datagrams", "controlled_qkey"),
        server: Some(Side::Ferroce),
        why: "rdma_rxe sends a Q_Key with the top bit set as it is",
    },
    Differs {
        test: ("datagrams", "longer_than_the_mtu"),
        server: Some(Side::Ferroce),
        why: "rdma_rxe completes a datagram that is too long well, and sends nothing (C10-93.1.1)",
    },
    Differs {
        test: ("refusals", "rem_inv_req_atomic_misaligned"),
        server: Some(Side::Ferroce),
        why: "rdma_rxe refuses to post an atomic operation at an odd address",
    },
];

/// Why perftest's `-R` is not run over a bad network where rdma_rxe serves; ferroce as the server waits a moment for the next listener.
pub const ASKS_TOO_SOON: &str = "perftest asks before its server listens again, and does not survive that the kernel refuses it at once";
/// Why XRC is not run.
pub const NO_XRC: &str = "rdma_rxe of this kernel has no XRC";

/// The circumstances of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Who serves; the other side is the client, or the process that a C program is.
    pub server: Side,
    /// What carries the traffic.
    pub family: Family,
    /// The link's MTU.
    pub mtu: u32,
    /// Whether packets are lost, doubled, delayed and reordered.
    pub bad: bool,
}

impl Setting {
    /// In words.
    pub fn name(&self) -> String {
        format!(
            "{} serves, {}, MTU {}{}",
            self.server.name(),
            self.family.name(),
            self.mtu,
            if self.bad { ", bad network" } else { "" }
        )
    }
}

/// The small and the large MTU of the link.
pub const MTUS: [u32; 2] = [1500, 9000];
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
const SIDES: [Side; 2] = [Side::Ferroce, Side::Rxe];

use Choice::Only;
use Program::{C, ClientKilled, Connected, Multicast, NobodyListens, Perftest, Pingpong};

const RPING: Stock = stock(
    "rping",
    "rping -s -a ADDR -p PORT -V -C 5",
    "rping -c -a ADDR -p PORT -v -V -C 5",
    "rdma-ping-4",
);
const UCMATOSE: Stock = stock(
    "ucmatose",
    "ucmatose -b ADDR -p PORT -c 5",
    "ucmatose -s ADDR -p PORT -c 5",
    "return status 0",
);
const UDADDY: Stock = Stock {
    space: UDP,
    ..stock(
        "udaddy",
        "udaddy -b ADDR -c 3",
        "udaddy -s ADDR -c 3",
        "return status 0",
    )
};
const RPING_LONG: Stock = stock(
    "rping of 60,000 bytes",
    "rping -s -a ADDR -p PORT -V -C 5 -S 60000",
    "rping -c -a ADDR -p PORT -V -C 5 -S 60000",
    "",
);
const UCMATOSE_MANY: Stock = stock(
    "ucmatose, 50 connections",
    "ucmatose -b ADDR -p PORT -c 50",
    "ucmatose -s ADDR -p PORT -c 50",
    "return status 0",
);
const RDMA_CLIENT: Stock = stock(
    "rdma_client",
    "rdma_server -s ADDR -p PORT",
    "rdma_client -s ADDR -p PORT",
    "rdma_client: end 0",
);
const RSTREAM: Stock = stock(
    "rstream",
    "rstream -b ADDR -p PORT -S 4096 -I 10 -C 10",
    "rstream -s ADDR -p PORT -S 4096 -I 10 -C 10",
    "custom",
);
const RIOSTREAM: Stock = stock(
    "riostream",
    "riostream -b ADDR -p PORT -S 4096 -I 5 -C 5",
    "riostream -s ADDR -p PORT -S 4096 -I 5 -C 5",
    "custom",
);
const CMTIME: Stock = Stock {
    stays: true,
    ..stock(
        "cmtime",
        "cmtime -b ADDR -p PORT -c 50",
        "cmtime -s ADDR -p PORT -c 50",
        "disconnect",
    )
};
/// Resolves and ends: what is lost after that nobody sends again.
const UDADDY_RESOLVES: Stock = Stock {
    space: UDP,
    stays: true,
    ..stock(
        "udaddy without messages",
        "udaddy -b ADDR -c 3 -C 0",
        "udaddy -s ADDR -c 3 -C 0",
        "return status 0",
    )
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
    Perftest("ib_atomic_bw -A CMP_AND_SWAP -b -q 4 -n 50"),
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
    Program::Stock(&RSTREAM),
    Program::Stock(&RIOSTREAM),
    Program::Stock(&CMTIME),
    Multicast(10),
    NobodyListens,
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

use Family::V4;

/// In both roles, in settings that the above leave out.
const FURTHER: &[(Program, Family, u32)] = &[
    (Multicast(10), V4, 9000),
    (C("cm_killed", KILLED), V4, 1500),
    (C("cm_refused", Choice::All), V4, 9000),
    (
        C("datagrams", Only(&["global_route_header", "wrong_qkey"])),
        V4,
        9000,
    ),
];

/// Those with the other end on the other host, where it is killed before it disconnects.
const KILLED: Choice = Only(&[
    "server_killed_with_a_request",
    "client_killed_with_a_request",
    "server_killed_with_an_answer",
    "client_killed_with_an_answer",
    "server_killed_when_connected",
    "client_killed_when_connected",
]);

/// In both roles over a bad network. What UC and UD lose nobody sends again: perftest waits for it for ever unless it ends by the
/// clock, and nobody waits for WRITEs.
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
];
const SHORT_BAD: &[Program] = &[
    Pingpong("ibv_rc_pingpong -c -s 10000 -n 50"),
    Program::Stock(&RPING),
];

/// Every run of the whole, or of the short form: ordered so that the link changes seldom.
pub fn plan(short: bool) -> Vec<(Program, Setting)> {
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
        for (program, family, mtu) in FURTHER {
            runs.extend(roles(*program, *family, *mtu, false));
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

/// The small MTU and the large take turns, but a path MTU must fit, and many bytes in small packets take long in an emulated guest.
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

impl Program {
    /// As it is called in results; a C program's tests are told after it.
    pub fn name(&self) -> String {
        match self {
            Perftest(line) | Pingpong(line) => (*line).to_owned(),
            Connected(line) => format!("{line} -R"),
            Program::Stock(stock) => stock.name.to_owned(),
            Multicast(10) => "mckey".to_owned(),
            Multicast(count) => format!("mckey, 10 of {count} datagrams"),
            NobodyListens => "rping to nobody".to_owned(),
            ClientKilled => "rping, the client killed".to_owned(),
            C(name, _) => format!("{name}.c"),
        }
    }

    /// What needs IPv4: perftest's `-R` takes an address of IPv4 only, and rdma_cm joins groups of IPv4 only over RoCE.
    fn is_v4_only(&self) -> bool {
        matches!(self, Connected(_) | Multicast(_))
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
    fn what_is_skipped_is_documented() {
        let page = include_str!("../../../../docs/interop.md");
        let named = |test: &str, why: &str| {
            let row = page
                .lines()
                .find(|row| row.starts_with(&format!("| {test} |")));
            assert!(row.is_some_and(|row| row.contains(why)), "{test}: {why}");
        };
        for differs in DIFFERS {
            let (program, test) = differs.test;
            named(&format!("`{program}.c` `{test}`"), differs.why);
        }
        named("perftest with `-R` over a bad network", ASKS_TOO_SOON);
        named("XRC", NO_XRC);
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
