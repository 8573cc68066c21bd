//! Sharing between contexts: what `ibv_import_device(3)` and its companions find again.
//!
//! A context and its imports name the same domains, regions and device memory by their handles, as
//! the users of one kernel context do. All of it lives in this process, so an import is possible in
//! this process only.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::verbs::context::{Context, Domain, Pd};
use crate::verbs::dm::Dm;
use crate::verbs::handles::{Held, Kind};
use crate::verbs::mr::Mr;

impl Context {
    /// Whether `other` is this context or they come from one by import.
    pub(super) fn shares_with(&self, other: &Context) -> bool {
        Arc::ptr_eq(self.shared(), other.shared())
    }

    fn find<T: Held>(&self, kind: Kind, handle: u32) -> Result<Arc<T>> {
        let absent = Error::Missing("no object of this context has the handle");
        self.shared().find(kind, handle).ok_or(absent)
    }

    /// Another context with its own asynchronous events, in which the objects of this one can be
    /// imported.
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
        Ok(Pd::view(self, self.find::<Domain>(Kind::Domain, handle)?))
    }

    /// The device memory with this handle (`ENOENT`: there is none).
    pub fn import_dm(&self, handle: u32) -> Result<Arc<Dm>> {
        self.find(Kind::DeviceMemory, handle)
    }
}

impl Pd {
    /// The region with this handle (`ENOENT`: there is none; `EINVAL`: it is in another domain).
    pub fn import_mr(&self, handle: u32) -> Result<Arc<Mr>> {
        let mr = self.context().find::<Mr>(Kind::Region, handle)?;
        if !mr.is_of(self) {
            return Err(Error::Invalid("the region is in another protection domain"));
        }
        Ok(mr)
    }
}
