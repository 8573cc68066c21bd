//! The matrix of runs over the services beside RC (UC, UD, XRC, multicast), and over RC with shared
//! receive queues.
//!
//! perftest has no retransmission of its own: where a service may lose messages it waits for those
//! that are lost until it is killed. On loopback and veth only a receive buffer that overflows
//! loses packets, and these runs are sized so that it is unlikely on a busy machine too; `-D`,
//! which ends by the clock, and WRITEs, which nobody waits for, are there for more.
//!
//! `ibv_xsrq_pingpong` has one client only: with several, its server answers one through the queue
//! pair of another, which takes an XRC domain that they share, and ours do not span processes.
//!
//! perftest posts through the newer interface (`ibv_wr_*`) unless told `--use_old_post_send`, which
//! is checked.

use crate::groups::verbs::traffic;
use crate::harness::case::Case;
use crate::lab::Place;
use crate::programs::perftest::MULTICAST;

/// All runs at one place.
pub(crate) fn cases(place: Place) -> Vec<Case> {
    // As with RC, every option by itself at the two kinds of loopback place, the others by groups.
    let full = matches!(place, Place::OneDaemon | Place::TwoDaemons);
    let mut lines = shared(full);
    lines.extend(uc(full));
    lines.extend(ud(full));
    lines.extend(xrc(full));
    let mut cases: Vec<Case> = lines
        .into_iter()
        .map(|line| traffic::perftest(place, line))
        .collect();

    cases.extend(
        pingpongs(place)
            .into_iter()
            .map(|line| traffic::pingpong(place, line)),
    );

    cases
}

/// RC with a shared receive queue, a region for each QP, lists of requests.
fn shared(full: bool) -> Vec<String> {
    let mut lines = lines(
        "",
        &[
            "ib_send_bw --use-srq -n 1000",
            "ib_send_bw --use-srq -q 8 -n 200",
            "ib_send_lat --use-srq -n 500",
            "ib_write_bw --mr_per_qp -q 4 -n 500",
            "ib_send_bw -l 8 -n 1000",
        ],
    );

    if full {
        lines.extend(self::lines(
            "",
            &[
                "ib_send_bw --use-srq -a -n 50",
                "ib_send_bw --use-srq -b -e -q 4 -n 200",
                "ib_send_bw --use-srq -D 1",
                "ib_send_lat --use-srq -e -n 200",
                "ib_send_bw --mr_per_qp -q 4 -b -n 200",
                "ib_read_bw --mr_per_qp -q 4 -n 200",
                "ib_atomic_bw --mr_per_qp -q 4 -n 200",
                "ib_write_bw -l 8 -n 1000",
                "ib_write_bw -l 8 -q 4 -s 64 -n 1000",
                "ib_send_bw --recv_post_list=8 -n 1000",
                "ib_send_bw -Q 1 -n 500",
                "ib_write_bw --perform_warm_up -n 500",
                "ib_write_bw --tclass=96 -n 500",
                "ib_send_bw -S 3 -n 500",
            ],
        ));
    }

    lines
}

/// UC repeats nothing, and perftest waits for every message: those that are sent without an answer
/// fit into a socket's receive buffer together, as a receiver may get no processor in the meantime.
/// The longer ones are answered, or written, which nobody counts.
fn uc(full: bool) -> Vec<String> {
    let mut lines = lines(
        "-c UC",
        &[
            "ib_send_bw -s 4096 -n 500",
            "ib_send_lat -s 65536 -n 100",
            "ib_write_bw -s 1048576 -n 50",
            "ib_write_lat -n 100",
            "ib_send_bw -D 1",
        ],
    );

    if full {
        lines.extend(self::lines(
            "-c UC",
            &[
                "ib_send_bw -n 500",
                "ib_send_bw -s 1048576 -n 50",
                "ib_send_bw -b -s 4096 -n 500",
                "ib_send_bw -e -s 4096 -n 500",
                "ib_send_bw -q 4 -s 4096 -n 200",
                "ib_send_bw -I 64 -s 64 -n 1000",
                "ib_send_bw -m 256 -s 10000 -n 200",
                "ib_send_bw --use_old_post_send -s 4096 -n 500",
                "ib_send_lat -e -n 200",
                "ib_send_lat -D 1",
                "ib_write_bw -a -n 20",
                "ib_write_bw -b -n 500",
                "ib_write_bw -q 8 -n 200",
                "ib_write_bw -D 1",
                "ib_write_bw -l 8 -s 64 -n 1000",
                "ib_write_bw --mr_per_qp -q 4 -n 200",
                "ib_write_bw -m 256 -s 10000 -n 200",
                "ib_send_lat -n 500",
                "ib_write_lat -s 65536 -n 100",
            ],
        ));
    }

    lines
}

