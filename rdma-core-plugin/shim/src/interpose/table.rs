//! The names of the functions that the shim stands in front of: what [`stand_in`](crate::stand_in)
//! puts into the tables of libraries.

use libc::c_void;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the C library, and what stands in front of it: null until it is looked up.
struct Function {
    name: &'static CStr,
    ours: AtomicPtr<c_void>,
}

macro_rules! functions {
    ($table:ident: $($name:ident),* $(,)?) => {
        static $table: [Function; [$(stringify!($name)),*].len()] = [$(Function {
            name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a function name holds no NUL"),
            },
            ours: AtomicPtr::new(std::ptr::null_mut()),
        }),*];
    };
}

// All of them but libmlx5's.
functions! { ALL:
    access,
    eaccess,
    euidaccess,
    faccessat,
    chdir,
    stat,
    stat64,
    lstat,
    lstat64,
    fstatat,
    fstatat64,
    statx,
    __xstat,
    __xstat64,
    __lxstat,
    __lxstat64,
    __fxstatat,
    __fxstatat64,
    getxattr,
    lgetxattr,
    readlink,
    readlinkat,
    __readlink_chk,
    __readlinkat_chk,
    realpath,
    __realpath_chk,
    canonicalize_file_name,
    scandir,
    scandir64,
    fopen,
    fopen64,
    inotify_add_watch,
    open,
    open64,
    openat,
    openat64,
    __open_2,
    __open64_2,
    __openat_2,
    __openat64_2,
    creat,
    creat64,
    fstat,
    fstat64,
    __fxstat,
    __fxstat64,
    opendir,
    write,
    read,
    __read_chk,
    ioctl,
    getifaddrs,
    close,
    close_range,
    dup,
    dup2,
    dup3,
    fcntl,
    fcntl64,
    socket,
    bind,
    getsockname,
    getpeername,
    setsockopt,
    getsockopt,
    recvmsg,
    recvfrom,
    __recvfrom_chk,
}

// What the program itself calls of libmlx5.
functions! { OF_PROGRAMS: mlx5dv_query_device }

/// Looks all of them up in the shim itself. An address that is taken in the shim's own code would
/// be the C library's, whose functions have the same names and come first. `false`: one is missing.
pub(crate) fn look_up(shim: *mut c_void) -> bool {
    ALL.iter().chain(&OF_PROGRAMS).all(|function| {
        // SAFETY: a live handle and a NUL-terminated name.
        let ours = unsafe { libc::dlsym(shim, function.name.as_ptr()) };
        function.ours.store(ours, Ordering::Relaxed);
        !ours.is_null()
    })
}

/// What stands in front of a function of that name that a library calls.
pub(crate) fn of_libraries(name: &[u8]) -> Option<*mut c_void> {
    find(&ALL, name)
}

/// The same of what the program itself calls.
pub(crate) fn of_program(name: &[u8]) -> Option<*mut c_void> {
    find(&OF_PROGRAMS, name)
}

fn find(functions: &[Function], name: &[u8]) -> Option<*mut c_void> {
    let function = functions
        .iter()
        .find(|function| function.name.to_bytes() == name)?;
    let ours = function.ours.load(Ordering::Relaxed);
    (!ours.is_null()).then_some(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever adds a function to the shim adds it here.
    #[test]
    fn every_function_of_the_shim_is_listed() {
        let sources = [
            include_str!("../interpose.rs"),
            include_str!("copies.rs"),
            include_str!("mlx5.rs"),
            include_str!("reads.rs"),
            include_str!("sockets.rs"),
            include_str!("streams.rs"),
        ];
        // In the macros' lists, or written out.
        let declared = |line: &'static str| -> Option<&'static str> {
            let listed = line
                .strip_prefix("    fn ")
                .filter(|rest| rest.contains('@'));
            let written = line
                .split_once("extern \"C-unwind\" fn ")
                .map(|(_, rest)| rest);
            let name = listed.or(written)?.split('(').next()?;
            (!name.starts_with('$') && !name.starts_with("ferroce_")).then_some(name)
        };
        let mut declared: Vec<_> = sources
            .into_iter()
            .flat_map(str::lines)
            .filter_map(declared)
            .chain(["fcntl", "fcntl64"])
            .collect();
        let listed = ALL.iter().chain(&OF_PROGRAMS);
        let mut listed: Vec<_> = listed.filter_map(|f| f.name.to_str().ok()).collect();
        declared.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, declared);
    }
}
