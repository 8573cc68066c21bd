//! What a context and its imports have: found again by handles, and ended with the last of them.

use std::any::Any;
use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The kinds of objects, in the order in which they end with their context: none uses one of a kind
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    QueuePair,
    SharedQueue,
    CompletionQueue,
    Window,
    Region,
    DeviceMemory,
    AddressHandle,
    XrcDomain,
    Domain,
}

/// An object of a context.
pub(crate) trait Held: Any + Send + Sync {
    /// Ends it for the contexts that have `of`, whatever the program may still do with it.
    fn end(self: Arc<Self>, of: &Handles);
}

/// The objects of a context and its imports, by handle, of which no two of a kind share one. Those
/// that ended are forgotten.
#[derive(Default)]
pub(crate) struct Handles {
    objects: Mutex<HashMap<(Kind, u32), Weak<dyn Held>>>,
    /// Contexts that are open.
    contexts: AtomicU32,
}

impl Handles {
    pub(crate) fn add<T: Held>(&self, kind: Kind, handle: u32, object: &Arc<T>) {
        let object: Weak<T> = Arc::downgrade(object);
        self.objects.lock().insert((kind, handle), object);
    }

    pub(crate) fn forget(&self, kind: Kind, handle: u32) {
        self.objects.lock().remove(&(kind, handle));
    }

    /// The object of that kind with this handle.
    pub(crate) fn find<T: Held>(&self, kind: Kind, handle: u32) -> Option<Arc<T>> {
        let object = self.objects.lock().get(&(kind, handle))?.upgrade()?;
        let object: Arc<dyn Any + Send + Sync> = object;
        object.downcast().ok()
    }

    /// A context more has them.
    pub(super) fn opened(&self) {
        self.contexts.fetch_add(1, Ordering::Relaxed);
    }

    /// One less. With the last all objects end.
    pub(super) fn closed(&self) {
        if self.contexts.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let mut objects: Vec<_> = mem::take(&mut *self.objects.lock()).into_iter().collect();
        objects.sort_unstable_by_key(|((kind, _), _)| *kind);
        for (_, object) in objects {
            if let Some(object) = object.upgrade() {
                object.end(self);
            }
        }
    }
}
