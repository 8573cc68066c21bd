//! The programs that tests run over a device: stock ones, C programs of ours, rdma-core's suite, Valgrind around them.

pub mod cprogram;
pub mod exs;
pub mod perftest;
pub mod stream;
pub mod suite;
pub mod valgrind;
