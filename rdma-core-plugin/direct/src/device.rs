//! A device, by an open context.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::null_mut;

use ferroce_cabi::direct::{
    FERROCE_DV_CAPTURE_BOTH, FERROCE_DV_CAPTURE_VERBS, ferroce_direct, ferroce_dv_completion,
    ferroce_dv_device_attr,
};
use ferroce_cabi::{ibv_context, ibv_qp};

use crate::capture::{self, Capture};
use crate::failure::Failure;
use crate::faults::{self, Fault};
use crate::provider;

/// What the provider's answers about a context mean.
pub(crate) const WORDS: &[(c_int, &str)] = &[
    (
        libc::EINVAL,
        "the structure is NULL, or its size is less than that of comp_mask",
    ),
    (
        libc::EIO,
        "the device is the parent's of this process: open it anew",
    ),
    (libc::EBUSY, "a callback is set already, or being ended"),
    (
        libc::EDEADLK,
        "the callback cannot end itself: end it in another thread",
    ),
];

/// What a device says of itself.
///
/// # Safety
/// An open context, and its provider.
pub(crate) unsafe fn query(
    provider: &ferroce_direct,
    context: *mut ibv_context,
) -> Result<ferroce_dv_device_attr, Failure> {
    let mut attr = MaybeUninit::<ferroce_dv_device_attr>::zeroed();
    let size = size_of::<ferroce_dv_device_attr>();
    // SAFETY: as the caller promises; the place has that size.
    let answer = unsafe { (provider.query_device)(context, attr.as_mut_ptr(), size) };
    Failure::of(answer, WORDS)?;
    // SAFETY: plain integers, zeroed and then filled in.
    Ok(unsafe { attr.assume_init() })
}

/// The runtime directory of a device.
pub(crate) fn runtime_dir(attr: &ferroce_dv_device_attr) -> PathBuf {
    OsStr::from_bytes(text(&attr.runtime_dir).to_bytes()).into()
}

/// A text of a structure's. The provider ends each with NUL.
fn text(chars: &[std::ffi::c_char]) -> &CStr {
    // SAFETY: a character is a byte.
    let bytes = unsafe { std::slice::from_raw_parts(chars.as_ptr().cast::<u8>(), chars.len()) };
    CStr::from_bytes_until_nul(bytes).unwrap_or_default()
}

/// A ferroce device that the program has open.
#[derive(Debug)]
pub struct Device {
    context: *mut ibv_context,
}

impl Device {
    /// The device of a context: `struct ibv_context *` as any binding of libibverbs has it.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it is none of ferroce's; `EINVAL`: it is null.
    ///
    /// # Safety
    /// `context` is null, or is open and stays so for longer than this and all that is made of it.
    pub unsafe fn from_raw(context: *mut c_void) -> Result<Device, Failure> {
        let context = context.cast();
        // SAFETY: as the caller promises.
        unsafe { provider::of_context(context) }?;
        Ok(Device { context })
    }

    /// Whether a device of libibverbs' list (`struct ibv_device *`) is ferroce's.
    ///
    /// # Safety
    /// `device` is null, or of a list that was not freed.
    pub unsafe fn is_supported(device: *mut c_void) -> bool {
        // SAFETY: as the caller promises.
        unsafe { provider::of_device(device.cast()) }.is_some()
    }

    /// What it is, and what this process has counted.
    ///
    /// # Errors
    /// `EIO`: it is the parent's, in a forked child.
    pub fn query(&self) -> Result<ferroce_dv_device_attr, Failure> {
        // SAFETY: `from_raw` asks for an open context.
        unsafe { query(provider::of_context(self.context)?, self.context) }
    }

