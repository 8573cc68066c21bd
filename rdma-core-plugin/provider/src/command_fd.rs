//! Command descriptors: who has to close one, and which context of this process it belongs to.

use ferroce_engine::Context as EngineContext;
use libc::c_int;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// The command descriptor until libibverbs has it.
pub(crate) struct OwnedCommandFd(pub c_int);

impl OwnedCommandFd {
    /// For who closes it from now on.
    pub(crate) fn take(&mut self) -> c_int {
        std::mem::replace(&mut self.0, -1)
    }
}

impl Drop for OwnedCommandFd {
    fn drop(&mut self) {
        if self.0 >= 0 {
            // SAFETY: handed to us to close.
            unsafe { libc::close(self.0) };
        }
    }
}

/// The contexts of this process, by command descriptor.
static CONTEXTS: Mutex<Vec<(c_int, Weak<EngineContext>)>> = Mutex::new(Vec::new());

/// Remembers a context for imports.
pub(crate) fn opened(cmd_fd: c_int, engine: &Arc<EngineContext>) {
    CONTEXTS.lock().push((cmd_fd, Arc::downgrade(engine)));
}

/// Forgets the context of a command descriptor.
pub(crate) fn closed(cmd_fd: c_int) {
    CONTEXTS.lock().retain(|(fd, _)| *fd != cmd_fd);
}

/// The context of a command descriptor.
pub(crate) fn context(cmd_fd: c_int) -> Option<Arc<EngineContext>> {
    let contexts = CONTEXTS.lock();
    let of = contexts.iter().rev().find(|(fd, _)| *fd == cmd_fd);
    of.and_then(|(_, engine)| engine.upgrade())
}

/// The context whose command descriptor this is a duplicate of.
pub(crate) fn original(cmd_fd: c_int) -> Option<Arc<EngineContext>> {
    let contexts = CONTEXTS.lock();
    let (_, engine) = contexts.iter().find(|(fd, _)| same_file(*fd, cmd_fd))?;
    engine.upgrade()
}

/// Whether two descriptors are of one open file. Where the kernel does not say, they are taken for
/// different ones.
fn same_file(a: c_int, b: c_int) -> bool {
    const KCMP_FILE: libc::c_long = 0;
    // SAFETY: the calls touch no memory of ours.
    unsafe {
        let me = libc::c_long::from(libc::getpid());
        let (a, b) = (libc::c_long::from(a), libc::c_long::from(b));
        libc::syscall(libc::SYS_kcmp, me, me, KCMP_FILE, a, b) == 0
    }
}
