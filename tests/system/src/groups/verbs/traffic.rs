//! The matrix of perftest and pingpong runs: which options are tried where.
//!
//! A full cross product would take hours. The memory of one device and the sockets of two get every
//! option of every program on its own; the veth places get every option too, several in one run,
//! and so do the sockets of one device. All sizes go over the veth with the smaller MTU.
//!
//! What is compared are bytes and rows and not times, so perftest is spared its look at the
//! processor's clock (`programs/hasty.rs`), on which runs of all sizes would spend nearly all their
//! time.

use std::time::Duration;

use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Place;
use crate::programs::hasty::Hasty;
use crate::programs::perftest::{Ends, Pair};

const LIMIT: Duration = Duration::from_secs(60);
/// The largest size of perftest's `-a`.
const LARGEST: u64 = 8 << 20;

/// All runs at one place.
pub(crate) fn cases(place: Place) -> Vec<Case> {
    let mut lines = match place {
        Place::OneDaemon | Place::TwoDaemons | Place::Ipv6 => {
            every_option(place == Place::OneDaemon)
        }
        Place::Sockets | Place::Veth(_) | Place::VethIpv6(_) => {
            combined_options(place == Place::Veth(1500))
        }
    };

    for mtu in [256, 512, 1024, 2048, 4096]
        .into_iter()
        .filter(|mtu| *mtu <= place.path_mtu())
    {
        for tool in ["ib_write_bw", "ib_send_bw", "ib_read_bw"] {
            lines.push(format!("{tool} -m {mtu} -n 200"));
        }
        for tool in ["ib_write_lat", "ib_send_lat", "ib_read_lat"] {
            lines.push(format!("{tool} -m {mtu} -s 10000 -n 100 -C"));
        }
        lines.push(format!("ib_atomic_bw -m {mtu} -n 200"));
        lines.push(format!("ib_atomic_lat -m {mtu} -n 200 -C"));
    }

    let mut cases: Vec<Case> = lines
        .into_iter()
        .map(|line| perftest(place, line))
        .collect();

    cases.extend(
        pingpong_lines(place)
            .into_iter()
            .map(|line| pingpong(place, line)),
    );

    cases
}

/// Every option of every program by itself. What only repeats what another option does, of all
/// sizes or for a time, is done once: within a device or else over sockets.
fn every_option(within_device: bool) -> Vec<String> {
    let either = |memory, sockets| if within_device { memory } else { sockets };
    let mut lines = Vec::new();
    for tool in ["ib_write_bw", "ib_send_bw", "ib_read_bw"] {
        for options in [
            either("-a -n 100", "-a -b -n 50"),
            "-b -n 500",
            "-n 1000 --report_gbits",
            "-n 1000 --use_old_post_send",
            "-q 2 -n 500",
            "-q 8 -n 200",
            "-q 16 -b -n 100",
            "-q 64 -n 100",
            "-q 64 -s 2 -n 500",
            either("-D 1", "-D 1 -b"),
            "-t 1 -n 200",
            "-t 512 -n 1000",
            "-s 1 -n 1000",
            "-s 2 -n 5000",
        ] {
            lines.push(format!("{tool} {options}"));
        }
    }

    // perftest has no events for WRITE.
    for tool in ["ib_send_bw", "ib_read_bw"] {
        for options in ["-e -n 500", "-e -b -q 4 -n 200"] {
            lines.push(format!("{tool} {options}"));
        }
    }

    lines.push(either("ib_send_bw -a -e -n 50", "ib_read_bw -a -e -n 50").to_owned());
    for tool in ["ib_write_bw", "ib_send_bw"] {
        lines.push(format!("{tool} -I 64 -s 64 -n 1000"));
    }
    lines.push(either("ib_write_bw -I 32 -a -n 50", "ib_send_bw -I 32 -a -n 50").to_owned());
    lines.push("ib_send_bw -r 16 -n 1000".to_owned());
    lines.push("ib_send_bw -r 2048 -n 5000 -s 64".to_owned());

    for tool in ["ib_write_lat", "ib_send_lat", "ib_read_lat"] {
        for options in [
            either("-a -n 100", "-a -n 100 -C"),
            "-n 1000",
            "-s 65536 -n 200 -C",
            "-D 1",
            "-n 200 --use_old_post_send -C",
        ] {
            lines.push(format!("{tool} {options}"));
        }
    }

    for tool in ["ib_write_lat", "ib_send_lat"] {
        lines.push(format!("{tool} -I 64 -s 64 -n 500 -C"));
    }
    for tool in ["ib_send_lat", "ib_read_lat"] {
        lines.push(format!("{tool} -e -n 200"));
    }
    // perftest before 23.04 takes the first of two events for that of its own request, whose queue
    // has room for one completion.
    lines.push("ib_send_lat -e -s 65536 -n 1000 -C".to_owned());
    // Each of its completion queues has the second vector.
    lines.push("ib_send_bw -e -X 1 -q 4 -n 200".to_owned());
    lines.push("ib_send_lat -e -X 1 -n 200 -C".to_owned());
    lines.push(either("ib_read_lat -e -a -n 20 -C", "ib_send_lat -e -a -n 20 -C").to_owned());
    lines.push("ib_send_lat -r 8 -n 200 -C".to_owned());
    lines.push("ib_read_bw -o 1 -n 200".to_owned());
    lines.push("ib_read_lat -o 1 -n 200 -C".to_owned());

    for kind in ["FETCH_AND_ADD", "CMP_AND_SWAP"] {
        for options in [
            "-n 1000",
            "-b -n 500",
            "-q 4 -n 500",
            "-q 64 -n 100",
            "-e -n 200",
            "-D 1",
            "-t 1 -n 200",
            "-t 256 -n 1000 --report_gbits",
            "-o 1 -n 200",
        ] {
            lines.push(format!("ib_atomic_bw -A {kind} {options}"));
        }

        for options in ["-n 1000", "-e -n 200 -C", "-D 1"] {
            lines.push(format!("ib_atomic_lat -A {kind} {options}"));
        }
    }

    lines
}

