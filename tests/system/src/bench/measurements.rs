//! Which measurements there are.

use anyhow::Result;

use super::measure::Bench;

/// A measurement: key, unit and how it is taken.
pub(super) type Measurement = (&'static str, &'static str, fn(&Bench<'_>) -> Result<f64>);

/// All measurements but of memory: key, unit and how.
pub(super) const MEASUREMENTS: &[Measurement] = &[
    ("udp_64k", "Gb/s", |b| b.udp_bandwidth(64 << 10)),
    ("udp_1m", "Gb/s", |b| b.udp_bandwidth(1 << 20)),
    ("udp_8m", "Gb/s", |b| b.udp_bandwidth(8 << 20)),
    ("udp_32m", "Gb/s", |b| b.udp_bandwidth(32 << 20)),
    ("tcp_bandwidth", "Gb/s", |b| b.tcp_bandwidth("64K")),
    ("write_64k", "Gb/s", |b| b.bandwidth("ib_write_bw", 65_536)),
    ("write_1m", "Gb/s", |b| b.bandwidth("ib_write_bw", 1 << 20)),
    ("write_128_pairs", "Gb/s", |b| b.queue_pairs("128")),
    ("write_512_pairs", "Gb/s", |b| b.queue_pairs("512")),
    ("send_64k", "Gb/s", |b| b.bandwidth("ib_send_bw", 65_536)),
    ("send_1m", "Gb/s", |b| b.bandwidth("ib_send_bw", 1 << 20)),
    ("read_64k", "Gb/s", |b| b.bandwidth("ib_read_bw", 65_536)),
    ("read_1m", "Gb/s", |b| b.bandwidth("ib_read_bw", 1 << 20)),
    ("exs_64k", "Gb/s", |b| b.exs_bandwidth(65_536, &[])),
    ("exs_1m", "Gb/s", |b| b.exs_bandwidth(1 << 20, &[])),
    ("exs_1m_own", "Gb/s", |b| b.exs_bandwidth(1 << 20, &["-o"])),
    ("udp_latency", "us", |b| b.udp_latency(36)),
    ("tcp_latency", "us", |b| b.tcp_latency("2")),
    ("write_latency", "us", |b| b.latency("ib_write_lat", 2)),
    ("send_latency", "us", |b| b.latency("ib_send_lat", 2)),
    ("read_latency", "us", |b| b.latency("ib_read_lat", 2)),
    ("atomic_latency", "us", |b| b.latency("ib_atomic_lat", 8)),
    ("send_latency_64k", "us", |b| {
        b.latency("ib_send_lat", 65_536)
    }),
    ("write_latency_64k", "us", |b| {
        b.latency("ib_write_lat", 65_536)
    }),
    ("event_latency", "us", |b| {
        b.latency_by_events("ib_send_lat")
    }),
    ("udp_memory", "us", |b| b.udp_by_memory(96)),
    ("stream", "us", |b| b.riostream()),
    ("udp_rate", "M/s", |b| {
        Ok(b.udp_bytes(20, 64 << 10)? / 20.0 / 1e6)
    }),
    ("write_rate", "M/s", |b| b.message_rate("ib_write_bw")),
    ("send_rate", "M/s", |b| b.message_rate("ib_send_bw")),
    ("poll_write_64k", "Gb/s", |b| {
        b.by_poll()?.bandwidth("ib_write_bw", 65_536)
    }),
    ("poll_exs_64k", "Gb/s", |b| {
        b.by_poll()?.exs_bandwidth(65_536, &[])
    }),
    ("poll_write_latency", "us", |b| {
        b.by_poll()?.latency("ib_write_lat", 2)
    }),
    ("poll_event_latency", "us", |b| {
        b.by_poll()?.latency_by_events("ib_send_lat")
    }),
    ("word", "ns", |b| b.word(100_000)),
    ("copies_64k", "Gb/s", |b| b.copies("ring", 65_536)),
    ("copies_1m", "Gb/s", |b| b.copies("ring", 1 << 20)),
    ("copies_8m", "Gb/s", |b| b.copies("ring", 8 << 20)),
    ("copies_32m", "Gb/s", |b| b.copies("ring", 32 << 20)),
    ("kernel_64k", "Gb/s", |b| b.copies("kernel", 65_536)),
    ("kernel_1m", "Gb/s", |b| b.copies("kernel", 1 << 20)),
    ("alone_write_64k", "Gb/s", |b| {
        b.alone().bandwidth("ib_write_bw", 65_536)
    }),
    ("alone_write_1m", "Gb/s", |b| {
        b.alone().bandwidth("ib_write_bw", 1 << 20)
    }),
    ("alone_128_pairs", "Gb/s", |b| b.alone().queue_pairs("128")),
    ("alone_512_pairs", "Gb/s", |b| b.alone().queue_pairs("512")),
    ("alone_send_64k", "Gb/s", |b| {
        b.alone().bandwidth("ib_send_bw", 65_536)
    }),
    ("alone_read_64k", "Gb/s", |b| {
        b.alone().bandwidth("ib_read_bw", 65_536)
    }),
    ("alone_exs_1m", "Gb/s", |b| {
        b.alone().exs_bandwidth(1 << 20, &[])
    }),
    ("alone_write_latency", "us", |b| {
        b.alone().latency("ib_write_lat", 2)
    }),
    ("alone_send_latency", "us", |b| {
        b.alone().latency("ib_send_lat", 2)
    }),
    ("alone_read_latency", "us", |b| {
        b.alone().latency("ib_read_lat", 2)
    }),
    ("alone_send_latency_64k", "us", |b| {
        b.alone().latency("ib_send_lat", 65_536)
    }),
    ("alone_write_latency_64k", "us", |b| {
        b.alone().latency("ib_write_lat", 65_536)
    }),
    ("alone_stream", "us", |b| b.alone().riostream()),
    ("alone_write_rate", "M/s", |b| {
        b.alone().message_rate("ib_write_bw")
    }),
    ("alone_send_rate", "M/s", |b| {
        b.alone().message_rate("ib_send_bw")
    }),
    ("tcp_connection", "us", |b| b.tcp_connection()),
    ("cm_connection", "us", |b| {
        b.program("cm_time", "connection", "us per connection: ")
    }),
    ("cm_rate", "/s", |b| b.connection_rate()),
    ("cores_one_64k", "Gb/s", |b| {
        b.program("cores", "one_thread_64k", "Gb/s: ")
    }),
    ("cores_vector_64k", "Gb/s", |b| {
        b.program("cores", "one_vector_64k", "Gb/s: ")
    }),
    ("cores_vectors_64k", "Gb/s", |b| {
        b.program("cores", "two_vectors_64k", "Gb/s: ")
    }),
    ("cores_processes_64k", "Gb/s", |b| {
        b.program("cores", "two_processes_64k", "Gb/s: ")
    }),
    ("cores_one_2", "M/s", |b| {
        b.program("cores", "one_thread_2", "M/s: ")
    }),
    ("cores_vector_2", "M/s", |b| {
        b.program("cores", "one_vector_2", "M/s: ")
    }),
    ("cores_vectors_2", "M/s", |b| {
        b.program("cores", "two_vectors_2", "M/s: ")
    }),
    ("cores_processes_2", "M/s", |b| {
        b.program("cores", "two_processes_2", "M/s: ")
    }),
    ("turn_16", "k/s", |b| {
        b.program("in_turn", "pairs_16", "k/s: ")
    }),
    ("turn_10k", "k/s", |b| {
        b.program("in_turn", "pairs_10000", "k/s: ")
    }),
    ("alone_turn_16", "k/s", |b| {
        b.alone().program("in_turn", "pairs_16", "k/s: ")
    }),
    ("alone_turn_10k", "k/s", |b| {
        b.alone().program("in_turn", "pairs_10000", "k/s: ")
    }),
    ("engine_64", "ns", |b| b.engine(64)),
    ("engine_4k", "ns", |b| b.engine(4096)),
    ("engine_1m", "ns", |b| b.engine(1 << 20)),
];
