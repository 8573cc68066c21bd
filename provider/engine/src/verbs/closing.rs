//! The end of what a program leaves to `ibv_close_device(3)`: queue pairs receive no more, nobody
//! reaches memory that was registered, and what was counted is given back, as where a kernel ends
//! all that a file of its had open.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::verbs::ah::Ah;
use crate::verbs::context::{Context, Domain};
use crate::verbs::cq::Cq;
use crate::verbs::dm::Dm;
use crate::verbs::handles::{Handles, Held};
use crate::verbs::mr::Mr;
use crate::verbs::mw::Mw;
use crate::verbs::qp::Qp;
use crate::verbs::srq::Srq;
use crate::verbs::xrc::Xrcd;

/// Why the end of an object cannot fail here: whatever uses it has ended before it.
macro_rules! held {
    ($($object:ty: $end:ident,)*) => {$(
        impl Held for $object {
            fn end(self: Arc<Self>, _of: &Handles) {
                if let Err(error) = <$object>::$end(&self) {
                    tracing::error!("left to ibv_close_device, and not ended: {error}");
                }
            }
        }
    )*};
}

held! {
    Srq: destroy,
    Cq: destroy,
    Mr: dereg,
    Dm: free,
    Xrcd: close,
}

impl Held for Mw {
    fn end(self: Arc<Self>, _of: &Handles) {
        self.dealloc();
    }
}

impl Held for Ah {
    fn end(self: Arc<Self>, _of: &Handles) {
        self.destroy();
    }
}

impl Held for Domain {
    fn end(self: Arc<Self>, _of: &Handles) {
        Domain::end(&self);
    }
}

impl Held for Qp {
    /// XRC targets that others have open stay for these.
    fn end(self: Arc<Self>, of: &Handles) {
        for (gid, lid) in self.groups_of() {
            let _ = self.detach_mcast(gid, lid);
        }
        for cookie in self.opened_by(|context| context.has(of)) {
            if let Err(error) = self.close(cookie) {
                tracing::error!("left to ibv_close_device, and not ended: {error}");
            }
        }
    }
}

impl Context {
    /// Ends the context for who has opened it. With the last of a context and its imports all ends
    /// that is still open; a child of the process that made it ends nothing.
    pub fn close(&self) {
        if !self.hca().is_inherited() && !self.closed.swap(true, Ordering::Relaxed) {
            self.shared().closed();
        }
    }

    fn has(&self, handles: &Handles) -> bool {
        std::ptr::eq(&raw const **self.shared(), handles)
    }
}

impl Drop for Context {
    /// One that could not be opened to its end is none that others wait for.
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hca::Hca;
    use crate::port::in_process::Faults;

    #[test]
    fn an_import_that_failed_keeps_nothing_open() {
        let [hca, _] = Hca::tied(Faults::default()).unwrap();
        let context = Context::open(hca.clone()).unwrap();
        let shared = context.shared().clone();
        let pd = context.alloc_pd().unwrap();
        let [kept, failed] = [(); 2].map(|()| {
            let listing = context.listing().clone();
            Context::with(hca.clone(), shared.clone(), listing).unwrap()
        });

        drop(failed);
        context.close();
        assert!(kept.import_pd(pd.handle()).is_ok());
        kept.close();
        assert!(kept.import_pd(pd.handle()).is_err());
    }
}
