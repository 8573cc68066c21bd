//! Which objects are alive. Verbs of the control path look here before they follow a pointer, as
//! the kernel looks a handle up in its table: an object that was destroyed, a copy of its C
//! structure, or one whose handle was overwritten is `EINVAL`. The data path (posting, polling,
//! building requests) trusts its pointers to queues, as adapters' providers do, and compares the
//! handle that stands there with the object's own. What a request names is looked up: windows and
//! regions here, address handles in the engine's table, by where they lie.

use crate::guard::Errno;
use ferroce_cabi::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ah,
    Cq,
    Dm,
    Mr,
    Mw,
    Pd,
    Qp,
    Srq,
    Td,
    Xrcd,
}

/// A C structure that programs hold a pointer to.
pub(crate) trait Object {
    const KIND: Kind;

    /// The handle that stands in it now; 0 where the program sees none.
    fn handle(&self) -> u32 {
        0
    }
}

macro_rules! objects {
    ($($name:ident is $kind:ident $(with $handle:ident)?;)*) => {$(
        impl Object for $name {
            const KIND: Kind = Kind::$kind;
            $(fn handle(&self) -> u32 {
                self.$handle
            })?
        }
    )*};
}

objects! {
    ibv_ah is Ah with handle;
    ibv_cq is Cq with handle;
    ibv_dm is Dm with handle;
    ibv_mr is Mr with handle;
    ibv_mw is Mw with handle;
    ibv_pd is Pd with handle;
    ibv_qp is Qp with handle;
    ibv_srq is Srq with handle;
    ibv_td is Td;
    ibv_xrcd is Xrcd;
}

/// Kind and handle by address.
type Table = BTreeMap<usize, (Kind, u32)>;

static TABLE: Mutex<Table> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Held while the process forks: a child has no thread that would let go of it.
    static FORKING: RefCell<Option<MutexGuard<'static, Table>>> = const { RefCell::new(None) };
}

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before_fork() {
    let held = table();
    let _ = FORKING.try_with(|forking| *forking.borrow_mut() = Some(held));
}

extern "C" fn after_fork() {
    let _ = FORKING.try_with(|forking| forking.borrow_mut().take());
}

/// An object has been made and will be handed to the program.
///
/// # Safety
/// `object` is initialised.
pub(crate) unsafe fn enter<C: Object>(object: *mut C) -> *mut C {
    static AT_FORK: Once = Once::new();
    AT_FORK.call_once(|| {
        // SAFETY: the handlers take no argument and do not unwind.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    });
    // SAFETY: as the caller promises.
    let handle = unsafe { (*object).handle() };
    table().insert(object.addr(), (C::KIND, handle));
    object
}

/// An object is about to be freed.
pub(crate) fn leave<C: Object>(object: *mut C) {
    table().remove(&object.addr());
}

/// `EINVAL` unless this is an object of its kind with the handle that it was given.
pub(crate) fn check<C: Object>(object: *const C) -> Result<(), Errno> {
    let found = table().get(&object.addr()).copied();
    match found {
        // SAFETY: in the table, so it was made here and not freed.
        Some((kind, handle)) if kind == C::KIND && handle == unsafe { (*object).handle() } => {
            Ok(())
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_alive_and_unchanged_is_found() {
        let context = std::ptr::null_mut();
        let (mut pd, other) = (ibv_pd { context, handle: 7 }, ibv_pd { context, handle: 7 });
        let at = &raw mut pd;
        let refused = Err(Errno(libc::EINVAL));
        assert_eq!(check(at), refused);

        // SAFETY: initialised above.
        unsafe { enter(at) };
        assert_eq!(check(at), Ok(()));
        assert_eq!(check(&raw const other), refused);
        assert_eq!(check(at.cast::<ibv_td>()), refused);

        // SAFETY: the test's own.
        unsafe { (*at).handle = 8 };
        assert_eq!(check(at), refused);

        // SAFETY: the test's own.
        unsafe { (*at).handle = 7 };
        leave(at);
        assert_eq!(check(at), refused);
    }
}
