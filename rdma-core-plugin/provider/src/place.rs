//! Where the objects lie that C code holds: on the heap, or in memory from the allocators of a
//! parent domain (`ibv_alloc_parent_domain(3)`).

use crate::allocators::{Allocators, Resource};
use crate::guard::Errno;
use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// Gives memory back to who gave it.
type Release = Box<dyn FnOnce(NonNull<u8>)>;

/// An object, with its way back behind it: C sees the head only.
#[repr(C)]
struct Placed<T> {
    object: T,
    /// `None`: from the heap.
    release: Option<Release>,
}

/// Memory for one object that is not there yet.
pub(crate) struct Place<T> {
    at: NonNull<Placed<T>>,
    release: Option<Release>,
}

impl<T> Place<T> {
    /// Asks the allocators, if there are any, and else the heap. `ENOMEM` where the program's
    /// allocator has none.
    pub(crate) fn new(
        allocators: Option<&Arc<Allocators>>,
        resource: Resource,
    ) -> Result<Place<T>, Errno> {
        let layout = Layout::new::<Placed<T>>();
        if let Some(allocators) = allocators
            && let Some(memory) = allocators.allocate(layout, resource)?
        {
            let allocators = allocators.clone();
            return Ok(Place {
                at: memory.cast(),
                release: Some(Box::new(move |start| allocators.release(start, resource))),
            });
        }
        let at = NonNull::from(Box::leak(Box::<Placed<T>>::new_uninit())).cast();
        Ok(Place { at, release: None })
    }

    /// The address that the object will have.
    pub(crate) fn address(&self) -> u64 {
        self.at.as_ptr() as u64
    }

    /// Puts the object there.
    pub(crate) fn write(mut self, object: T) -> *mut T {
        let release = self.release.take();
        let at = self.at.as_ptr();
        // It is the object's memory from here on.
        std::mem::forget(self);
        // SAFETY: memory of that layout which nobody else uses.
        unsafe { at.write(Placed { object, release }) };
        at.cast()
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and no object is in it.
        unsafe { free(self.at, self.release.take()) };
    }
}

/// Ends an object.
///
/// # Safety
/// It came from [`Place::write`], and nobody refers to it any more.
pub(crate) unsafe fn destroy<T>(object: *mut T) {
    // SAFETY: as the caller promises; an object in a place is never null.
    unsafe {
        let at = NonNull::new_unchecked(object.cast::<Placed<T>>());
        let Placed { object, release } = at.read();
        drop(object);
        free(at, release);
    }
}

/// # Safety
/// `at` came from `release`'s owner, or from the heap, and holds nothing.
unsafe fn free<T>(at: NonNull<Placed<T>>, release: Option<Release>) {
    if let Some(release) = release {
        return release(at.cast());
    }
    let empty: *mut MaybeUninit<Placed<T>> = at.as_ptr().cast();
    // SAFETY: a box of that type, leaked by `Place::new`.
    drop(unsafe { Box::from_raw(empty) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn an_object_on_the_heap_is_dropped_once() {
        let witness = Rc::new(());
        let place = Place::new(None, Resource::Qp).unwrap();
        let address = place.address();
        let object: *mut Rc<()> = place.write(witness.clone());
        assert_eq!((object as u64, Rc::strong_count(&witness)), (address, 2));
        // SAFETY: written just now.
        unsafe { destroy(object) };
        assert_eq!(Rc::strong_count(&witness), 1);
        drop(Place::<Rc<()>>::new(None, Resource::Qp).unwrap());
    }
}
