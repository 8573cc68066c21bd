//! When a fault hits: a course for each queue pair (and each way), in which only the number of what
//! the fault was about so far, and the seed, decide.
//!
//! Chance is SplitMix64 (Steele, Lea and Flood, 2014): the nth number of a stream is a function of
//! where the stream starts and of n, so that nothing but n is kept. What the operating system would
//! give (decision 0009) could not be had again, and here nobody is to be kept from guessing.

use super::{Direction, Fault};

/// What a course is of. A queue pair has no number that a run that is repeated has again, but it is
/// again the first, second, … that its program makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Which queue pair of the program's, in the order in which it made them; 0 where it is no
    /// matter of one.
    pub ordinal: u32,
    /// The way.
    pub direction: Direction,
}

/// How far a fault has come with one queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// How many the fault was about.
    seen: u64,
    /// How many of them it has hit.
    hits: u64,
}

/// A hit, with random numbers for what else there is to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw(pub u64);

impl Course {
    /// Another one that the fault is about. `response`: a responder's packet. A client's requests
    /// and its server's answers are both of first queue pairs, and shall not be hit in step.
    pub fn next(&mut self, fault: &Fault, lane: Lane, response: bool) -> Option<Draw> {
        self.seen += 1;
        let often = &fault.often;
        let in_turn = often.nth.is_none_or(|nth| self.seen == nth)
            && often
                .every
                .is_none_or(|every| self.seen.is_multiple_of(every))
            && often.count.is_none_or(|count| self.hits < count);
        if !in_turn {
            return None;
        }

        let stream = Stream::new(fault.seed, lane, response);
        let chance = (u128::from(stream.nth(2 * self.seen)) * 1_000_000) >> 64;
        if chance as u32 >= often.rate.millionths() {
            return None;
        }
        self.hits += 1;
        Some(Draw(stream.nth(2 * self.seen + 1)))
    }

    /// How often it has hit.
    pub fn hits(&self) -> u64 {
        self.hits
    }
}

/// A stream of random numbers.
struct Stream(u64);

impl Stream {
    fn new(seed: u64, lane: Lane, response: bool) -> Stream {
        let incoming = u64::from(lane.direction == Direction::In);
        let which = u64::from(lane.ordinal) << 2 | incoming << 1 | u64::from(response);
        // Streams of neighbours must not be one stream that begins a little later.
        Stream(mix(seed ^ mix(which.wrapping_add(1).wrapping_mul(GOLDEN))))
    }

    fn nth(&self, n: u64) -> u64 {
        mix(self.0.wrapping_add(n.wrapping_add(1).wrapping_mul(GOLDEN)))
    }
}

/// 2^64 over the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
