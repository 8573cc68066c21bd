//! Which paths belong to the image, and what they become.

use libc::c_char;
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, Ordering};

/// Longest path that the kernel takes, with its end.
const PATH_MAX: usize = libc::PATH_MAX as usize;
/// Room for the runtime directory; what follows in a path must fit too.
const DIRECTORY_MAX: usize = PATH_MAX / 2;

const UNKNOWN: u8 = 0;
const LOCATING: u8 = 1;
const ABSENT: u8 = 2;
const PRESENT: u8 = 3;

/// The runtime directory of this process.
pub(crate) struct Image {
    state: AtomicU8,
    directory: UnsafeCell<([u8; DIRECTORY_MAX], usize)>,
}

// SAFETY: the directory is written by the one thread that moved the state from UNKNOWN to LOCATING,
// and read only after the state has become PRESENT (release and acquire).
unsafe impl Sync for Image {}

/// The one image.
pub(crate) static IMAGE: Image = Image {
    state: AtomicU8::new(UNKNOWN),
    directory: UnsafeCell::new(([0; DIRECTORY_MAX], 0)),
};

impl Image {
    /// Reads `FERROCE_RUNTIME_DIR`, once.
    pub(crate) fn locate(&self) {
        if self
            .state
            .compare_exchange(UNKNOWN, LOCATING, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return;
        }

        // SAFETY: this thread alone is in LOCATING.
        let directory = unsafe { &mut *self.directory.get() };

        // SAFETY: a constant name; at load time no other thread changes the environment.
        let value = unsafe { libc::getenv(c"FERROCE_RUNTIME_DIR".as_ptr()) };
        let len = if value.is_null() {
            None
        } else {
            // SAFETY: getenv returns a NUL-terminated string.
            absolute(
                unsafe { CStr::from_ptr(value) }.to_bytes(),
                &mut directory.0,
            )
        };

        directory.1 = len.unwrap_or(0);
        self.state.store(
            if len.is_some() { PRESENT } else { ABSENT },
            Ordering::Release,
        );
    }

    /// Takes this directory in a process that has none by its environment. `false`: there is one
    /// already, or it is too long.
    pub(crate) fn settle(&self, path: &CStr) -> bool {
        let taken =
            self.state
                .compare_exchange(ABSENT, LOCATING, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }

        // SAFETY: this thread alone is in LOCATING.
        let directory = unsafe { &mut *self.directory.get() };
        let len = absolute(path.to_bytes(), &mut directory.0);
        directory.1 = len.unwrap_or(0);
        let state = if len.is_some() { PRESENT } else { ABSENT };
        self.state.store(state, Ordering::Release);
        len.is_some()
    }

    /// The runtime directory, if this process has one.
    pub(crate) fn directory(&self) -> Option<&[u8]> {
        if self.state.load(Ordering::Acquire) == UNKNOWN {
            self.locate();
        }
        if self.state.load(Ordering::Acquire) != PRESENT {
            return None;
        }
        // SAFETY: PRESENT is the last state; nothing writes any more.
        let (bytes, len) = unsafe { &*self.directory.get() };
        bytes.get(..*len)
    }
}

/// Puts the directory into the buffer, from the working directory if it is relative, without a
/// slash at its end.
fn absolute(value: &[u8], buffer: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    if value.first()? != &b'/' {
        // SAFETY: the buffer is writable for its length.
        if unsafe { libc::getcwd(buffer.as_mut_ptr().cast(), buffer.len()) }.is_null() {
            return None;
        }
        len = buffer.iter().position(|b| *b == 0)?;
        *buffer.get_mut(len)? = b'/';
        len += 1;
    }

    buffer
        .get_mut(len..len + value.len())?
        .copy_from_slice(value);
    len += value.len();
    while len > 0 && buffer.get(len - 1) == Some(&b'/') {
        len -= 1;
    }
    (len > 0).then_some(len)
}

