//! A table of values by small numbers, as which programs know their ids and groups.

use ferroce_cabi::ucma_frame::MAX_CHANNELS;
use ferroce_control::GENERATIONS;
use rustix::io::Errno;

/// The most ids that there may be; the CM keeps no more connections either.
pub(super) const MAX_IDS: usize = GENERATIONS;
const _: () = assert!(MAX_IDS <= MAX_CHANNELS);

/// Values by small numbers that are used again.
#[derive(Debug)]
pub(super) struct Table<T> {
    entries: Vec<Option<Box<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    pub(super) fn insert(&mut self, value: T) -> Result<u32, Errno> {
        if let Some(handle) = self.free.pop() {
            self.entries[handle as usize] = Some(Box::new(value));
            return Ok(handle);
        }
        if self.entries.len() >= MAX_IDS {
            return Err(Errno::NOMEM);
        }
        self.entries.push(Some(Box::new(value)));
        Ok(self.entries.len() as u32 - 1)
    }

    pub(super) fn get(&self, handle: u32) -> Option<&T> {
        self.entries.get(handle as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.entries.get_mut(handle as usize)?.as_deref_mut()
    }

    pub(super) fn remove(&mut self, handle: u32) -> Option<T> {
        let value = self.entries.get_mut(handle as usize)?.take()?;
        self.free.push(handle);
        Some(*value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(i, value)| Some((i as u32, value.as_deref()?)))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
