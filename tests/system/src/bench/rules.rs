//! What is compared with what, and the targets.

/// What ratio is wanted.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// For information.
    None,
    AtLeast(f64),
    AtMost(f64),
}

/// Which figure is compared with which.
pub(super) struct Rule {
    pub name: &'static str,
    /// Of the figure.
    pub key: &'static str,
    /// The yardstick and how often it counts.
    pub against: Option<(&'static str, f64, &'static str)>,
    pub target: Target,
}

const UDP: Option<(&str, f64, &str)> = Some(("udp_bandwidth", 1.0, "raw UDP GSO/GRO"));
const TCP: Option<(&str, f64, &str)> = Some(("tcp_bandwidth", 1.0, "TCP (qperf 64 KiB)"));
const WRITE_64K: Option<(&str, f64, &str)> = Some(("write_64k", 1.0, "ib_write_bw 64 KiB"));
const WRITE_1M: Option<(&str, f64, &str)> = Some(("write_1m", 1.0, "ib_write_bw 1 MiB"));
const PING: Option<(&str, f64, &str)> = Some(("udp_latency", 1.0, "raw UDP ping-pong"));
const ROUND: Option<(&str, f64, &str)> = Some(("udp_latency", 2.0, "raw UDP round trip"));
const RATE: Option<(&str, f64, &str)> = Some(("udp_rate", 1.0, "raw UDP GSO/GRO, packets"));

const COPIES_64K: Option<(&str, f64, &str)> = Some(("copies_64k", 1.0, "two copies, 64 KiB"));
const COPIES_1M: Option<(&str, f64, &str)> = Some(("copies_1m", 1.0, "two copies, 1 MiB"));
const KERNEL_64K: Option<(&str, f64, &str)> = Some(("kernel_64k", 1.0, "process_vm_writev 64 KiB"));
const KERNEL_1M: Option<(&str, f64, &str)> = Some(("kernel_1m", 1.0, "process_vm_writev 1 MiB"));

