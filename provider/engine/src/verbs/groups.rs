//! The multicast groups that queue pairs of this process are attached to.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::port::receiver::Receiver;
use crate::verbs::qp::Qp;

/// The attached queue pairs of one group.
#[derive(Default)]
pub(crate) struct Members(pub(crate) RwLock<Vec<Arc<Qp>>>);

impl Members {
    pub(crate) fn list(&self) -> RwLockReadGuard<'_, Vec<Arc<Qp>>> {
        self.0.read_recursive()
    }
}

/// One group.
pub(crate) struct Group {
    pub(crate) gid: [u8; 16],
    pub(crate) members: Arc<Members>,
    pub(crate) receivers: Vec<Arc<Receiver>>,
    /// Where the daemon sends copies to.
    pub(crate) ends: Vec<SocketAddr>,
}

/// The groups of a process.
#[derive(Default)]
pub(crate) struct Multicast(pub(crate) Mutex<Vec<Group>>);
