//! Sharing between contexts: what `ibv_import_device(3)` and its companions find again.
//!
//! A context and its imports name the same domains, regions and device memory by their handles, as the users of one kernel
//! context do. All of it lives in this process, so an import is possible in this process only.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::context::{Context, Domain, Pd};
use crate::dm::Dm;
use crate::error::{Error, Result};
use crate::mr::Mr;

/// The objects of a context and its imports, by handle. Those that ended are forgotten.
#[derive(Default)]
pub(crate) struct Shared {
    pds: Mutex<HashMap<u32, Weak<Domain>>>,
    mrs: Mutex<HashMap<u32, Weak<Mr>>>,
    dms: Mutex<HashMap<u32, Weak<Dm>>>,
}

impl Shared {
    pub(crate) fn add_pd(&self, handle: u32, pd: &Arc<Domain>) {
        self.pds.lock().insert(handle, Arc::downgrade(pd));
    }

    pub(crate) fn add_mr(&self, mr: &Arc<Mr>) {
        self.mrs.lock().insert(mr.handle(), Arc::downgrade(mr));
    }

    pub(crate) fn add_dm(&self, dm: &Arc<Dm>) {
        self.dms.lock().insert(dm.handle(), Arc::downgrade(dm));
    }

    pub(crate) fn forget_pd(&self, handle: u32) {
        self.pds.lock().remove(&handle);
    }

    pub(crate) fn forget_mr(&self, handle: u32) {
        self.mrs.lock().remove(&handle);
    }

    pub(crate) fn forget_dm(&self, handle: u32) {
        self.dms.lock().remove(&handle);
    }
}

fn find<T>(objects: &Mutex<HashMap<u32, Weak<T>>>, handle: u32) -> Result<Arc<T>> {
    let object = objects.lock().get(&handle).and_then(Weak::upgrade);
    object.ok_or(Error::Missing("no object of this context has the handle"))
}

impl Context {
    /// Whether `other` is this context or they come from one by import.
    pub(crate) fn shares_with(&self, other: &Context) -> bool {
        Arc::ptr_eq(self.shared(), other.shared())
    }

    /// Another context with its own asynchronous events, in which the objects of this one can be imported.
    ///
    /// `EOPNOTSUPP` in a child of the process that made it: the objects are the parent's.
    pub fn import(&self) -> Result<Arc<Context>> {
        if !self.hca().alive() {
            return Err(Error::Unsupported("objects of another process"));
        }
        Context::with(
            self.hca().clone(),
            self.shared().clone(),
            self.listing().clone(),
        )
    }

    /// The domain with this handle (`ENOENT`: there is none), as this context sees it.
    pub fn import_pd(self: &Arc<Self>, handle: u32) -> Result<Arc<Pd>> {
        Ok(Pd::view(self, find(&self.shared().pds, handle)?))
    }

    /// The device memory with this handle (`ENOENT`: there is none).
    pub fn import_dm(&self, handle: u32) -> Result<Arc<Dm>> {
        find(&self.shared().dms, handle)
    }
}

impl Pd {
    /// The region with this handle (`ENOENT`: there is none; `EINVAL`: it is in another domain).
    pub fn import_mr(&self, handle: u32) -> Result<Arc<Mr>> {
        let mr = find(&self.context().shared().mrs, handle)?;
        if !mr.is_of(self) {
            return Err(Error::Invalid("the region is in another protection domain"));
        }
        Ok(mr)
    }
}
