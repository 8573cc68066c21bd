//! The disciplines of the race against rdma_rxe.

/// What is run.
pub(super) enum Run {
    /// Gb/s, of messages of so many bytes.
    Bandwidth(&'static str, usize),
    /// Microseconds, the median.
    Latency(&'static str, usize),
    /// Messages of 2 bytes in thousands a second.
    Rate(&'static str),
    /// Seconds of processor time that the whole guest spends for 10^9 bytes, the programs asleep in
    /// between.
    Processor,
    /// Connections made and ended a second.
    Connections,
    /// Microseconds of a transfer of 64 bytes that riostream makes: its ends look at memory until
    /// it has come, and call nothing.
    Riostream,
}

/// One discipline.
pub(super) struct Event {
    /// Its name in the JSON file.
    pub key: &'static str,
    /// Its name in the table.
    pub name: &'static str,
    /// What its figure is of.
    pub unit: &'static str,
    /// How the figure is taken.
    pub run: Run,
    /// Over the wire, or both ends on one device.
    pub wire: bool,
    /// How many times better ferroce is meant to be.
    pub aim: f64,
}

const fn event(key: &'static str, name: &'static str, run: Run) -> Event {
    let (unit, aim) = match run {
        Run::Bandwidth(_, size) if size >= 65_536 => ("Gb/s", 4.0),
        Run::Bandwidth(..) => ("Gb/s", 1.5),
        Run::Latency(..) => ("µs", 0.7),
        Run::Rate(_) => ("k/s", 1.5),
        Run::Processor => ("s/GB", 1.0),
        Run::Connections => ("/s", 1.0),
        Run::Riostream => ("µs", 1.0),
    };

    Event {
        key,
        name,
        unit,
        run,
        wire: true,
        aim,
    }
}

/// Where rdma_rxe hands its packets over within the kernel, ferroce in memory, and no UDP is
/// involved.
const fn on_one_device(key: &'static str, name: &'static str, run: Run) -> Event {
    Event {
        wire: false,
        ..event(key, name, run)
    }
}

use Run::{Bandwidth, Connections, Latency, Processor, Rate, Riostream};

pub(super) const EVENTS: &[Event] = &[
    event(
        "write_4k",
        "ib_write_bw 4 KiB",
        Bandwidth("ib_write_bw", 4096),
    ),
    event(
        "write_64k",
        "ib_write_bw 64 KiB",
        Bandwidth("ib_write_bw", 65_536),
    ),
    event(
        "write_1m",
        "ib_write_bw 1 MiB",
        Bandwidth("ib_write_bw", 1 << 20),
    ),
    event("send_4k", "ib_send_bw 4 KiB", Bandwidth("ib_send_bw", 4096)),
    event(
        "send_64k",
        "ib_send_bw 64 KiB",
        Bandwidth("ib_send_bw", 65_536),
    ),
    event(
        "send_1m",
        "ib_send_bw 1 MiB",
        Bandwidth("ib_send_bw", 1 << 20),
    ),
    event("read_4k", "ib_read_bw 4 KiB", Bandwidth("ib_read_bw", 4096)),
    event(
        "read_64k",
        "ib_read_bw 64 KiB",
        Bandwidth("ib_read_bw", 65_536),
    ),
    event(
        "read_1m",
        "ib_read_bw 1 MiB",
        Bandwidth("ib_read_bw", 1 << 20),
    ),
    event(
        "write_latency_2",
        "ib_write_lat 2 B",
        Latency("ib_write_lat", 2),
    ),
    event(
        "write_latency_4k",
        "ib_write_lat 4 KiB",
        Latency("ib_write_lat", 4096),
    ),
    event(
        "send_latency_2",
        "ib_send_lat 2 B",
        Latency("ib_send_lat", 2),
    ),
    event(
        "send_latency_4k",
        "ib_send_lat 4 KiB",
        Latency("ib_send_lat", 4096),
    ),
    event(
        "read_latency_2",
        "ib_read_lat 2 B",
        Latency("ib_read_lat", 2),
    ),
    event(
        "read_latency_4k",
        "ib_read_lat 4 KiB",
        Latency("ib_read_lat", 4096),
    ),
    event(
        "write_rate",
        "ib_write_bw 2 B, messages",
        Rate("ib_write_bw"),
    ),
    event("send_rate", "ib_send_bw 2 B, messages", Rate("ib_send_bw")),
    event(
        "processor",
        "processor time, ib_send_bw -e 64 KiB",
        Processor,
    ),
    event(
        "connections",
        "cmtime, connections made and ended",
        Connections,
    ),
    event("riostream", "riostream 64 B, a transfer", Riostream),
    on_one_device(
        "alone_write_4k",
        "one device: ib_write_bw 4 KiB",
        Bandwidth("ib_write_bw", 4096),
    ),
    on_one_device(
        "alone_write_64k",
        "one device: ib_write_bw 64 KiB",
        Bandwidth("ib_write_bw", 65_536),
    ),
    on_one_device(
        "alone_write_1m",
        "one device: ib_write_bw 1 MiB",
        Bandwidth("ib_write_bw", 1 << 20),
    ),
    on_one_device(
        "alone_send_64k",
        "one device: ib_send_bw 64 KiB",
        Bandwidth("ib_send_bw", 65_536),
    ),
    on_one_device(
        "alone_send_1m",
        "one device: ib_send_bw 1 MiB",
        Bandwidth("ib_send_bw", 1 << 20),
    ),
    on_one_device(
        "alone_read_64k",
        "one device: ib_read_bw 64 KiB",
        Bandwidth("ib_read_bw", 65_536),
    ),
    on_one_device(
        "alone_read_1m",
        "one device: ib_read_bw 1 MiB",
        Bandwidth("ib_read_bw", 1 << 20),
    ),
    on_one_device(
        "alone_write_latency_2",
        "one device: ib_write_lat 2 B",
        Latency("ib_write_lat", 2),
    ),
    on_one_device(
        "alone_write_latency_4k",
        "one device: ib_write_lat 4 KiB",
        Latency("ib_write_lat", 4096),
    ),
    on_one_device(
        "alone_send_latency_2",
        "one device: ib_send_lat 2 B",
        Latency("ib_send_lat", 2),
    ),
    on_one_device(
        "alone_read_latency_2",
        "one device: ib_read_lat 2 B",
        Latency("ib_read_lat", 2),
    ),
    on_one_device(
        "alone_riostream",
        "one device: riostream 64 B, a transfer",
        Riostream,
    ),
    on_one_device(
        "alone_write_rate",
        "one device: ib_write_bw 2 B, messages",
        Rate("ib_write_bw"),
    ),
    on_one_device(
        "alone_send_rate",
        "one device: ib_send_bw 2 B, messages",
        Rate("ib_send_bw"),
    ),
];
