//! The queue pairs of this process by the index part of their QPN.

use std::sync::Arc;

use ferroce_control::random::random;

use crate::error::{Error, Result};
use crate::verbs::limits;

type Page<T> = [Option<Arc<T>>; 256];

/// 65,536 places in pages that are made on demand.
pub(crate) struct Table<T> {
    pages: Vec<Option<Box<Page<T>>>>,
    len: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            pages: (0..256).map(|_| None).collect(),
            len: 0,
        }
    }
}

impl<T> Table<T> {
    pub(crate) fn find(&self, index: u16) -> Option<&Arc<T>> {
        self.pages[usize::from(index >> 8)].as_ref()?[usize::from(index & 0xff)].as_ref()
    }

    /// Puts what `make` returns at a random free index (a peer cannot guess it from another's).
    pub(crate) fn insert(&mut self, make: impl FnOnce(u16) -> Result<Arc<T>>) -> Result<Arc<T>> {
        if self.len >= limits::MAX_QP {
            return Err(Error::Full("queue pairs"));
        }

        // Half of the places at least are free, so this ends soon. Index 0 and 1 stay unused: they
        // look like QP0 and QP1.
        let index = loop {
            let index: u16 = random();
            if index > 1 && self.find(index).is_none() {
                break index;
            }
        };
        let qp = make(index)?;
        let page = self.pages[usize::from(index >> 8)]
            .get_or_insert_with(|| Box::new([const { None }; 256]));
        page[usize::from(index & 0xff)] = Some(qp.clone());
        self.len += 1;
        Ok(qp)
    }

    pub(crate) fn remove(&mut self, index: u16) -> Option<Arc<T>> {
        let qp = self.pages[usize::from(index >> 8)].as_mut()?[usize::from(index & 0xff)].take();
        self.len -= u32::from(qp.is_some());
        qp
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.pages.iter().flatten().flat_map(|p| p.iter().flatten())
    }
}