fn combined_options(all_sizes: bool) -> Vec<String> {
    let either = |all, one| if all_sizes { all } else { one };
    let mut lines = Vec::new();
    for tool in ["ib_write_bw", "ib_send_bw", "ib_read_bw"] {
        for options in [
            either(
                "-a -b -n 50 --report_gbits",
                "-b -s 1000001 -n 50 --report_gbits",
            ),
            "-q 64 -t 16 -n 100",
            "-D 1",
            "-t 1 -s 2 -n 200",
        ] {
            lines.push(format!("{tool} {options}"));
        }
    }

    lines.push("ib_send_bw -e -X 1 -q 4 -n 200".to_owned());
    lines.push("ib_read_bw -e -q 4 -n 200".to_owned());
    lines.push("ib_write_bw -I 64 -s 64 -n 1000".to_owned());
    lines.push("ib_send_bw -I 64 -s 64 -r 64 -n 1000".to_owned());
    for tool in ["ib_write_lat", "ib_send_lat", "ib_read_lat"] {
        let options = either("-a -n 100 -C", "-s 100001 -n 100 -C");
        lines.push(format!("{tool} {options}"));
        lines.push(format!("{tool} -D 1"));
    }

    lines.push("ib_write_lat -I 64 -s 64 -n 500".to_owned());
    lines.push("ib_send_lat -e -I 64 -s 64 -r 8 -n 200".to_owned());
    lines.push("ib_read_lat -e -n 200".to_owned());
    for kind in ["FETCH_AND_ADD", "CMP_AND_SWAP"] {
        for options in ["-b -e -q 4 -n 200", "-D 1 --report_gbits", "-t 1 -n 200"] {
            lines.push(format!("ib_atomic_bw -A {kind} {options}"));
        }
        lines.push(format!("ib_atomic_lat -A {kind} -n 500"));
        lines.push(format!("ib_atomic_lat -A {kind} -e -n 200 -C"));
    }

    lines
}

/// One perftest run: clean at both ends, the whole table, sound figures.
pub(crate) fn perftest(place: Place, line: String) -> Case {
    Case::new(format!("verbs/{}/{line}", place.name()), move |lab| {
        let ends = hasty_pair(lab, place, &line)?;
        judge_perftest(&ends, &line, place.path_mtu())
    })
}

