//! Advice about on-demand regions (`ibv_advise_mr`).

use ferroce_transport::{Access, MemoryError, Sge};

use crate::error::{Error, Result};
use crate::memory::keys;
use crate::memory::paging::{validate, will_need};
use crate::verbs::context::Pd;

/// What `ibv_advise_mr` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Make pages present to be read.
    Prefetch,
    /// Make pages present to be written.
    PrefetchWrite,
    /// Make use of pages that are present, and fault none in.
    PrefetchNoFault,
}

impl Pd {
    /// Advises about ranges of on-demand regions. With `flush` the pages are there when it returns;
    /// without, the kernel is only told that they will be needed.
    ///
    /// `EFAULT`: no such key, outside its region, or (with `flush`) memory that is not mapped.
    /// `EPERM`: a key of another domain, or a region that may not be written. `EINVAL`: a key of a
    /// window or of a region that is not on-demand, or an empty list.
    pub fn advise(&self, advice: Advice, flush: bool, sges: &[Sge]) -> Result<()> {
        if sges.is_empty() {
            return Err(Error::Invalid("the list is empty"));
        }

        let ranges = {
            let keys = self.context().hca().keys.read();
            let mut ranges = Vec::with_capacity(sges.len());
            for sge in sges {
                let bad = Error::BadMemory {
                    addr: sge.addr,
                    len: sge.length.into(),
                };

                if keys.window(keys::index(sge.lkey)).is_some() {
                    return Err(Error::Invalid("the key is a window's"));
                }
                let Some(region) = keys.region(sge.lkey) else {
                    return Err(bad);
                };
                if region.pd != self.handle() {
                    return Err(Error::Forbidden("a key of another protection domain"));
                }
                if !region.access.contains(Access::ON_DEMAND) {
                    return Err(Error::Invalid("the region is not on-demand"));
                }

                if advice == Advice::PrefetchWrite && !region.access.contains(Access::LOCAL_WRITE) {
                    return Err(Error::Forbidden(
                        "the region may not be written by its owner",
                    ));
                }

                match region.resolve(sge.addr, sge.length.into()) {
                    Ok(addr) => ranges.push((addr, u64::from(sge.length))),
                    Err(MemoryError::Bounds) => return Err(bad),
                    Err(_) => return Err(Error::Invalid("the key")),
                }
            }

            ranges
        };

        // Populating may wait for a disk: not under the lock that every access needs.
        for (addr, len) in ranges {
            match (advice, flush) {
                // A page that is present to the program is present to the engine.
                (Advice::PrefetchNoFault, _) => {}
                (_, true) => validate(addr, len, advice == Advice::PrefetchWrite)?,
                (_, false) => will_need(addr, len),
            }
        }

        Ok(())
    }
}
