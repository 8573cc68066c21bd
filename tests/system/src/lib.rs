//! The tests of the whole: stock programs, unmodified, over devices that are brought up for it;
//! what they need, and what they are judged by. `cargo xtask` is the command.
//!
//! Traffic stays on loopback addresses and in namespaces made for the purpose; nothing else on the
//! machine is touched.

mod apt;
pub mod attack;
pub mod bench;
pub mod build;
pub mod cargo_tool;
pub mod chaos;
pub mod compare;
pub mod demo;
mod distro;
pub mod groups;
pub mod harness;
pub mod ibta_rxe;
pub mod install;
pub mod interop;
pub mod interrupt;
mod lab;
pub mod package;
pub mod packages;
pub mod pages;
pub mod portable;
mod programs;
pub mod run;

pub use lab::guest;
