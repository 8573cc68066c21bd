//! How many request bytes each queue pair of a path may have in flight: its share of what the
//! path's controller allows.

use ferroce_transport::congestion::{Aimd, Controller};
use ferroce_transport::{PathSignal, Time};

use crate::datapath::turns::Turns;
use crate::tuning::TURN_WINDOW;

pub(crate) struct Congestion {
    controller: Aimd,
    /// Of the QPs among which the window is divided.
    pub(crate) turns: Turns,
}

impl Congestion {
    /// `ceiling`: the most that the way takes.
    pub(crate) fn new(ceiling: u32) -> Congestion {
        Congestion {
            controller: Aimd::new(ceiling),
            turns: Turns::default(),
        }
    }

    /// The share of one QP in bytes.
    pub(crate) fn share(&self) -> u32 {
        self.controller.window() / self.turns.taken().max(1)
    }

    /// How many QPs may send at once.
    pub(crate) fn limit(&self) -> u32 {
        (self.controller.window() / TURN_WINDOW).max(1)
    }

    pub(crate) fn signal(&self, now: Time, signal: PathSignal) {
        self.controller.signal(now, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::turns::Begun;
    use crate::port::socket_window;

    #[test]
    fn the_default_buffer_of_a_user_bounds_the_window() {
        let c = Congestion::new(socket_window(425_984));
        for _ in 0..1000 {
            let (bytes, rtt) = (65_536, None);
            c.signal(Time::ZERO, PathSignal::Acked { bytes, rtt });
        }
        assert_eq!(c.share(), 425_984 / 2);
        assert_eq!(c.limit(), 3);
        for index in 1..=3 {
            let begun = c.turns.begin(index, c.limit(), false);
            assert!(matches!(begun, Begun::Turn(_)));
            assert_eq!(c.share(), 425_984 / 2 / u32::from(index));
        }
        let begun = c.turns.begin(4, c.limit(), false);
        assert_eq!(begun, Begun::Waits { alone: true });
        assert!(c.share() >= TURN_WINDOW);
    }
}
