//! Between processes of one device, through memory.

use super::{PING, RATE, ROUND, Rule, Target, UDP, UDP_1M, rule};

const COPIES_64K: Option<(&str, f64, &str)> = Some(("copies_64k", 1.0, "two copies, 64 KiB"));
const COPIES_1M: Option<(&str, f64, &str)> = Some(("copies_1m", 1.0, "two copies, 1 MiB"));
const ALONE_64K: Option<(&str, f64, &str)> =
    Some(("alone_write_64k", 1.0, "one device: ib_write_bw 64 KiB"));
const KERNEL_64K: Option<(&str, f64, &str)> = Some(("kernel_64k", 1.0, "process_vm_writev 64 KiB"));
const KERNEL_1M: Option<(&str, f64, &str)> = Some(("kernel_1m", 1.0, "process_vm_writev 1 MiB"));

pub(super) const RULES: &[Rule] = &[
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
    rule(
        "two copies through a ring, 8 MiB",
        "copies_8m",
        COPIES_64K,
        Target::None,
    ),
    rule(
        "two copies through a ring, 32 MiB",
        "copies_32m",
        COPIES_64K,
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
        UDP_1M,
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
        "one device: ib_write_bw 64 KiB, 128 queue pairs",
        "alone_128_pairs",
        ALONE_64K,
        Target::AtLeast(0.8),
    ),
    rule(
        "one device: ib_write_bw 64 KiB, 128 queue pairs",
        "alone_128_pairs",
        Some(("copies_8m", 1.0, "two copies, 8 MiB")),
        Target::None,
    ),
    rule(
        "one device: ib_write_bw 64 KiB, 512 queue pairs",
        "alone_512_pairs",
        ALONE_64K,
        Target::AtLeast(0.6),
    ),
    rule(
        "one device: ib_write_bw 64 KiB, 512 queue pairs",
        "alone_512_pairs",
        Some(("copies_32m", 1.0, "two copies, 32 MiB")),
        Target::None,
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
        "one device: riostream 64 B, a transfer, the mean",
        "alone_stream",
        Some(("udp_memory", 1.0, "raw UDP, ends look at memory")),
        Target::None,
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
];