/// What is wanted of a perftest run with these options.
pub(crate) fn judge_perftest(ends: &Ends, line: &str, path_mtu: u32) -> Ending {
    ends.clean()?;
    let has = |wanted: &str| line.split_whitespace().any(|word| word == wanted);
    let newer = !has("--use_old_post_send");
    if ends.client.out.contains("ibv_wr* API     : ON") != newer {
        return Err(ends.fail("posts through the other interface".to_owned()));
    }

    // A datagram is one packet.
    let largest = if has("UD") || has("-g") {
        u64::from(path_mtu)
    } else {
        LARGEST
    };

    let all = has("-a");

    // 2 B, and on to the largest in powers of two, one row each.
    let rows = ends.table(if all { largest.ilog2() as usize } else { 1 })?;
    if all && rows.last().is_none_or(|row| row.bytes != largest) {
        return Err(ends.fail(format!("the last row is not that of {largest} bytes")));
    }

    Ok(())
}

fn pingpong_lines(place: Place) -> Vec<String> {
    let mut lines = Vec::new();
    for tool in ["ibv_rc_pingpong", "ibv_srq_pingpong"] {
        for events in ["", " -e"] {
            for (size, count) in [
                (1, 500),
                (4096, 1000),
                (65_537, 200),
                (1 << 20, 50),
                (8 << 20, 5),
            ] {
                lines.push(format!("{tool} -c -s {size} -n {count}{events}"));
            }

            for mtu in [256, 512, 1024, 2048, 4096]
                .into_iter()
                .filter(|mtu| *mtu <= place.path_mtu())
            {
                lines.push(format!("{tool} -c -m {mtu} -s 10000 -n 200{events}"));
            }
        }
    }

    lines.push("ibv_rc_pingpong -c -r 2 -n 200".to_owned());
    lines.push("ibv_srq_pingpong -c -q 1 -n 200".to_owned());
    lines
}

/// One pingpong run.
pub(crate) fn pingpong(place: Place, line: String) -> Case {
    Case::new(format!("verbs/{}/{line}", place.name()), move |lab| {
        judge_pingpong(&pair(lab, place, &line, &["-g", "0"])?)
    })
}

/// Both ends check the received bytes (`-c`) and say so on stdout only when they are wrong.
pub(crate) fn judge_pingpong(ends: &Ends) -> Ending {
    ends.clean()?;
    for finished in [&ends.client, &ends.server] {
        if finished.out.contains("invalid data") {
            return Err(ends.fail("the received bytes are wrong".to_owned()));
        }
        // ibv_xsrq_pingpong has a word only.
        if !finished.out.contains(" iters in ") && !finished.out.contains("success") {
            return Err(ends.fail("the result is missing".to_owned()));
        }
    }
    Ok(())
}

/// Runs the two ends of `line` at a place.
pub(crate) fn pair(
    lab: &mut crate::lab::Lab,
    place: Place,
    line: &str,
    extra: &[&str],
) -> Result<Ends, Stop> {
    let dir = lab.case_dir()?;
    let pair = pair_of(line, extra, lab.port());
    let site = lab.site(place)?;
    pair.run(site.server(), site.client(), &dir)
}

/// Runs the two ends of a line of perftest at a place, without a look at its figures.
pub(crate) fn hasty_pair(
    lab: &mut crate::lab::Lab,
    place: Place,
    line: &str,
) -> Result<Ends, Stop> {
    let dir = lab.case_dir()?;
    let pair = pair_of(line, &["-F"], lab.port());
    let site = lab.site(place)?;
    let (server, client) = (Hasty::on(site.server())?, Hasty::on(site.client())?);
    pair.run(&server, &client, &dir)
}

/// The two ends of `line` with further options.
pub(crate) fn pair_of(line: &str, extra: &[&str], port: u16) -> Pair {
    let mut words = line.split_whitespace().chain(extra.iter().copied());
    Pair {
        tool: words.next().unwrap_or_default().to_owned(),
        options: words.map(str::to_owned).collect(),
        port,
        limit: LIMIT,
    }
}
