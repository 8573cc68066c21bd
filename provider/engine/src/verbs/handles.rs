//! What a context and its imports find by handles.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The objects of a context and its imports, by handle, which no two of whatever kind share. Those
/// that ended are forgotten.
#[derive(Default)]
pub(crate) struct Handles(Mutex<HashMap<u32, Weak<dyn Any + Send + Sync>>>);

impl Handles {
    pub(crate) fn add<T: Any + Send + Sync>(&self, handle: u32, object: &Arc<T>) {
        let object: Weak<T> = Arc::downgrade(object);
        self.0.lock().insert(handle, object);
    }

    pub(crate) fn forget(&self, handle: u32) {
        self.0.lock().remove(&handle);
    }

    /// The object of that kind with this handle.
    pub(crate) fn find<T: Any + Send + Sync>(&self, handle: u32) -> Option<Arc<T>> {
        let object = self.0.lock().get(&handle).and_then(Weak::upgrade)?;
        object.downcast().ok()
    }
}
