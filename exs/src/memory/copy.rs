//! Copying from and to where the application says, which may be no memory: looking before touching.

use super::{Use, stack};
use crate::errno::{Errno, Result};

/// What memory is there in pieces of, or of whole ones of which.
const PAGE: usize = 4096;

/// Copies out of memory that may not be there: `EFAULT` instead of a fault; `ENOMEM` where there
/// is none for so much.
pub(crate) fn read_bytes(address: usize, length: usize) -> Result<Vec<u8>> {
    let mut bytes = zeroed(length)?;
    if stack::holds(address, length) {
        // SAFETY: the range is memory that is there.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), length) };
    } else if length > 0 {
        let local = iovec(bytes.as_mut_ptr() as usize, length);
        let remote = iovec(address, length);
        // SAFETY: the local range is ours; the kernel checks the other.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        // SAFETY: only where the kernel does not offer the check; then as any C function would.
        whole(read, length, || unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), length);
        })?;
    }
    Ok(bytes)
}

/// Memory of the library's own; a process that is short of it goes on.
pub(crate) fn zeroed(length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| Errno(libc::ENOMEM))?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// Copies a string without its end out of memory that may not be there; `ENAMETOOLONG` from `most`
/// bytes on.
pub(crate) fn read_string(address: usize, most: usize) -> Result<Vec<u8>> {
    let mut string = Vec::new();
    while string.len() < most {
        let at = address
            .checked_add(string.len())
            .ok_or(Errno(libc::EFAULT))?;
        // Not beyond a page: the string may end with it, and nothing come after it.
        let length = (PAGE - at % PAGE).min(most - string.len());
        let bytes = read_bytes(at, length)?;
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            string.extend_from_slice(&bytes[..end]);
            return Ok(string);
        }
        string.extend_from_slice(&bytes);
    }

    Err(Errno(libc::ENAMETOOLONG))
}

/// Copies into memory that may not be there, or not be writable.
pub(crate) fn write_bytes(address: usize, bytes: &[u8]) -> Result<()> {
    // SAFETY: the slice's own bytes.
    unsafe { write_from(address, bytes.as_ptr(), bytes.len()) }
}

/// The same from memory whose bytes need not all be set, as those of a structure with gaps.
///
/// # Safety
/// There are `length` bytes at `from`.
pub(crate) unsafe fn write_from(address: usize, from: *const u8, length: usize) -> Result<()> {
    if stack::holds(address, length) {
        // SAFETY: as the caller promises, and the range is memory that is there.
        unsafe { std::ptr::copy_nonoverlapping(from, address as *mut u8, length) };
        return Ok(());
    }
    if length == 0 {
        return Ok(());
    }
    let local = iovec(from as usize, length);
    let remote = iovec(address, length);
    // SAFETY: the local range is only read; the kernel checks the other.
    let written = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    // SAFETY: as above.
    whole(written, length, || unsafe {
        std::ptr::copy_nonoverlapping(from, address as *mut u8, length);
    })
}

/// Whether a range can be read, and for a receive written: `EFAULT` if not. Its bytes stay what
/// they are, and nobody else may be changing them: the range belongs to the call.
pub(crate) fn check(address: usize, length: usize, used: Use) -> Result<()> {
    // An empty message is nowhere.
    if length == 0 {
        return Ok(());
    }
    let last = address.checked_add(length - 1).ok_or(Errno(libc::EFAULT))?;
    if stack::holds(address, length) {
        return Ok(());
    }

    // One byte of each page.
    let places: Vec<usize> = std::iter::once(address)
        .chain((address / PAGE + 1..=last / PAGE).map(|page| page * PAGE))
        .collect();
    for places in places.chunks(64) {
        let mut bytes = [0_u8; 64];
        let remote: Vec<_> = places.iter().map(|place| iovec(*place, 1)).collect();
        let local = iovec(bytes.as_mut_ptr() as usize, places.len());
        let (pieces, process) = (remote.len() as libc::c_ulong, std::process::id() as i32);
        // SAFETY: the local range is ours; the kernel checks the others.
        let read =
            unsafe { libc::process_vm_readv(process, &local, 1, remote.as_ptr(), pieces, 0) };
        whole(read, places.len(), || ())?;
        if used == Use::Receive && read > 0 {
            // SAFETY: as above; the bytes are those that were there.
            let written =
                unsafe { libc::process_vm_writev(process, &local, 1, remote.as_ptr(), pieces, 0) };
            whole(written, places.len(), || ())?;
        }
    }

    Ok(())
}

