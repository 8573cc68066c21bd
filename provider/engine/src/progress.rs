//! Who makes the engine move: threads that poll, the helper thread and its sleep, timers.

pub(crate) mod answers;
pub(crate) mod arrivals;
pub(crate) mod await_event;
pub(crate) mod awake;
pub(crate) mod crowd;
pub(crate) mod driver;
pub(crate) mod futex;
pub(crate) mod helper;
pub(crate) mod linger;
pub(crate) mod make_room;
pub(crate) mod marks;
pub(crate) mod poll;
pub(crate) mod round;
pub(crate) mod sleep;
pub(crate) mod slices;
pub(crate) mod timers;
pub(crate) mod turn;
pub(crate) mod uring;
#[cfg(test)]
pub(crate) mod virtual_time;
pub(crate) mod words;