    /// The version of the provider.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub fn version(&self) -> Result<String, Failure> {
        Ok(text(&self.query()?.version).to_string_lossy().into_owned())
    }

    /// The runtime directory of its daemon.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub fn runtime_dir(&self) -> Result<PathBuf, Failure> {
        Ok(runtime_dir(&self.query()?))
    }

    /// Has something go wrong: the keys of one table `[[fault]]` of a scenario file, in TOML.
    ///
    /// # Errors
    /// As `ferroce_dv_fault_add(3)` has them.
    pub fn fault(&self, text: &str) -> Result<Fault, Failure> {
        // SAFETY: `from_raw` asks for an open context.
        let id = unsafe { faults::add(self.context, null_mut(), text) }?;
        Ok(Fault::new(self.context, id))
    }

    /// Captures what programs of the device send and receive, as pcapng. `verbs`: also what they
    /// post, and what completes; `both`: packets within the device where they were sent and where
    /// they came.
    ///
    /// # Errors
    /// As `ferroce_dv_capture_start(3)` has them.
    pub fn capture(
        &self,
        out: impl Into<OwnedFd>,
        verbs: bool,
        both: bool,
    ) -> Result<Capture, Failure> {
        // SAFETY: `from_raw` asks for an open context.
        unsafe { self.captured(null_mut(), out.into(), verbs, both) }
    }

    /// # Safety
    /// `qp` is null or one of its queue pairs.
    pub(crate) unsafe fn captured(
        &self,
        qp: *mut ibv_qp,
        out: OwnedFd,
        verbs: bool,
        both: bool,
    ) -> Result<Capture, Failure> {
        let verbs = if verbs { FERROCE_DV_CAPTURE_VERBS } else { 0 };
        let both = if both { FERROCE_DV_CAPTURE_BOTH } else { 0 };
        // SAFETY: `from_raw` asks for an open context, and the caller has promised the rest.
        unsafe { capture::start(self.context, qp, out, verbs | both) }
    }

    /// Has `call` called for each completion that the device makes for this context, in the order
    /// in which it makes them, by a thread of its own, until what is returned is dropped.
    ///
    /// # Errors
    /// `EBUSY`: there is a callback already.
    pub fn completions(
        &self,
        call: impl FnMut(&ferroce_dv_completion) + Send + 'static,
    ) -> Result<Completions, Failure> {
        let call: Box<Call> = Box::new(Box::new(call));
        let call = Box::into_raw(call);
        // SAFETY: `from_raw` asks for an open context; what is called outlives the callback.
        let set = unsafe { callback(self.context, Some(called), call.cast()) };
        if let Err(failure) = set {
            // SAFETY: made above, and nobody has it.
            drop(unsafe { Box::from_raw(call) });
            return Err(failure);
        }
        Ok(Completions {
            context: self.context,
            call,
        })
    }
}

/// What a program wants called.
type Call = Box<dyn FnMut(&ferroce_dv_completion) + Send>;

unsafe extern "C" fn called(completion: *const ferroce_dv_completion, call: *mut c_void) {
    // SAFETY: what `completions` has set, which lives until the callback has ended; one thread
    // alone calls.
    unsafe { (*call.cast::<Call>())(&*completion) }
}

/// Sets the callback of a context, or ends it.
///
/// # Safety
/// `context` is null or an open context; what `argument` points to lives until it is ended.
pub(crate) unsafe fn callback(
    context: *mut ibv_context,
    call: ferroce_cabi::direct::ferroce_dv_completion_fn,
    argument: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    let provider = unsafe { provider::of_context(context) }?;
    // SAFETY: likewise.
    let answer = unsafe { (provider.completion_callback)(context, call, argument) };
    Failure::of(answer, WORDS)
}

/// That completions are told. When this is dropped, what is called has been called for all
/// completions that there were, and is called no more.
pub struct Completions {
    context: *mut ibv_context,
    call: *mut Call,
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: `Device::from_raw` asks for a context that stays open.
        let ended = unsafe { callback(self.context, None, null_mut()) };
        // Within what is called it goes on, and keeps what it needs.
        if ended.is_ok() {
            // SAFETY: made by `Device::completions`; nobody calls it any more.
            drop(unsafe { Box::from_raw(self.call) });
        }
    }
}
