//! How much device memory is in use.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::verbs::limits;

/// Bytes of device memory in use.
#[derive(Default)]
pub(crate) struct DmUse(AtomicU64);

impl DmUse {
    pub(crate) fn take(&self, len: u64) -> Result<()> {
        let fits = |used: u64| {
            used.checked_add(len)
                .filter(|used| *used <= limits::MAX_DM_SIZE)
        };
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map(drop)
            .map_err(|_| Error::Full("device memory"))
    }

    pub(crate) fn give_back(&self, len: u64) {
        self.0.fetch_sub(len, Ordering::Relaxed);
    }
}
