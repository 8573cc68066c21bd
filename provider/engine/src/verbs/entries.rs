//! What a completion queue holds its completions in: memory of the process's heap that grows with
//! use, or memory that the program lent for the queue's whole capacity.
//!
//! Knows neither capacity nor notification; both are the queue's.

use std::alloc::Layout;
use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::verbs::places::Place;
use crate::verbs::wc::{TagInfo, Wc};

/// A completion with the times at which it was raised (zero where the queue does not want them),
/// and its tag.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The completion.
    pub wc: Wc,
    /// The device's clock: nanoseconds of `CLOCK_MONOTONIC`.
    pub clock: u64,
    /// Nanoseconds since 1970 (`CLOCK_REALTIME`).
    pub wall_clock: u64,
    /// Zero but where a tag was matched.
    pub tag: TagInfo,
    /// What is given back when it is polled.
    pub(crate) place: Place,
}

impl From<Wc> for Entry {
    fn from(wc: Wc) -> Entry {
        Entry {
            wc,
            ..Entry::default()
        }
    }
}

/// Memory that the program gave for one queue; given back when this is dropped.
pub struct Lent {
    start: NonNull<u8>,
    len: usize,
    release: Option<Box<dyn FnOnce(NonNull<u8>) + Send>>,
}

// SAFETY: the memory is the queue's alone, as `Lent::new` demands.
unsafe impl Send for Lent {}

impl Lent {
    /// What a queue of `cqe` completions needs.
    pub fn layout(cqe: u32) -> Layout {
        // The number of completions is a `u32`: this cannot overflow.
        Layout::array::<Entry>(cqe as usize)
            .and_then(|layout| layout.align_to(64))
            .unwrap_or(Layout::new::<Entry>())
    }

    /// Takes `len` bytes at `start`.
    ///
    /// # Safety
    /// They are aligned to 64 bytes, writable, and used by nobody else until `release` gets them
    /// back.
    pub unsafe fn new(
        start: NonNull<u8>,
        len: usize,
        release: impl FnOnce(NonNull<u8>) + Send + 'static,
    ) -> Lent {
        Lent {
            start,
            len,
            release: Some(Box::new(release)),
        }
    }

    /// Completions that it holds.
    pub(crate) fn room(&self) -> usize {
        self.len / size_of::<Entry>()
    }

    fn place(&self, index: usize) -> *mut Entry {
        debug_assert!(index < self.room());
        // SAFETY: inside the memory, whose length is `room()` entries or somewhat more.
        unsafe { self.start.as_ptr().cast::<Entry>().add(index) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release(self.start);
        }
    }
}

/// The completions of a queue, oldest first.
pub(crate) enum Entries {
    Heap(VecDeque<Entry>),
    Lent {
        memory: Lent,
        head: usize,
        len: usize,
    },
}

impl Entries {
    pub(crate) fn new(memory: Option<Lent>) -> Entries {
        match memory {
            None => Entries::Heap(VecDeque::new()),
            Some(memory) => Entries::Lent {
                memory,
                head: 0,
                len: 0,
            },
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Entries::Heap(entries) => entries.len(),
            Entries::Lent { len, .. } => *len,
        }
    }

    /// Adds one. Lent memory must have room, for which the owner's capacity stands.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        match self {
            Entries::Heap(entries) => entries.push_back(entry),
            Entries::Lent { memory, head, len } => {
                assert!(*len < memory.room(), "lent memory is full");
                let at = (*head + *len) % memory.room();
                // SAFETY: inside memory that is this queue's alone.
                unsafe { memory.place(at).write(entry) };
                *len += 1;
            }
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        match self {
            Entries::Heap(entries) => entries.pop_front(),
            Entries::Lent { memory, head, len } => {
                *len = len.checked_sub(1)?;
                // SAFETY: a place that `push` has written.
                let entry = unsafe { memory.place(*head).read() };
                *head = (*head + 1) % memory.room();
                Some(entry)
            }
        }
    }

    /// Drops what `keep` does not want.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Wc) -> bool) {
        match self {
            Entries::Heap(entries) => entries.retain(|entry| keep(&entry.wc)),
            Entries::Lent { .. } => {
                for _ in 0..self.len() {
                    if let Some(entry) = self.pop().filter(|entry| keep(&entry.wc)) {
                        self.push(entry);
                    }
                }
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.retain(|_| false);
    }

    /// Moves everything into other memory; returns what held it.
    pub(super) fn move_to(&mut self, memory: Option<Lent>) -> Entries {
        let mut new = Entries::new(memory);
        while let Some(entry) = self.pop() {
            new.push(entry);
        }
        std::mem::replace(self, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::places::Side;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn lend(cqe: u32, released: &Arc<AtomicU32>) -> Lent {
        let layout = Lent::layout(cqe);
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap();
        let released = released.clone();
        // SAFETY: fresh memory, freed when it comes back.
        unsafe {
            Lent::new(start, layout.size(), move |start| {
                released.fetch_add(1, Ordering::Relaxed);
                std::alloc::dealloc(start.as_ptr(), layout);
            })
        }
    }

    fn entry(wr_id: u64, qp_num: u32) -> Entry {
        Entry {
            wc: Wc {
                wr_id,
                qp_num,
                ..Wc::default()
            },
            clock: wr_id + 1,
            wall_clock: wr_id + 2,
            tag: TagInfo {
                tag: wr_id + 3,
                app_ctx: 4,
            },
            place: Place::new(5, Side::Send, wr_id as u32 + 6),
        }
    }

    #[test]
    fn lent_memory_wraps_keeps_its_order_and_comes_back() {
        let released = Arc::new(AtomicU32::new(0));
        let mut entries = Entries::new(Some(lend(5, &released)));
        let (mut put, mut got) = (0, 0);
        for step in 0..100u64 {
            while entries.len() < 1 + step as usize % 5 {
                entries.push(entry(put, 1));
                put += 1;
            }
            for _ in 0..1 + step % 3 {
                if let Some(e) = entries.pop() {
                    assert_eq!(e, entry(got, 1));
                    got += 1;
                }
            }
        }

        assert!(put > 100);
        let old = entries.move_to(Some(lend(7, &released)));
        assert_eq!((old.len(), released.load(Ordering::Relaxed)), (0, 0));
        drop(old);
        assert_eq!(released.load(Ordering::Relaxed), 1);
        drop(entries);
        assert_eq!(released.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_is_dropped_leaves_the_rest_in_order() {
        let released = Arc::new(AtomicU32::new(0));
        for mut entries in [Entries::new(None), Entries::new(Some(lend(6, &released)))] {
            for i in 0..6 {
                entries.push(entry(i, (i % 2) as u32));
            }
            entries.retain(|wc| wc.qp_num == 1);
            let left: Vec<_> = std::iter::from_fn(|| entries.pop())
                .map(|e| e.wc.wr_id)
                .collect();
            assert_eq!(left, [1, 3, 5]);
            entries.push(entry(9, 0));
            entries.clear();
            assert_eq!(entries.len(), 0);
        }
    }
}
