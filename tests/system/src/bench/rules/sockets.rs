//! Over sockets, as between machines.

use super::{PING, RATE, ROUND, Rule, Target, UDP, UDP_1M, rule};

const UDP_8M: Option<(&str, f64, &str)> = Some(("udp_8m", 1.0, "raw UDP, 8 MiB"));
const UDP_32M: Option<(&str, f64, &str)> = Some(("udp_32m", 1.0, "raw UDP, 32 MiB"));
const TCP: Option<(&str, f64, &str)> = Some(("tcp_bandwidth", 1.0, "TCP (qperf 64 KiB)"));
const WRITE_64K: Option<(&str, f64, &str)> = Some(("write_64k", 1.0, "ib_write_bw 64 KiB"));
const WRITE_1M: Option<(&str, f64, &str)> = Some(("write_1m", 1.0, "ib_write_bw 1 MiB"));

pub(super) const RULES: &[Rule] = &[
    rule(
        "raw UDP GSO/GRO, 4,096 B packets, 64 KiB of memory",
        "udp_64k",
        None,
        Target::None,
    ),
    rule("raw UDP, 1 MiB of memory", "udp_1m", UDP, Target::None),
    rule("raw UDP, 8 MiB of memory", "udp_8m", UDP, Target::None),
    rule("raw UDP, 32 MiB of memory", "udp_32m", UDP, Target::None),
    rule("TCP, qperf 64 KiB", "tcp_bandwidth", UDP, Target::None),
    rule("ib_write_bw 64 KiB", "write_64k", UDP, Target::AtLeast(0.9)),
    rule(
        "ib_write_bw 1 MiB",
        "write_1m",
        UDP_1M,
        Target::AtLeast(0.95),
    ),
    rule("ib_write_bw 64 KiB", "write_64k", TCP, Target::AtLeast(1.0)),
    rule("ib_write_bw 1 MiB", "write_1m", TCP, Target::AtLeast(1.0)),
    rule(
        "ib_write_bw 64 KiB, 128 queue pairs",
        "write_128_pairs",
        WRITE_64K,
        Target::AtLeast(0.8),
    ),
    rule(
        "ib_write_bw 64 KiB, 128 queue pairs",
        "write_128_pairs",
        UDP_8M,
        Target::None,
    ),
    rule(
        "ib_write_bw 64 KiB, 512 queue pairs",
        "write_512_pairs",
        WRITE_64K,
        Target::AtLeast(0.6),
    ),
    rule(
        "ib_write_bw 64 KiB, 512 queue pairs",
        "write_512_pairs",
        UDP_32M,
        Target::None,
    ),
    rule("ib_send_bw 64 KiB", "send_64k", UDP, Target::None),
    rule("ib_send_bw 1 MiB", "send_1m", UDP_1M, Target::None),
    rule("ib_read_bw 64 KiB", "read_64k", UDP, Target::None),
    rule("ib_read_bw 1 MiB", "read_1m", UDP_1M, Target::None),
    rule("exs_bw 64 KiB", "exs_64k", TCP, Target::AtLeast(1.0)),
    rule("exs_bw 1 MiB", "exs_1m", TCP, Target::AtLeast(1.0)),
    rule("exs_bw 64 KiB", "exs_64k", WRITE_64K, Target::AtLeast(0.85)),
    rule("exs_bw 1 MiB", "exs_1m", WRITE_1M, Target::AtLeast(0.9)),
    rule("exs_bw -o 1 MiB", "exs_1m_own", WRITE_1M, Target::None),
    rule(
        "raw UDP polled ping-pong, one way",
        "udp_latency",
        None,
        Target::None,
    ),
    rule("TCP, qperf 2 B, one way", "tcp_latency", PING, Target::None),
    rule(
        "ib_write_lat 2 B",
        "write_latency",
        PING,
        Target::AtMost(1.3),
    ),
    rule("ib_send_lat 2 B", "send_latency", PING, Target::AtMost(1.3)),
    rule("ib_read_lat 2 B", "read_latency", ROUND, Target::None),
    rule("ib_atomic_lat 8 B", "atomic_latency", ROUND, Target::None),
    rule("ib_send_lat 64 KiB", "send_latency_64k", None, Target::None),
    // Who spins on memory must not wait for a thread that takes packets in his stead.
    rule(
        "ib_write_lat 64 KiB",
        "write_latency_64k",
        Some(("send_latency_64k", 1.0, "ib_send_lat 64 KiB")),
        Target::AtMost(2.0),
    ),
    rule(
        "ib_send_lat -e 2 B, by events",
        "event_latency",
        PING,
        Target::None,
    ),
    rule(
        "raw UDP, ends look at memory, 96 B, the mean",
        "udp_memory",
        None,
        Target::None,
    ),
    rule(
        "riostream 64 B, a transfer, the mean",
        "stream",
        Some(("udp_memory", 1.0, "raw UDP, ends look at memory")),
        Target::None,
    ),
    rule(
        "raw UDP GSO/GRO, 20 B packets",
        "udp_rate",
        None,
        Target::None,
    ),
    rule(
        "ib_write_bw 2 B, messages",
        "write_rate",
        RATE,
        Target::None,
    ),
    rule("ib_send_bw 2 B, messages", "send_rate", RATE, Target::None),
    rule(
        "no io_uring: ib_write_bw 64 KiB",
        "poll_write_64k",
        WRITE_64K,
        Target::None,
    ),
    rule(
        "no io_uring: exs_bw 64 KiB",
        "poll_exs_64k",
        Some(("exs_64k", 1.0, "exs_bw 64 KiB")),
        Target::None,
    ),
    rule(
        "no io_uring: ib_write_lat 2 B",
        "poll_write_latency",
        Some(("write_latency", 1.0, "ib_write_lat 2 B")),
        Target::None,
    ),
    rule(
        "no io_uring: ib_send_lat -e 2 B",
        "poll_event_latency",
        Some(("event_latency", 1.0, "ib_send_lat -e 2 B")),
        Target::None,
    ),
];
