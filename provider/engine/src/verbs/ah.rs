//! Address handles: where datagrams go, resolved when they are made and found again by the number
//! that a work request carries.
//!
//! A datagram's path depends on its destination queue pair too (see `path`), so a handle keeps one
//! for each lane that sends by it and each slot that it was used for. Nothing is sent from here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_control::faults::Verb;
use ferroce_transport::AddressVector;
use parking_lot::RwLock;

use crate::datapath::path::Path;
use crate::error::Result;
use crate::hca::Hca;
use crate::verbs::ah_table::Target;
use crate::verbs::context::Pd;
use crate::verbs::handles::Kind;
use crate::verbs::route::Route;

/// An address handle.
pub struct Ah {
    pd: Arc<Pd>,
    av: AddressVector,
    handle: u32,
    cookie: u32,
    gone: AtomicBool,
}

impl Pd {
    /// Creates an address handle; the source GID must exist and be of the destination's family, and
    /// the host must have a route there (ENETUNREACH, EHOSTUNREACH).
    /// Work requests that name it must show the same cookie.
    pub fn create_ah(self: &Arc<Self>, av: &AddressVector, cookie: u32) -> Result<Arc<Ah>> {
        Ah::create(self, av, cookie)
    }
}

impl Ah {
    pub(crate) fn create(pd: &Arc<Pd>, av: &AddressVector, cookie: u32) -> Result<Arc<Ah>> {
        let hca = pd.context().hca();
        hca.allows(Verb::CreateAh)?;

        // Without a GRH it is the LID that leads somewhere, and 0 is what the port shows as its
        // own. Datagram rsockets make a handle to themselves so. RoCE has no such handles
        // otherwise, and programs test that.
        let to_itself = || av.dlid == 0 && has_datagrams(hca, pd);
        let route = Route::of_handle(hca, av, to_itself)?;
        hca.leads_somewhere(&route)?;
        let handle = hca.ahs.write().insert(Arc::new(Target {
            pd: pd.handle(),
            cookie,
            route,
            paths: RwLock::new(Vec::new()),
        }))?;

        pd.add_user();
        let ah = Arc::new(Ah {
            pd: pd.clone(),
            av: *av,
            handle,
            cookie,
            gone: AtomicBool::new(false),
        });
        let shared = pd.context().shared();
        shared.add(Kind::AddressHandle, handle, &ah);
        Ok(ah)
    }

    /// Where it leads.
    pub fn address_vector(&self) -> &AddressVector {
        &self.av
    }

    /// What work requests name it by ([`Datagram::ah`](crate::Datagram)). The number of a handle
    /// that has gone is not soon another's.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// What work requests show with the number ([`Datagram::cookie`](crate::Datagram)).
    pub fn cookie(&self) -> u32 {
        self.cookie
    }
}

impl Ah {
    pub(super) fn destroy(&self) {
        if self.gone.swap(true, Ordering::Relaxed) {
            return;
        }
        // What waits may go by it.
        let context = self.pd.context();
        for lane in context.hca().all_lanes() {
            lane.send_what_waits();
        }
        // Its number may be another's as soon as it is out of the table.
        context.shared().forget(Kind::AddressHandle, self.handle);
        context.hca().ahs.write().remove(self.handle);
        self.pd.remove_user();
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// Whether a protection domain has queue pairs that could be meant by a handle which leads back to
/// the port.
fn has_datagrams(hca: &Hca, pd: &Pd) -> bool {
    let qps = hca.qps.read();
    qps.iter()
        .any(|qp| qp.is_datagram() && qp.pd_handle() == pd.handle())
}

impl Target {
    /// The path from a lane to queue pairs of a slot.
    pub(crate) fn path(&self, hca: &Hca, slot: u8) -> Result<Arc<Path>> {
        let slot = self.route.slot(slot);
        let lane = hca.slot();
        let here =
            |path: &&Arc<Path>| path.from == lane && path.key.slot == slot && !path.is_stale();
        let known = |paths: &Vec<Arc<Path>>| paths.iter().find(here).cloned();
        if let Some(path) = known(&self.paths.read()) {
            return Ok(path);
        }
        let path = self.route.path(hca, slot)?;
        let mut paths = self.paths.write();
        Ok(known(&paths).unwrap_or_else(|| {
            paths.retain(|path| !path.is_stale());
            paths.push(path.clone());
            path
        }))
    }
}
