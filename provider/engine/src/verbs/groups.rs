//! The multicast groups that queue pairs of this process are attached to.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::port::receiver::Receiver;

/// The attached queue pairs of one group.
pub(crate) struct Members<Q>(pub(crate) RwLock<Vec<Arc<Q>>>);

impl<Q> Members<Q> {
    pub(crate) fn list(&self) -> RwLockReadGuard<'_, Vec<Arc<Q>>> {
        self.0.read_recursive()
    }
}

impl<Q> Default for Members<Q> {
    fn default() -> Self {
        Members(RwLock::default())
    }
}

/// One group.
pub(crate) struct Group<Q> {
    pub(crate) gid: [u8; 16],
    pub(crate) members: Arc<Members<Q>>,
    pub(crate) receivers: Vec<Arc<Receiver<Q>>>,
    /// By which the sockets have joined, over Ethernet.
    pub(crate) interfaces: Vec<u32>,
    /// Where the daemon sends copies to.
    pub(crate) ends: Vec<SocketAddr>,
}

/// The groups of a process.
pub(crate) struct Multicast<Q>(pub(crate) Mutex<Vec<Group<Q>>>);

impl<Q> Default for Multicast<Q> {
    fn default() -> Self {
        Multicast(Mutex::default())
    }
}