fn iovec(base: usize, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: base as *mut _,
        iov_len: length,
    }
}

fn whole(done: isize, wanted: usize, otherwise: impl FnOnce()) -> Result<()> {
    match done {
        done if done == wanted as isize => Ok(()),
        -1 => match Errno::last() {
            // Sandboxes may forbid the call.
            Errno(libc::ENOSYS | libc::EPERM) => {
                otherwise();
                Ok(())
            }
            error => Err(error),
        },
        _ => Err(Errno(libc::EFAULT)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapped;
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_a_fault() {
        let bytes = [1_u8, 2, 3];
        assert_eq!(read_bytes(bytes.as_ptr() as usize, 3), Ok(vec![1, 2, 3]));
        assert_eq!(read_bytes(8, 3), Err(Errno(libc::EFAULT)));
        let mut place = [0_u8; 3];
        assert_eq!(write_bytes(place.as_mut_ptr() as usize, &bytes), Ok(()));
        assert_eq!(place, bytes);
        assert_eq!(write_bytes(16, &bytes), Err(Errno(libc::EFAULT)));
        let far = vec![b'x'; PAGE + 10];
        let text = [&far[..], b"\0rest"].concat();
        assert_eq!(
            read_string(text.as_ptr() as usize, text.len()),
            Ok(far.clone())
        );

        assert_eq!(
            read_string(text.as_ptr() as usize, PAGE),
            Err(Errno(libc::ENAMETOOLONG))
        );

        assert_eq!(read_string(8, PAGE), Err(Errno(libc::EFAULT)));

        // There, but not to be written.
        static CONSTANT: [u8; 3] = [0; 3];

        assert_eq!(
            write_bytes(CONSTANT.as_ptr() as usize, &bytes),
            Err(Errno(libc::EFAULT))
        );

        assert!(mapped(CONSTANT.as_ptr() as usize, 3));
        assert!(!mapped(4096, 3));
        let fault = Err(Errno(libc::EFAULT));
        let mut large = vec![7_u8; 300_000];
        assert_eq!(
            check(large.as_mut_ptr() as usize, 300_000, Use::Receive),
            Ok(())
        );

        assert!(large.iter().all(|byte| *byte == 7));
        assert_eq!(check(CONSTANT.as_ptr() as usize, 3, Use::Send), Ok(()));
        assert_eq!(check(CONSTANT.as_ptr() as usize, 3, Use::Receive), fault);
        assert_eq!(check(16, 3, Use::Send), fault);
        assert_eq!(check(16, 0, Use::Send), Ok(()));
        assert_eq!(check(usize::MAX - 2, 30, Use::Send), fault);
    }

    #[test]
    fn the_stack_is_memory_and_what_is_below_it_is_not() {
        let (bytes, mut place) = ([1_u8, 2, 3], [0_u8; 3]);
        let own = std::hint::black_box(&mut place).as_mut_ptr() as usize;
        assert!(stack::holds(own, 3));
        assert_eq!(check(own, 3, Use::Receive), Ok(()));
        assert_eq!(write_bytes(own, &bytes), Ok(()));
        assert_eq!(read_bytes(own, 3), Ok(vec![1, 2, 3]));
        assert_eq!(std::hint::black_box(place), bytes);

        // Another thread's, the heap's, below what is in use, beyond the end, and no range.
        assert!(
            !std::thread::spawn(move || stack::holds(own, 3))
                .join()
                .unwrap()
        );
        let heap = Box::new(1_u8);
        assert!(!stack::holds(std::ptr::from_ref(&*heap) as usize, 1));
        assert!(!stack::holds(own - (64 << 10), 1));
        assert!(!stack::holds(own, 1 << 30));
        assert!(!stack::holds(own, usize::MAX));
    }
}
