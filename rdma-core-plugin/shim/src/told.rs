//! Functions of the provider's, of which it tells the shim once it is loaded.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::transmute_copy;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of type `F`, or none yet. A provider stays, and so does what it has told.
pub(crate) struct Told<F>(AtomicPtr<c_void>, PhantomData<F>);

impl<F: Copy> Told<F> {
    const IS_POINTER: () = assert!(size_of::<F>() == size_of::<*mut c_void>());

    pub(crate) const fn nothing() -> Told<F> {
        let () = Self::IS_POINTER;
        Told(AtomicPtr::new(null_mut()), PhantomData)
    }

    pub(crate) fn tell(&self, function: F) {
        // SAFETY: `F` is a pointer's size.
        let address = unsafe { transmute_copy::<F, *mut c_void>(&function) };
        self.0.store(address, Ordering::Release);
    }

    #[inline]
    pub(crate) fn function(&self) -> Option<F> {
        let address = self.0.load(Ordering::Acquire);
        // SAFETY: what is not null was told, and is an `F`.
        (!address.is_null()).then(|| unsafe { transmute_copy::<*mut c_void, F>(&address) })
    }
}
