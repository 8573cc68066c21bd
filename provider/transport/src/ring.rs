//! A ring of runs: variable-length pieces kept contiguous and released in the order they were
//! taken.
//!
//! It grows on demand and then stays, so that a queue in steady state never allocates. The owner
//! moves what is live when it grows (it alone knows where its runs are).

/// A contiguous piece of a [`RunRing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    start: u32,
    len: u32,
}

/// The ring. Empty rings own no memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunRing<T> {
    buf: Vec<T>,
    /// Start of the oldest live run (or somewhat before it).
    head: usize,
    /// Where the next run may begin.
    tail: usize,
    /// Live runs that are not empty.
    live: usize,
}

impl<T: Copy + Default> RunRing<T> {
    /// Copies a run in, or `None` where there is no room: then call [`grown`](Self::grown).
    pub(crate) fn push(&mut self, items: &[T]) -> Option<Run> {
        if items.is_empty() {
            return Some(Run::default());
        }

        let len = items.len();
        let start = if self.tail >= self.head {
            if len <= self.buf.len() - self.tail {
                self.tail
            } else if len < self.head {
                0
            } else {
                return None;
            }
        } else if len < self.head - self.tail {
            self.tail
        } else {
            return None;
        };

        self.buf[start..start + len].copy_from_slice(items);
        self.tail = start + len;
        self.live += 1;
        Some(Run {
            start: start as u32,
            len: len as u32,
        })
    }

    /// An empty ring with room for everything in this one and `more` besides.
    pub(crate) fn grown(&self, more: usize) -> RunRing<T> {
        let len = (self.buf.len() * 2).max(self.buf.len() + more).max(8);
        RunRing {
            buf: vec![T::default(); len],
            head: 0,
            tail: 0,
            live: 0,
        }
    }

    /// The contents of a live run.
    pub(crate) fn slice(&self, run: Run) -> &[T] {
        &self.buf[run.start as usize..][..run.len as usize]
    }

    /// Releases the oldest live run.
    pub(crate) fn release(&mut self, run: Run) {
        if run.len == 0 {
            return;
        }
        self.live -= 1;
        if self.live == 0 {
            self.head = 0;
            self.tail = 0;
        } else {
            self.head = (run.start + run.len) as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn runs_keep_their_contents_through_wrap_and_growth() {
        let mut ring = RunRing::<u32>::default();
        let mut live: VecDeque<(Run, Vec<u32>)> = VecDeque::new();
        let mut x = 1u32;

        // Miri takes a thousand times as long.
        let steps = if cfg!(miri) { 500 } else { 20_000u32 };
        for step in 0..steps {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if x >> 31 == 0 || live.len() > 40 {
                if let Some((run, want)) = live.pop_front() {
                    assert_eq!(ring.slice(run), want);
                    ring.release(run);
                }
            } else {
                let items: Vec<u32> = (0..(x >> 20) % 9).map(|i| step * 16 + i).collect();
                let run = match ring.push(&items) {
                    Some(run) => run,
                    None => {
                        let mut new = ring.grown(items.len());
                        for (run, _) in &mut live {
                            *run = new.push(ring.slice(*run)).unwrap();
                        }
                        ring = new;
                        ring.push(&items).unwrap()
                    }
                };
                live.push_back((run, items));
            }

            for (run, want) in &live {
                assert_eq!(ring.slice(*run), want);
            }
        }

        assert!(ring.buf.len() <= 1024, "{}", ring.buf.len());
    }
}
