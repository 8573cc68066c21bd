//! The verbs of memory windows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_control::faults::Verb;

use crate::error::Result;
use crate::memory::keys;
use crate::memory::window::{MwType, Window};
use crate::verbs::context::Pd;
use crate::verbs::handles::Kind;

/// A memory window.
pub struct Mw {
    pd: Arc<Pd>,
    kind: MwType,
    index: u32,
    rkey: u32,
    gone: AtomicBool,
}

impl Mw {
    /// Its type.
    pub fn kind(&self) -> MwType {
        self.kind
    }

    /// The key that it had when it was made. Binds change the lower 8 bits.
    pub fn first_rkey(&self) -> u32 {
        self.rkey
    }

    /// What binds name it by: the upper 24 bits of all its keys.
    pub fn handle(&self) -> u32 {
        self.index
    }

    /// Its protection domain.
    pub fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Ends the window, bound or not. When it returns, nobody has access through it any more.
    pub fn dealloc(&self) {
        if !self.gone.swap(true, Ordering::Relaxed) {
            let hca = self.pd.context().hca();
            // Its number may be another's as soon as it is out of the table.
            let shared = self.pd.context().shared();
            shared.forget(Kind::Window, self.index);
            hca.keys.write().remove_window(self.index);
            self.pd.remove_user();
        }
    }
}

impl Pd {
    /// Makes a memory window that is not bound (`ENOMEM` beyond the device's `max_mw`).
    pub fn alloc_mw(self: &Arc<Self>, kind: MwType) -> Result<Arc<Mw>> {
        self.context().hca().allows(Verb::AllocMw)?;
        let rkey = self
            .context()
            .hca()
            .keys
            .write()
            .insert_window(|rkey| Window::new(kind, self.handle(), rkey))?;
        self.add_user();
        let mw = Arc::new(Mw {
            pd: self.clone(),
            kind,
            index: keys::index(rkey),
            rkey,
            gone: AtomicBool::new(false),
        });
        self.context().shared().add(Kind::Window, mw.index, &mw);
        Ok(mw)
    }
}