/// Does the string start with `prefix`? Reads no byte after the string's end.
///
/// # Safety
/// `string` is NUL-terminated.
unsafe fn starts_with(string: *const c_char, prefix: &[u8]) -> bool {
    prefix.iter().enumerate().all(|(i, want)| {
        // SAFETY: all earlier bytes equalled non-zero ones, so the string is at least this long.
        unsafe { *string.add(i) as u8 == *want }
    })
}

/// Does this path belong to the image?
///
/// # Safety
/// `path` is null or NUL-terminated.
#[inline]
pub(crate) unsafe fn concerns(path: *const c_char) -> bool {
    // SAFETY: as the caller promises; the second byte is read only if the first is not the end.
    unsafe {
        if path.is_null() || *path as u8 != b'/' || !matches!(*path.add(1) as u8, b's' | b'd') {
            return false;
        }
        concerns_slowly(path)
    }
}

/// # Safety
/// `path` is NUL-terminated.
unsafe fn concerns_slowly(path: *const c_char) -> bool {
    let whole = |prefix: &[u8]| {
        // SAFETY: as the caller promises; after a match the string has at least one byte more, its
        // end.
        unsafe { starts_with(path, prefix) && matches!(*path.add(prefix.len()) as u8, 0 | b'/') }
    };
    // SAFETY: as the caller promises.
    let class = unsafe { starts_with(path, b"/sys/class/infiniband") };
    class
        || whole(b"/dev/infiniband")
        || whole(b"/sys/class/misc/rdma_cm")
        // Where the image's links lead, for programs that follow them by hand (`realpath` in
        // Python).
        || whole(b"/sys/devices/virtual/ferroce")
}

/// A path of the image, on the stack.
pub(crate) struct Rewritten(MaybeUninit<[u8; PATH_MAX]>);

impl Rewritten {
    /// Room for one.
    pub(crate) fn new() -> Self {
        Rewritten(MaybeUninit::uninit())
    }

    /// What a path that [`concerns`] us becomes: `path` itself where there is no image; null if the
    /// result is too long.
    ///
    /// # Safety
    /// `path` is NUL-terminated and outlives the result.
    pub(crate) unsafe fn path(&mut self, path: *const c_char) -> *const c_char {
        let Some(directory) = IMAGE.directory() else {
            return path;
        };
        // SAFETY: as the caller promises.
        let path = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
        join(directory, path, self.0.write([0; PATH_MAX]))
            .map_or(std::ptr::null(), <[u8]>::as_ptr)
            .cast()
    }
}

/// `directory` followed by `path` with its end.
fn join<'a>(directory: &[u8], path: &[u8], buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let len = directory.len() + path.len();
    buffer
        .get_mut(..directory.len())?
        .copy_from_slice(directory);
    buffer.get_mut(directory.len()..len)?.copy_from_slice(path);
    buffer.get(..len)
}

/// The number of `/dev/infiniband/uverbsN`, for a path that [`concerns`] us.
pub(crate) fn uverbs_number(path: &CStr) -> Option<u16> {
    device_number(path, b"/dev/infiniband/uverbs")
}

/// A file for management datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadFile {
    /// `/dev/infiniband/umadN`.
    Umad(u16),
    /// `/dev/infiniband/issmN`.
    Issm(u16),
}

/// Which file for management datagrams this is, if it is one.
pub(crate) fn mad_file(path: &CStr) -> Option<MadFile> {
    device_number(path, b"/dev/infiniband/umad")
        .map(MadFile::Umad)
        .or_else(|| device_number(path, b"/dev/infiniband/issm").map(MadFile::Issm))
}

/// The decimal number behind `prefix`, of at most four digits.
fn device_number(path: &CStr, prefix: &[u8]) -> Option<u16> {
    let digits = path.to_bytes().strip_prefix(prefix)?;
    if digits.is_empty() || digits.len() > 4 {
        return None;
    }
    digits.iter().try_fold(0u16, |n, d| {
        d.is_ascii_digit().then(|| n * 10 + u16::from(d - b'0'))
    })
}

