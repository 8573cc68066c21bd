//! The state of the consumer's pages: whether a range is mapped when it is registered.
//!
//! An on-demand region is not looked at when it is registered. Its pages may come and go; an access
//! that finds one missing faults it in, or ends in an error of the request where there is nothing
//! to fault in ([`crate::memory::guard`]). The guard is what makes that promise, so on-demand
//! paging is offered only on processors that it has code for.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::memory::guard;

/// `enum ibv_odp_general_caps` and `enum ibv_odp_transport_cap_bits`, as `ibv_query_device_ex`
/// returns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OdpCaps {
    /// 1: on-demand paging; 2: of the whole address space at once (implicit).
    pub general: u64,
    /// Operations on reliable connections: 1 send, 2 receive, 4 write, 8 read, 16 atomic, 32
    /// receive from an SRQ, 64 flush, 128 atomic write.
    pub rc: u32,
    /// The same for unreliable connections.
    pub uc: u32,
    /// The same for datagrams.
    pub ud: u32,
    /// The same for XRC.
    pub xrc: u32,
}

impl OdpCaps {
    /// What this build can do: every operation that a service has, or nothing without a guard.
    pub(crate) fn of_this_machine() -> OdpCaps {
        const SEND: u32 = 1;
        const RECV: u32 = 2;
        const WRITE: u32 = 4;
        const READ: u32 = 8;
        const ATOMIC: u32 = 16;
        const SRQ_RECV: u32 = 32;
        const FLUSH: u32 = 64;
        const ATOMIC_WRITE: u32 = 128;

        if !guard::EFFECTIVE {
            return OdpCaps::default();
        }

        OdpCaps {
            general: 1 | 2,
            rc: SEND | RECV | WRITE | READ | ATOMIC | SRQ_RECV | FLUSH | ATOMIC_WRITE,
            uc: SEND | RECV | WRITE | SRQ_RECV,
            ud: SEND | RECV | SRQ_RECV,
            xrc: SEND | WRITE | READ | ATOMIC | SRQ_RECV | FLUSH,
        }
    }
}

fn page_size() -> u64 {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Whether two addresses are at the same place of their pages, as they must be where an adapter
/// translates pages, whatever their size is.
pub(crate) fn same_offset(a: u64, b: u64) -> bool {
    (a ^ b).is_multiple_of(page_size())
}

/// The whole pages around a range.
pub(crate) fn pages(addr: u64, len: u64) -> Option<Range<u64>> {
    let page = page_size();
    let stop = addr.checked_add(len)?.checked_next_multiple_of(page)?;
    Some(addr & !(page - 1)..stop)
}

fn advise_kernel(pages: &Range<u64>, advice: libc::c_int) -> std::io::Result<()> {
    let len = (pages.end - pages.start) as usize;
    // SAFETY: populating and announcing change no content; the kernel checks the range.
    match unsafe { libc::madvise(pages.start as *mut _, len, advice) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

pub(crate) fn will_need(addr: u64, len: u64) {
    if let Some(pages) = pages(addr, len) {
        // Advice: where it cannot be taken, the access faults the page in.
        let _ = advise_kernel(&pages, libc::MADV_WILLNEED);
    }
}

/// Verifies that a range is mapped (and writable, if `write`), and faults its pages in as pinning
/// would.
pub(crate) fn validate(addr: u64, len: u64, write: bool) -> Result<()> {
    let bad = Error::BadMemory { addr, len };
    if len == 0 {
        return Ok(());
    }
    let Some(pages) = pages(addr, len) else {
        return Err(bad);
    };

    let advice = if write {
        libc::MADV_POPULATE_WRITE
    } else {
        libc::MADV_POPULATE_READ
    };

    match advise_kernel(&pages, advice) {
        Ok(()) => Ok(()),
        // Before Linux 5.14, or a mapping that cannot be populated (device memory): ask the map
        // itself.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) && mapped(&pages, write) => Ok(()),
        Err(_) => Err(bad),
    }
}

/// Whether `/proc/thread-self/maps` shows the whole range readable (and writable, if `write`).
fn mapped(range: &Range<u64>, write: bool) -> bool {
    covered("/proc/thread-self/maps", range, |about, _| {
        about.starts_with('r') && (!write || about.as_bytes().get(1) == Some(&b'w'))
    })
}

/// Verifies that a range consists of huge pages (`MAP_HUGETLB`, hugetlbfs) only, as
/// `IBV_ACCESS_HUGETLB` promises.
pub(crate) fn validate_huge(addr: u64, len: u64) -> Result<()> {
    let huge = pages(addr, len).is_some_and(|range| {
        covered("/proc/thread-self/smaps", &range, |_, flags| {
            flags.split_ascii_whitespace().any(|flag| flag == "ht")
        })
    });
    if huge {
        Ok(())
    } else {
        Err(Error::Invalid("the memory is not of huge pages"))
    }
}

/// Whether mappings of which `good` holds cover a range without a gap. `good` is told what stands
/// behind a mapping's addresses, from the permissions on, and its flags where the file is `smaps`.
pub(super) fn covered(file: &str, range: &Range<u64>, good: impl Fn(&str, &str) -> bool) -> bool {
    let Ok(maps) = std::fs::read_to_string(file) else {
        return false;
    };

    let mut need = range.start;
    let mut lines = maps.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((at, about)) = mapping(line) else {
            continue;
        };

        // What `smaps` adds about the mapping comes before the next one.
        let mut flags = "";
        while let Some(more) = lines.next_if(|line| mapping(line).is_none()) {
            flags = more.strip_prefix("VmFlags:").unwrap_or(flags);
        }
        if at.end <= need {
            continue;
        }
        if at.start > need || !good(about, flags) {
            return false;
        }

        need = at.end;
        if need >= range.end {
            return true;
        }
    }

    false
}

/// The addresses of a mapping's first line, and what stands behind them.
fn mapping(line: &str) -> Option<(Range<u64>, &str)> {
    let (addresses, about) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    Some((start..end, about))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validate_tells_unmapped_and_read_only_memory() {
        // Where the kernel maps nothing by itself: the hole must stay one while other tests run.
        const PLACE: usize = 0x1000_0000;

        // SAFETY: a fresh anonymous mapping of two pages, in nobody's place, of which the second is
        // unmapped again.
        let p = unsafe {
            let p = libc::mmap(
                PLACE as *mut _,
                8192,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            );
            assert_eq!(p as usize, PLACE);
            libc::munmap(p.add(4096), 4096);
            p as u64
        };

        assert!(validate(p, 4096, false).is_ok());
        assert_eq!(validate(p, 4096, true).unwrap_err().errno(), libc::EFAULT);
        assert_eq!(validate(p, 4097, false).unwrap_err().errno(), libc::EFAULT);
        assert_eq!(
            validate(u64::MAX - 5, 100, false).unwrap_err().errno(),
            libc::EFAULT
        );

        assert!(
            mapped(&(p..p + 4096), false)
                && !mapped(&(p..p + 4096), true)
                && !mapped(&(p..p + 8192), false)
        );
    }

    #[test]
    fn ordinary_memory_is_not_of_huge_pages() {
        let page = vec![1u8; 4096];
        let addr = page.as_ptr() as u64;
        assert_eq!(validate_huge(addr, 4096).unwrap_err().errno(), libc::EINVAL);
        // Every mapping has flags, and readable ones say so: the parser does find them.
        assert!(covered(
            "/proc/thread-self/smaps",
            &pages(addr, 4096).unwrap(),
            |_, flags| flags.split_ascii_whitespace().any(|f| f == "rd")
        ));
    }
}
