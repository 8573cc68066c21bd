//! Places in work queues, as a program has to count them: one is taken when a request is posted,
//! and given back when the completion of it is polled, or of one posted after it.
//!
//! The transport is done with a request before that, and would take another. Adapters do not: what
//! a completion tells a program is also that there is room again. A program that never asks for
//! completions, or does not look at them, is refused here as it is there.
//!
//! Counts are by requests ever posted to a queue, modulo 2^32, so that one that is given back
//! stands for all before it. Those of a queue have one writer at a time: who holds the lock of the
//! only completion queue that it completes to, or, while that has nothing of it, of its queue pair.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Queue pairs whose counts are made together: a page's.
const PAGE: usize = 512;
const PAGES: usize = (1 << 16) / PAGE;

/// Which of a queue pair's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Send = 0,
    Receive = 1,
}

/// The place that a completion gives back when it is polled, and all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the queue from 1; 0: none, as of shared receive queues, whose requests have theirs
    /// until a message takes them.
    queue: u32,
    /// Requests posted to it until this one, itself included.
    count: u32,
}

impl Place {
    /// That of the request which is the `count`th of the queue pair with this row.
    pub(crate) fn new(row: u16, side: Side, count: u32) -> Place {
        Place {
            queue: 1 + 2 * u32::from(row) + side as u32,
            count,
        }
    }

    #[inline]
    fn is_of_the_same_queue(self, other: Place) -> bool {
        self.queue == other.queue
    }
}

type Page = [[AtomicU32; 2]; PAGE];

/// What has been given back of every queue of a process, by the rows of queue pairs, which are
/// used again so that there are as many as queue pairs at most.
pub(crate) struct Places {
    pages: [OnceLock<Box<Page>>; PAGES],
}

impl Default for Places {
    fn default() -> Places {
        Places {
            pages: [const { OnceLock::new() }; PAGES],
        }
    }
}

impl Places {
    fn given_back(&self, row: usize, side: usize) -> &AtomicU32 {
        let page = self.pages[row / PAGE]
            .get_or_init(|| Box::new([const { [const { AtomicU32::new(0) }; 2] }; PAGE]));
        &page[row % PAGE][side]
    }

    /// Of `posted` requests to a queue, how many have their places still.
    #[inline]
    pub(crate) fn taken(&self, row: u16, side: Side, posted: u32) -> u32 {
        let back = self.given_back(row.into(), side as usize);
        posted.wrapping_sub(back.load(Ordering::Acquire))
    }

    /// All places of a queue are given back. Nothing of it is to be polled any more.
    pub(crate) fn empty(&self, row: u16, side: Side, posted: u32) {
        let back = self.given_back(row.into(), side as usize);
        back.store(posted, Ordering::Release);
    }

    /// Gives back what completions that were polled stand for, oldest first.
    #[inline]
    pub(crate) fn give_back(&self, polled: impl Iterator<Item = Place>) {
        let mut last = Place::default();
        for place in polled {
            if !place.is_of_the_same_queue(last) {
                self.give_one_back(last);
            }
            last = place;
        }
        self.give_one_back(last);
    }

    #[inline]
    fn give_one_back(&self, place: Place) {
        if let Some(queue) = place.queue.checked_sub(1) {
            let back = self.given_back(queue as usize / 2, queue as usize % 2);
            back.store(place.count, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_queue_stands_for_those_before_it() {
        let places = Places::default();
        let taken = |posted| {
            [(7, Side::Send), (7, Side::Receive), (u16::MAX, Side::Send)]
                .map(|(row, side)| places.taken(row, side, posted))
        };
        assert_eq!(taken(10), [10, 10, 10]);

        let polled = [
            Place::new(7, Side::Send, 2),
            Place::new(7, Side::Send, 4),
            Place::default(),
            Place::new(7, Side::Receive, 1),
            Place::new(u16::MAX, Side::Send, 9),
            Place::new(7, Side::Send, 5),
        ];
        places.give_back(polled.into_iter());
        assert_eq!(taken(10), [5, 9, 1]);

        places.empty(7, Side::Send, 10);
        assert_eq!(taken(10), [0, 9, 1]);
    }

    #[test]
    fn counts_go_on_beyond_their_end() {
        let places = Places::default();
        places.empty(0, Side::Send, u32::MAX - 1);
        assert_eq!(places.taken(0, Side::Send, 3), 5);
        places.give_back([Place::new(0, Side::Send, 1)].into_iter());
        assert_eq!(places.taken(0, Side::Send, 3), 2);
    }
}