pub(super) const RULES: &[Rule] = &[
    rule(
        "raw UDP GSO/GRO, 4,096 B packets",
        "udp_bandwidth",
        None,
        Target::None,
    ),
    rule("TCP, qperf 64 KiB", "tcp_bandwidth", UDP, Target::None),
    rule("ib_write_bw 64 KiB", "write_64k", UDP, Target::AtLeast(0.9)),
    rule("ib_write_bw 1 MiB", "write_1m", UDP, Target::AtLeast(0.95)),
    rule("ib_write_bw 64 KiB", "write_64k", TCP, Target::AtLeast(1.0)),
    rule("ib_write_bw 1 MiB", "write_1m", TCP, Target::AtLeast(1.0)),
    rule("ib_send_bw 64 KiB", "send_64k", UDP, Target::None),
    rule("ib_send_bw 1 MiB", "send_1m", UDP, Target::None),
    rule("ib_read_bw 64 KiB", "read_64k", UDP, Target::None),
    rule("ib_read_bw 1 MiB", "read_1m", UDP, Target::None),
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
    rule(
        "a word of memory, there and back",
        "word",
        None,
        Target::None,
    ),
    rule(
        "two copies through a ring, 64 KiB",
        "copies_64k",
        None,
        Target::None,
    ),
    rule(
        "two copies through a ring, 1 MiB",
        "copies_1m",
        None,
        Target::None,
    ),
    rule("process_vm_writev 64 KiB", "kernel_64k", None, Target::None),
    rule("process_vm_writev 1 MiB", "kernel_1m", None, Target::None),
    rule(
        "one device: ib_write_bw 64 KiB",
        "alone_write_64k",
        UDP,
        Target::None,
    ),
    rule(
        "one device: ib_write_bw 64 KiB",
        "alone_write_64k",
        COPIES_64K,
        Target::None,
    ),
    rule(
        "one device: ib_write_bw 64 KiB",
        "alone_write_64k",
        KERNEL_64K,
        Target::AtLeast(0.9),
    ),
    rule(
        "one device: ib_write_bw 1 MiB",
        "alone_write_1m",
        UDP,
        Target::None,
    ),
    rule(
        "one device: ib_write_bw 1 MiB",
        "alone_write_1m",
        COPIES_1M,
        Target::None,
    ),
    rule(
        "one device: ib_write_bw 1 MiB",
        "alone_write_1m",
        KERNEL_1M,
        Target::AtLeast(0.9),
    ),
    rule(
        "one device: ib_send_bw 64 KiB",
        "alone_send_64k",
        UDP,
        Target::None,
    ),
    rule(
        "one device: ib_read_bw 64 KiB",
        "alone_read_64k",
        UDP,
        Target::None,
    ),
    rule(
        "one device: exs_bw 1 MiB",
        "alone_exs_1m",
        Some(("alone_write_1m", 1.0, "one device: ib_write_bw 1 MiB")),
        Target::None,
    ),
    rule(
        "one device: ib_write_lat 2 B",
        "alone_write_latency",
        PING,
        Target::None,
    ),
    rule(
        "one device: ib_send_lat 2 B",
        "alone_send_latency",
        PING,
        Target::None,
    ),
    rule(
        "one device: ib_read_lat 2 B",
        "alone_read_latency",
        ROUND,
        Target::None,
    ),
    rule(
        "one device: ib_send_lat 64 KiB",
        "alone_send_latency_64k",
        None,
        Target::None,
    ),
    rule(
        "one device: ib_write_lat 64 KiB",
        "alone_write_latency_64k",
        Some((
            "alone_send_latency_64k",
            1.0,
            "one device: ib_send_lat 64 KiB",
        )),
        Target::AtMost(2.0),
    ),
    rule(
        "one device: ib_write_bw 2 B, messages",
        "alone_write_rate",
        RATE,
        Target::None,
    ),
    rule(
        "one device: ib_send_bw 2 B, messages",
        "alone_send_rate",
        RATE,
        Target::None,
    ),
    rule(
        "TCP, one connection on loopback",
        "tcp_connection",
        None,
        Target::None,
    ),
    rule(
        "rdma_connect, one connection",
        "cm_connection",
        Some(("tcp_connection", 1.0, "TCP connect and accept")),
        Target::AtMost(2.0),
    ),
    rule(
        "cmtime, 2,000 connections made and ended",
        "cm_rate",
        Some(("", 5_000.0, "5,000 a second")),
        Target::AtLeast(1.0),
    ),
    rule(
        "two threads, two vectors: WRITE 64 KiB",
        "cores_vectors_64k",
        Some(("cores_processes_64k", 1.0, "two processes")),
        Target::AtLeast(0.9),
    ),
    rule(
        "two threads, two vectors: WRITE 64 KiB",
        "cores_vectors_64k",
        Some(("cores_one_64k", 1.0, "one thread")),
        Target::None,
    ),
    rule(
        "two threads, one vector: WRITE 64 KiB",
        "cores_vector_64k",
        Some(("cores_one_64k", 1.0, "one thread")),
        Target::None,
    ),
    rule(
        "two threads, two vectors: WRITE 2 B",
        "cores_vectors_2",
        Some(("cores_processes_2", 1.0, "two processes")),
        Target::AtLeast(0.9),
    ),
    rule(
        "two threads, two vectors: WRITE 2 B",
        "cores_vectors_2",
        Some(("cores_one_2", 1.0, "one thread")),
        Target::None,
    ),
    rule(
        "two threads, one vector: WRITE 2 B",
        "cores_vector_2",
        Some(("cores_one_2", 1.0, "one thread")),
        Target::None,
    ),
    rule(
        "engine alone: WRITE 64 B, a packet",
        "engine_64",
        None,
        Target::None,
    ),
    rule(
        "engine alone: WRITE 4 KiB, a packet",
        "engine_4k",
        None,
        Target::None,
    ),
    rule(
        "engine alone: WRITE 1 MiB, a packet",
        "engine_1m",
        None,
        Target::None,
    ),
    rule(
        "memory of an idle RC QP",
        "idle_qp_memory",
        Some(("", 16_384.0, "16 KiB")),
        Target::AtMost(1.0),
    ),
];

const fn rule(
    name: &'static str,
    key: &'static str,
    against: Option<(&'static str, f64, &'static str)>,
    target: Target,
) -> Rule {
    Rule {
        name,
        key,
        against,
        target,
    }
}
