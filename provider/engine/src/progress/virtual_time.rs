//! Time for tests of one thread: it passes with every look at the clock, and not otherwise.
//!
//! Who polls looks at the clock, so that time-outs lapse and rates are kept as they would be, but a
//! thread that is kept from its processor is late for nothing.

use std::cell::Cell;
use std::marker::PhantomData;

use ferroce_transport::{Duration, Time};

/// How much later it is at each look: about what a poll takes.
const STEP: Duration = Duration::from_micros(1);

thread_local! {
    static NOW: Cell<Option<Time>> = const { Cell::new(None) };
}

/// While it lives the clock of this thread is virtual.
pub(crate) struct VirtualTime(PhantomData<*const ()>);

impl VirtualTime {
    pub(crate) fn begin() -> VirtualTime {
        let start = Time::from_nanos(1_000_000_000);
        let before = NOW.replace(Some(start));
        assert_eq!(before, None, "this thread's time is virtual already");
        VirtualTime(PhantomData)
    }

    /// The time of this thread, if it is virtual.
    pub(crate) fn now() -> Option<Time> {
        let now = NOW.get()? + STEP;
        NOW.set(Some(now));
        Some(now)
    }
}

impl Drop for VirtualTime {
    fn drop(&mut self) {
        NOW.set(None);
    }
}
