//! What requests of every queue have in common: scatter/gather lists, inline data, and lists of
//! receive requests.

use crate::guard::{Errno, Health, explain};
use ferroce_cabi::*;
use ferroce_engine::Sge;
use libc::c_int;
use std::mem::{MaybeUninit, align_of, offset_of, size_of};

// Scatter/gather lists are handed to the engine as they are.
const _: () = {
    assert!(size_of::<Sge>() == size_of::<ibv_sge>() && align_of::<Sge>() == align_of::<ibv_sge>());
    assert!(offset_of!(Sge, addr) == offset_of!(ibv_sge, addr));
    assert!(offset_of!(Sge, length) == offset_of!(ibv_sge, length));
    assert!(offset_of!(Sge, lkey) == offset_of!(ibv_sge, lkey));
};

/// Most bytes that any queue pair takes inline.
pub(crate) const INLINE_MAX: usize = 1024;

/// Elements of a list at an odd address: more than any queue takes.
const MOST: usize = 4096;

/// A C scatter/gather list. One at an odd address, as of a packed structure (libiscsi has them),
/// goes into `copy`.
///
/// # Safety
/// `list` has `count` elements, if it has as many as it may have.
pub(crate) unsafe fn sges(
    list: *const ibv_sge,
    count: usize,
    copy: &mut Vec<Sge>,
) -> Result<&[Sge], Errno> {
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno(libc::EINVAL));
    }
    if !list.is_aligned() {
        // SAFETY: as the caller promises.
        return unsafe { copied(list.cast(), count, copy) };
    }
    // SAFETY: as the caller promises; the layouts are equal (asserted above).
    Ok(unsafe { std::slice::from_raw_parts(list.cast(), count) })
}

/// # Safety
/// As of [`sges`].
#[cold]
unsafe fn copied(list: *const Sge, count: usize, copy: &mut Vec<Sge>) -> Result<&[Sge], Errno> {
    if count > MOST {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: as the caller promises; the layouts are equal (asserted above).
    copy.extend((0..count).map(|i| unsafe { list.add(i).read_unaligned() }));
    Ok(copy)
}

/// The bytes that an inline request names: where they are if they are in one piece, else gathered
/// into `buffer`.
///
/// # Safety
/// The elements name readable memory, as the consumer of inline data promises; keys are not looked
/// at.
pub(crate) unsafe fn gather<'a>(
    list: &[Sge],
    limit: usize,
    buffer: &'a mut [MaybeUninit<u8>; INLINE_MAX],
) -> Result<&'a [u8], Errno> {
    let total: usize = list.iter().map(|sge| sge.length as usize).sum();
    if total > limit.min(INLINE_MAX) {
        return Err(Errno(libc::EINVAL));
    }

    if let [one] = list
        && one.length != 0
    {
        // SAFETY: as the caller promises; the caller uses it before it returns.
        return Ok(unsafe { std::slice::from_raw_parts(one.addr as *const u8, total) });
    }

    let mut at = 0;
    for sge in list {
        let len = sge.length as usize;
        if len != 0 {
            // SAFETY: readable as the caller promises, and `at + len <= total <= INLINE_MAX`.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    sge.addr as *const u8,
                    buffer.as_mut_ptr().add(at).cast(),
                    len,
                );
            }
            at += len;
        }
    }

    // SAFETY: the first `at` bytes were written.
    Ok(unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), at) })
}

/// Posts a list of receive requests to a queue that `open` locks for the whole list.
///
/// # Safety
/// `wr` is a list that ends in null; `bad_wr` is null or writable.
pub(crate) unsafe fn receive_list<P>(
    health: &Health,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
    open: impl FnOnce() -> Result<P, Errno>,
) -> c_int
where
    P: FnMut(u64, &[Sge]) -> Result<(), ferroce_engine::Error>,
{
    let mut at = wr;
    let result = health.run(|| {
        let mut post = open()?;
        // SAFETY: as the caller promises.
        while let Some(wr) = unsafe { at.as_ref() } {
            let count = usize::try_from(wr.num_sge).map_err(|_| Errno(libc::EINVAL))?;
            let mut copy = Vec::new();
            // SAFETY: the caller's list of that many elements; the engine compares the number with
            // its limit.
            let sges = unsafe { sges(wr.sg_list, count, &mut copy) }?;
            post(wr.wr_id, sges).map_err(|e| explain("a receive request", e))?;
            at = wr.next;
        }
        Ok(0)
    });

    if result != 0 && !bad_wr.is_null() {
        // SAFETY: as the caller promises.
        unsafe { bad_wr.write(at) };
    }

    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_data_is_gathered_within_its_limit() {
        let (a, b) = (*b"abc", *b"defg");
        let sge = |bytes: &[u8]| Sge {
            addr: bytes.as_ptr() as u64,
            length: bytes.len() as u32,
            lkey: 0,
        };

        let mut buffer = [const { MaybeUninit::uninit() }; INLINE_MAX];

        // SAFETY: the lists name live arrays.
        unsafe {
            assert_eq!(
                gather(&[sge(&a), sge(&[]), sge(&b)], 7, &mut buffer),
                Ok(&b"abcdefg"[..])
            );

            assert_eq!(
                gather(&[sge(&a), sge(&b)], 6, &mut buffer),
                Err(Errno(libc::EINVAL))
            );

            assert_eq!(gather(&[sge(&a)], 3, &mut buffer), Ok(&b"abc"[..]));
            assert_eq!(gather(&[], 0, &mut buffer), Ok(&b""[..]));
            let huge = Sge {
                addr: 8,
                length: u32::MAX,
                lkey: 0,
            };

            assert_eq!(
                gather(&[huge, huge], usize::MAX, &mut buffer),
                Err(Errno(libc::EINVAL))
            );
        }
    }

    #[test]
    fn lists_at_odd_addresses_are_read() {
        let list = [1, 2].map(|n| ibv_sge {
            addr: n,
            length: 10 * n as u32,
            lkey: 100 * n as u32,
        });
        let mut bytes = [0u64; 5];
        // SAFETY: both are within the bytes, and aligned for the elements or not at all.
        let odd = unsafe {
            let odd = bytes.as_mut_ptr().byte_add(4).cast::<ibv_sge>();
            std::ptr::copy_nonoverlapping(list.as_ptr().cast::<u8>(), odd.cast(), 32);
            odd
        };
        assert!(!odd.is_aligned());

        let (mut copy, mut none) = (Vec::new(), Vec::new());
        // SAFETY: lists of two elements.
        let read = unsafe { [sges(odd, 2, &mut copy), sges(list.as_ptr(), 2, &mut none)] };
        assert_eq!(read[0], read[1]);
        assert_eq!(read[0].as_ref().unwrap()[1].lkey, 200);
        assert!(none.is_empty());

        let mut copy = Vec::new();
        // SAFETY: what has too many elements is not read.
        let refused = unsafe { sges(odd, usize::MAX, &mut copy) };
        assert_eq!(refused, Err(Errno(libc::EINVAL)));
    }
}
