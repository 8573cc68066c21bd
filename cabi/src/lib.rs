//! The C interfaces that ferroce speaks, as `#[repr(C)]` types: the public `<infiniband/verbs.h>`,
//! rdma-core's private provider interface in all its versions, the part of the kernel's uverbs ABI
//! that the shim answers, and the kernel's rdma_cm, umad and RDMA netlink ABIs, which it carries to
//! ferroced.
//!
//! Names are C's. Nothing here has behaviour: no function is called, nothing is allocated, no
//! layout is guessed (`tests/layout` compiles the numbers of this crate against the installed
//! headers).
//!
//! Fields are in host byte order unless the field says `be`.

#![allow(non_camel_case_types, non_snake_case)]

pub mod attr;
pub mod device;
pub mod direct;
pub mod domain;
pub mod object;
pub mod pabi;
pub mod rdma_netlink;
pub mod sge;
pub mod tag_matching;
pub mod ucma;
pub mod ucma_frame;
pub mod umad;
pub mod uverbs;
pub mod wr;

pub use attr::*;
pub use device::*;
pub use domain::*;
pub use object::*;
pub use sge::*;
pub use tag_matching::*;
pub use wr::*;

/// A function slot that ferroce neither fills nor calls; only its place in the table matters.
pub type Op = Option<unsafe extern "C" fn()>;
