//! Memory of the program: the keys that give access to it, and every access.

pub(crate) mod copies;
pub(crate) mod dm_use;
pub(crate) mod dmabuf;
#[cfg(target_arch = "x86_64")]
pub(crate) mod fault_mask;
pub(crate) mod guard;
pub(crate) mod keys;
pub(crate) mod paging;
pub(crate) mod persist;
pub(crate) mod piece;
pub(crate) mod shared;
pub(crate) mod window;