fn ud(full: bool) -> Vec<String> {
    let mut lines = lines(
        "-c UD",
        &[
            "ib_send_bw -n 1000",
            "ib_send_lat -a -n 100 -C",
            "ib_send_bw -D 1",
        ],
    );

    lines.extend(self::lines(MULTICAST, &["ib_send_bw -n 500"]));
    if full {
        lines.extend(self::lines(
            "-c UD",
            &[
                "ib_send_bw -a -n 100",
                "ib_send_bw -b -n 500",
                "ib_send_bw -e -n 500",
                "ib_send_bw -q 4 -n 200",
                "ib_send_bw -q 16 -s 64 -n 200",
                "ib_send_bw -I 64 -s 64 -n 1000",
                "ib_send_bw -m 256 -n 500",
                "ib_send_bw -l 8 -n 1000",
                "ib_send_bw --use-srq -n 500",
                // Its shared queue takes the messages of one of four, so that it must not count
                // them.
                "ib_send_bw --use-srq -q 4 -D 1",
                "ib_send_bw --use_old_post_send -n 500",
                "ib_send_bw --mr_per_qp -q 4 -n 200",
                "ib_send_lat -n 1000",
                "ib_send_lat -e -n 200",
                "ib_send_lat --use-srq -n 200",
                "ib_send_lat -I 64 -s 64 -n 500",
                "ib_send_lat -D 1",
            ],
        ));

        lines.extend(self::lines(
            MULTICAST,
            &["ib_send_bw -a -n 100", "ib_send_bw -e -s 64 -n 500"],
        ));
    }

    lines
}

fn xrc(full: bool) -> Vec<String> {
    let mut lines = lines(
        "-c XRC",
        &[
            "ib_send_bw -n 1000",
            "ib_send_lat -n 500",
            "ib_write_bw -q 4 -n 500",
            "ib_read_bw -n 500",
            "ib_atomic_bw -n 500",
        ],
    );

    if full {
        lines.extend(self::lines(
            "-c XRC",
            &[
                "ib_send_bw -a -n 50",
                "ib_send_bw -b -n 500",
                "ib_send_bw -e -n 500",
                "ib_send_bw -q 4 -n 200",
                "ib_send_bw -D 1",
                "ib_send_bw -I 64 -s 64 -n 1000",
                "ib_send_lat -e -n 200",
                "ib_write_bw -s 1048576 -n 50",
                "ib_write_bw -b -n 500",
                "ib_write_lat -s 65536 -n 100",
                "ib_send_lat -s 65536 -n 100",
                "ib_read_bw -s 1048576 -n 50",
                "ib_read_bw -e -q 4 -n 200",
                "ib_read_lat -n 500",
                "ib_atomic_bw -A FETCH_AND_ADD -b -q 4 -n 200",
                "ib_atomic_bw -A CMP_AND_SWAP -e -n 200",
                "ib_atomic_lat -n 500",
            ],
        ));
    }

    lines
}

/// Each of `runs` with `options`.
fn lines(options: &str, runs: &[&str]) -> Vec<String> {
    runs.iter()
        .map(|run| match run.split_once(' ') {
            Some((tool, rest)) if !options.is_empty() => format!("{tool} {options} {rest}"),
            _ => (*run).to_owned(),
        })
        .collect()
}

fn pingpongs(place: Place) -> Vec<String> {
    let mtus = [256, 512, 1024, 2048, 4096]
        .into_iter()
        .filter(|mtu| *mtu <= place.path_mtu());
    let largest = place.path_mtu();
    let mut lines = Vec::new();
    for events in ["", " -e"] {
        for (size, count) in [(1, 500), (4096, 1000), (65_537, 200), (1 << 20, 20)] {
            lines.push(format!("ibv_uc_pingpong -c -s {size} -n {count}{events}"));
        }

        for mtu in mtus.clone() {
            lines.push(format!(
                "ibv_uc_pingpong -c -m {mtu} -s 10000 -n 200{events}"
            ));
            lines.push(format!(
                "ibv_xsrq_pingpong -m {mtu} -s 10000 -n 200{events}"
            ));
            lines.push(format!("ibv_ud_pingpong -c -s {mtu} -n 500{events}"));
        }

        lines.push(format!("ibv_ud_pingpong -c -s 1 -n 500{events}"));
        for (size, count) in [(1, 500), (65_537, 200), (1 << 20, 20)] {
            lines.push(format!(
                "ibv_xsrq_pingpong -m {largest} -s {size} -n {count}{events}"
            ));
        }
    }

    lines.push("ibv_uc_pingpong -c -r 2 -n 200".to_owned());
    lines.push("ibv_ud_pingpong -c -s 256 -r 2 -n 200".to_owned());
    lines
}
