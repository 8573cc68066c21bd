//! The programs that tests run over a device: stock ones, C programs of ours, rdma-core's suite,
//! Valgrind around them.

pub(crate) mod cprogram;
pub(crate) mod exs;
pub(crate) mod hasty;
pub(crate) mod mckey;
pub(crate) mod perftest;
pub(crate) mod stream;
pub(crate) mod suite;
pub(crate) mod valgrind;
