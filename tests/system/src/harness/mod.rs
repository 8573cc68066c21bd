//! What every test needs: cases and how they end, processes that are started and watched, the
//! account of a run.

pub mod case;
pub(crate) mod junit;
pub mod process;
pub(crate) mod report;
pub(crate) mod skips;
pub(crate) mod unittest;
