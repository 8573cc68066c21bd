//! What threads and processes agree on by shared words, in loom: the engine's own sources, over
//! loom's atomics.
//!
//! They are in a program of their own, as loom takes SIGSEGV for itself, which the engine's other
//! tests need.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the engine uses what the models do not"
)]

#[path = "../src/progress/marks.rs"]
mod marks;
#[path = "../src/progress/sleep.rs"]
mod sleep;
#[path = "../src/progress/turn.rs"]
mod turn;
#[path = "../src/datapath/turn_count.rs"]
mod turn_count;
#[path = "../src/progress/words.rs"]
mod words;

/// Where sources of other folders find them.
mod progress {
    pub(crate) use crate::words;
}

#[path = "models/loom_words.rs"]
mod loom_words;

mod models {
    #[path = "marks.rs"]
    mod marks;
    #[path = "sleep.rs"]
    mod sleep;
    #[path = "turn.rs"]
    mod turn;
    #[path = "turn_count.rs"]
    mod turn_count;
}
