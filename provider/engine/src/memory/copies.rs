//! Copies into and out of registered memory.
//!
//! Addresses come from the key table ([`crate::memory::keys`]), which has checked them; whether a
//! range is mapped at all is the business of [`crate::memory::paging`] when it is registered, and
//! of [`crate::memory::guard`] when it is touched.

use std::cell::UnsafeCell;

use ferroce_transport::{Access, MemoryError};
use ferroce_wire::Octets;

use crate::memory::guard::{self, Fault};
use crate::memory::piece::Piece;

/// Copies `src` to registered memory in address order and publishes its end last.
///
/// Programs poll the last byte (or an aligned last word) of an incoming message, so it becomes
/// visible after everything before it.
///
/// # Safety
/// `[dst, dst + src.len())` is in a registered region.
pub(crate) unsafe fn place(dst: u64, src: Octets<'_>) -> Result<(), MemoryError> {
    let n = src.len();
    let end = dst + n as u64;
    let tail = match n {
        0 => return Ok(()),
        _ if n >= 8 && end.is_multiple_of(8) => 8,
        _ if n >= 4 && end.is_multiple_of(4) => 4,
        _ if n >= 2 && end.is_multiple_of(2) => 2,
        _ => 1,
    };
    let (body, last) = src.split_at(n - tail);
    let mut value = [0; 8];
    last.copy_to(&mut value[..tail]);

    // SAFETY: the caller vouches for the destination; `src` is the receive buffer or a ring,
    // neither of which is registered. The tail's address is aligned to its size by the choice
    // above.
    unsafe {
        guard::copy(dst as *mut u8, body.as_ptr(), body.len())?;
        guard::publish(
            (end - tail as u64) as *mut u8,
            u64::from_le_bytes(value),
            tail,
        )?;
    }

    Ok(())
}

impl From<Fault> for MemoryError {
    fn from(_: Fault) -> MemoryError {
        MemoryError::Fault
    }
}

/// Whether an atomic operation can be done at a process address: one in an MR whose I/O virtual
/// address is aligned may not be.
pub(crate) fn atomic_cell(addr: u64) -> Result<*mut u64, MemoryError> {
    if addr.is_multiple_of(8) {
        Ok(addr as *mut u64)
    } else {
        Err(MemoryError::Fault)
    }
}

/// Bytes that a null region's accesses are cut into.
const NULL_PIECE: usize = 4096;

#[repr(align(64))]
struct NullPage(UnsafeCell<[u8; NULL_PIECE]>);

// SAFETY: only ever accessed through raw pointers by the guarded copies, as registered memory is;
// what is written is never read.
unsafe impl Sync for NullPage {}

/// What a null region reads, and where what is written to one goes.
static ZEROES: [u8; NULL_PIECE] = [0; NULL_PIECE];
static SINK: NullPage = NullPage(UnsafeCell::new([0; NULL_PIECE]));

/// Calls `f` with pieces of `len` bytes in all that stand for a null region: zeroes to read, a sink
/// to write.
pub(super) fn null_pieces(
    mut len: usize,
    access: Access,
    f: &mut impl FnMut(Piece) -> Result<(), MemoryError>,
) -> Result<(), MemoryError> {
    let addr = if access.contains(Access::LOCAL_WRITE) {
        SINK.0.get() as u64
    } else {
        ZEROES.as_ptr() as u64
    };

    while len > 0 {
        let now = len.min(NULL_PIECE);
        f(Piece {
            addr,
            len: now,
            fleeting: false,
        })?;
        len -= now;
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_copies_every_length_and_alignment() {
        let src: Vec<u8> = (1..=64).collect();
        for start in 0..16 {
            for len in 0..=40 {
                let mut dst = [0u64; 16];
                let base = dst.as_mut_ptr() as u64;
                // SAFETY: 16 + 40 bytes fit the 128 of `dst`.
                unsafe { place(base + start, src[..len].into()) }.unwrap();
                let bytes: Vec<u8> = dst.iter().flat_map(|w| w.to_ne_bytes()).collect();
                assert_eq!(&bytes[start as usize..start as usize + len], &src[..len]);
                assert!(
                    bytes[..start as usize]
                        .iter()
                        .chain(&bytes[start as usize + len..])
                        .all(|b| *b == 0)
                );
            }
        }
    }
}
