//! Copying to where a program says, which may be no memory.

use super::errno;
use libc::{c_int, c_void, iovec};
use std::ptr::with_exposed_provenance_mut;

/// Bytes that memory is there or not there in, at least.
const PAGE: usize = 4096;

/// Copies to an address that a program has given, which may be none. The error is an errno:
/// `EFAULT`, or what forbids the system call, which takes longer than all else that is done for
/// most answers. So it is not made where the answer belongs on the caller's stack, as those of
/// librdmacm do, in the page that `frame_end` is in, the end of a variable of the calling thread.
///
/// # Safety
/// What lies at the address is overwritten. `frame_end` is what it is said to be.
pub(crate) unsafe fn copy_out(address: u64, bytes: &[u8], frame_end: usize) -> Result<(), c_int> {
    let is_there = usize::try_from(address)
        .ok()
        .filter(|at| is_beside(frame_end, *at, bytes.len()));
    if let Some(at) = is_there {
        let to = with_exposed_provenance_mut::<u8>(at);
        // SAFETY: beyond the variable, in a page of the stack that is in use.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        return Ok(());
    }

    // SAFETY: as the caller promises.
    unsafe { copy_checked(address, bytes) }
}

/// Whether a range begins at or above `frame_end`, and ends in its page. Stacks grow downwards.
fn is_beside(frame_end: usize, at: usize, len: usize) -> bool {
    let page_end = frame_end.next_multiple_of(PAGE);
    at >= frame_end && at <= page_end && len <= page_end - at
}

/// Has the kernel look whether there is memory.
///
/// # Safety
/// What lies at the address is overwritten.
unsafe fn copy_checked(address: u64, bytes: &[u8]) -> Result<(), c_int> {
    let (from, to) = (
        iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        },
        iovec {
            iov_base: address as *mut c_void,
            iov_len: bytes.len(),
        },
    );

    let (from, to) = (&raw const from, &raw const to);

    // SAFETY: the kernel checks the address in this process's own memory.
    let n = unsafe {
        let me = libc::syscall(libc::SYS_getpid);
        // As wide as the kernel takes them: nobody else widens what goes through `syscall`.
        let (one, flags) = (1usize, 0usize);
        libc::syscall(libc::SYS_process_vm_writev, me, from, one, to, one, flags)
    };

    match usize::try_from(n) {
        Ok(n) if n == bytes.len() => Ok(()),
        Ok(_) => Err(libc::EFAULT),
        Err(_) => Err(errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn only_the_rest_of_the_page_is_beside() {
        for at in [0x1000_0100, 0x1000_0ff0] {
            assert!(is_beside(0x1000_0100, at, 16));
        }
        assert!(!is_beside(0x1000_0100, 0x1000_00ff, 16));
        assert!(!is_beside(0x1000_0100, 0x1000_0ff1, 16));
        assert!(!is_beside(0x1000_0100, usize::MAX, 16));
        assert!(!is_beside(0x1000_0100, 0x1000_0200, usize::MAX));
        // Nothing is left of the page.
        assert!(!is_beside(0x1000_0000, 0x1000_0000, 1));
    }

    #[test]
    fn what_is_no_memory_is_told_and_the_stack_is_written() {
        #[repr(align(4096))]
        struct Page([u8; PAGE]);
        let mut page = Page([0; PAGE]);
        let start = page.0.as_mut_ptr().expose_provenance();

        // SAFETY: the page's own bytes, or nobody's.
        unsafe {
            assert_eq!(copy_out(start as u64 + 4000, b"near", start + 16), Ok(()));
            assert_eq!(copy_out(start as u64 + 8, b"far", start + 16), Ok(()));
            assert_eq!(copy_out(8, b"none", start + 16), Err(libc::EFAULT));
            assert_eq!(copy_out(u64::MAX, b"none", start + 16), Err(libc::EFAULT));
        }

        let page = black_box(page);
        assert_eq!(
            (&page.0[4000..4004], &page.0[8..11]),
            (&b"near"[..], &b"far"[..])
        );
    }
}