/// Is this the connection manager's device file?
pub(crate) fn is_rdma_cm(path: &CStr) -> bool {
    path == c"/dev/infiniband/rdma_cm"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(path: &CStr) -> bool {
        // SAFETY: a C string.
        unsafe { concerns(path.as_ptr()) }
    }

    #[test]
    fn only_the_prefixes_of_rdma_are_ours() {
        for path in [
            c"/sys/class/infiniband",
            c"/sys/class/infiniband/",
            c"/sys/class/infiniband/ferroce0/ports/1/gids/0",
            c"/sys/class/infiniband_verbs/uverbs0/ibdev",
            c"/sys/class/infiniband_mad/abi_version",
            c"/sys/class/misc/rdma_cm",
            c"/sys/class/misc/rdma_cm/abi_version",
            c"/dev/infiniband",
            c"/dev/infiniband/uverbs0",
            c"/dev/infiniband/rdma_cm",
            c"/sys/devices/virtual/ferroce/ferroce0/net",
        ] {
            assert!(ours(path), "{path:?}");
        }

        for path in [
            c"",
            c"/",
            c"/s",
            c"/d",
            c"/sys",
            c"/sys/class",
            c"/sys/class/net",
            c"/sys/class/infiniban",
            c"/sys/class/misc/rdma_cma",
            c"/dev/null",
            c"/sys/devices/virtual/net/lo",
            c"/dev/infinibandit",
            c"sys/class/infiniband",
            c"//sys/class/infiniband",
            c"/etc/passwd",
        ] {
            assert!(!ours(path), "{path:?}");
        }

        // SAFETY: null is allowed.
        assert!(!unsafe { concerns(std::ptr::null()) });
    }

    #[test]
    fn a_path_is_joined_to_the_directory_or_refused() {
        let mut buffer = [0; 32];
        assert_eq!(
            join(b"/run/x", b"/dev/y\0", &mut buffer),
            Some(&b"/run/x/dev/y\0"[..])
        );
        assert_eq!(
            join(&[b'a'; 30], b"b\0", &mut buffer).map(<[u8]>::len),
            Some(32)
        );
        assert_eq!(join(&[b'a'; 31], b"b\0", &mut buffer), None);
        assert_eq!(join(&[b'a'; 99], b"b\0", &mut buffer), None);
    }

    #[test]
    fn the_directory_is_made_absolute() {
        let mut buffer = [0; DIRECTORY_MAX];
        let len = absolute(b"/run/ferroce//", &mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"/run/ferroce");
        let len = absolute(b"here/x", &mut buffer).unwrap();
        let want = std::env::current_dir().unwrap().join("here/x");
        assert_eq!(&buffer[..len], want.as_os_str().as_encoded_bytes());
        assert_eq!(absolute(b"", &mut buffer), None);
        assert_eq!(absolute(b"/", &mut buffer), None);
        assert_eq!(absolute(&[b'/'; DIRECTORY_MAX + 1], &mut buffer), None);
    }

    #[test]
    fn device_files_have_a_number() {
        assert_eq!(uverbs_number(c"/dev/infiniband/uverbs0"), Some(0));
        assert_eq!(uverbs_number(c"/dev/infiniband/uverbs4095"), Some(4095));

        for path in [
            c"/dev/infiniband/uverbs",
            c"/dev/infiniband/uverbs0/x",
            c"/dev/infiniband/uverbs12345",
            c"/dev/infiniband/uverbs-1",
            c"/dev/infiniband/umad0",
            c"/sys/class/infiniband/uverbs0",
        ] {
            assert_eq!(uverbs_number(path), None, "{path:?}");
        }

        assert_eq!(mad_file(c"/dev/infiniband/umad0"), Some(MadFile::Umad(0)));
        assert_eq!(mad_file(c"/dev/infiniband/issm12"), Some(MadFile::Issm(12)));
        assert_eq!(mad_file(c"/dev/infiniband/uverbs0"), None);
    }
}
