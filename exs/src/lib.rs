//! libexs: the Extended Sockets API (ES-API) with the UNH EXS extensions, over RDMA verbs.
//!
//! An ordinary RDMA application: it knows libibverbs and librdmacm and no device in particular.
//! `include/exs.h` is its interface, and `cargo xtask` links `libexs.so` from the archive that this
//! crate makes.
//!
//! From the inside out: `proto` is the protocol of a connection, without I/O; `verbs` are devices,
//! queue pairs and memory regions; `conn` brings the two together; `socket`, `listen` and `file`
//! are what an application sees; `api` is the C boundary. `progress` is the one thread that keeps
//! things going while the application does not wait.

mod abi;
#[cfg(test)]
mod abi_test;
mod api;
mod attention;
mod conn;
mod errno;
mod file;
mod library;
mod listen;
mod memory;
mod progress;
pub mod proto;
mod queue;
mod socket;
mod table;
mod timers;
mod verbs;
