//! How many request bytes each queue pair of a path may have in flight: its share of what the
//! path's controller allows.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ferroce_transport::congestion::{Aimd, Controller};
use ferroce_transport::{PathSignal, Time};

pub(crate) struct Congestion {
    controller: Aimd,
    /// QPs with requests in flight, among which the window is divided.
    active: AtomicU32,
}

impl Congestion {
    /// `ceiling`: the most that the way takes.
    pub(crate) fn new(ceiling: u32) -> Congestion {
        Congestion {
            controller: Aimd::new(ceiling),
            active: AtomicU32::new(0),
        }
    }

    /// The share of one QP in bytes.
    pub(crate) fn share(&self) -> u32 {
        self.controller.window() / self.active.load(Relaxed).max(1)
    }

    pub(super) fn qp_active(&self, active: bool) {
        if active {
            self.active.fetch_add(1, Relaxed);
        } else {
            self.active.fetch_sub(1, Relaxed);
        }
    }

    pub(crate) fn signal(&self, now: Time, signal: PathSignal) {
        self.controller.signal(now, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::socket_window;

    #[test]
    fn the_default_buffer_of_a_user_bounds_the_window() {
        let c = Congestion::new(socket_window(425_984));
        for _ in 0..1000 {
            let (bytes, rtt) = (65_536, None);
            c.signal(Time::ZERO, PathSignal::Acked { bytes, rtt });
        }
        assert_eq!(c.share(), 425_984 / 2);
        c.qp_active(true);
        c.qp_active(true);
        assert_eq!(c.share(), 425_984 / 4);
    }
}
