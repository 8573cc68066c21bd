//! Connections, threads, many queue pairs, the engine by itself, and memory.

use super::{Rule, Target, rule};

pub(super) const RULES: &[Rule] = &[
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
        "10,000 queue pairs in turn: WRITE 64 B",
        "turn_10k",
        Some(("turn_16", 1.0, "16 queue pairs")),
        Target::AtLeast(0.5),
    ),
    rule(
        "one device: 10,000 queue pairs in turn, 64 B",
        "alone_turn_10k",
        Some(("alone_turn_16", 1.0, "one device: 16 queue pairs")),
        Target::AtLeast(0.5),
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
