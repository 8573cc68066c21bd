//! How many request bytes each queue pair of a path may have in flight: its share of what the
//! path's controller allows. Where the device has DCQCN the path has a rate, too, once its peer
//! has told of marks.

use ferroce_control::CongestionControl;
use ferroce_control::objects::Pace;
use ferroce_transport::congestion::{Aimd, Controller, Dcqcn, Reaction};
use ferroce_transport::{PathSignal, Time};

use crate::datapath::turns::Turns;
use crate::progress::timers;
use crate::tuning::{
    SEND_BYTES, TURN_BYTES, TURN_WINDOW, WIDE_TURN_BYTES, WIDE_TURN_WINDOW, WIDE_TURNS,
};

// Queue pairs tell the estimate as the controller has it.
const _: () = assert!(Reaction::ONE == Pace::ONE);

enum Control {
    Aimd(Aimd),
    Dcqcn(Dcqcn),
}

/// Does the same with whichever it is.
macro_rules! by_kind {
    ($of:expr, $controller:ident => $done:expr) => {
        match $of {
            Control::Aimd($controller) => $done,
            Control::Dcqcn($controller) => $done,
        }
    };
}

pub(crate) struct Congestion {
    control: Control,
    /// Of the QPs among which the window is divided.
    pub(crate) turns: Turns,
}

impl Congestion {
    /// `ceiling`: the most that the way takes, in bytes.
    pub(crate) fn new(kind: CongestionControl, ceiling: u32) -> Congestion {
        Congestion {
            control: match kind {
                CongestionControl::Aimd => Control::Aimd(Aimd::new(ceiling)),
                CongestionControl::Dcqcn => Control::Dcqcn(Dcqcn::new(ceiling)),
            },
            turns: Turns::default(),
        }
    }

    /// The share of one QP in bytes. Of several, in a wide window, it is whole sends: what is left
    /// of one would go by itself each time.
    pub(crate) fn share(&self) -> u32 {
        // Those beyond the limit have little.
        let (window, taken) = (self.window(), self.turns.taken().clamp(1, self.limit()));
        let share = window / taken;
        match taken > 1 && is_wide(window) && share > SEND_BYTES {
            true => share - share % SEND_BYTES,
            false => share,
        }
    }

    /// How many QPs may send at once.
    pub(crate) fn limit(&self) -> u32 {
        let window = self.window();
        match is_wide(window) {
            true => window / WIDE_TURN_WINDOW,
            false => (window / TURN_WINDOW).max(1),
        }
    }

    /// How many bytes one QP may send before it is another's turn.
    pub(crate) fn turn(&self) -> u64 {
        match is_wide(self.window()) {
            true => WIDE_TURN_BYTES,
            false => TURN_BYTES,
        }
    }

    pub(crate) fn signal(&self, now: Time, signal: PathSignal) {
        by_kind!(&self.control, controller => controller.signal(now, signal));
    }

    #[inline]
    fn window(&self) -> u32 {
        by_kind!(&self.control, controller => controller.window())
    }

    /// Bytes of requests that may leave in one piece.
    pub(crate) fn run(&self) -> u32 {
        by_kind!(&self.control, controller => controller.run())
    }

    /// Whether there is a rate, so that [`allowance`](Self::allowance) is to be asked.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        matches!(&self.control, Control::Dcqcn(dcqcn) if dcqcn.is_limited())
    }

    /// Bytes that may leave now, or when to ask again.
    pub(crate) fn allowance(&self, now: Time) -> Result<u64, Time> {
        by_kind!(&self.control, controller => controller.allowance(now))
    }

    /// So many bytes leave now.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        if let Control::Dcqcn(dcqcn) = &self.control {
            dcqcn.sent(timers::now(), bytes, false);
        }
    }

    /// Whether there may be a rate at all.
    #[inline]
    pub(crate) fn has_rates(&self) -> bool {
        matches!(self.control, Control::Dcqcn(_))
    }

    /// What the path is held to, if it is.
    pub(crate) fn pace(&self) -> Option<Pace> {
        match &self.control {
            Control::Aimd(_) => None,
            Control::Dcqcn(dcqcn) => dcqcn
                .reaction()
                .map(|Reaction { rate, alpha }| Pace { rate, alpha }),
        }
    }
}

/// Whether a window has room for many turns of whole sends.
fn is_wide(window: u32) -> bool {
    window >= WIDE_TURNS * WIDE_TURN_WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::turns::Begun;
    use crate::port::socket_window;

    #[test]
    fn the_default_buffer_of_a_user_bounds_the_window() {
        let c = Congestion::new(CongestionControl::Aimd, socket_window(425_984));
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
        assert_eq!(c.turn(), TURN_BYTES);
    }

    #[test]
    fn turns_of_a_wide_window_are_whole_sends() {
        let c = Congestion::new(CongestionControl::Aimd, socket_window(8 << 20));
        for _ in 0..1000 {
            let (bytes, rtt) = (65_536, None);
            c.signal(Time::ZERO, PathSignal::Acked { bytes, rtt });
        }
        // One that is alone has all of it.
        let begin = |index| c.turns.begin(index, c.limit(), false);
        assert!(matches!(begin(0), Begun::Turn(_)));
        assert_eq!(c.share(), 3 << 20);
        assert_eq!(c.limit(), 25);
        for index in 1..25 {
            assert!(matches!(begin(index), Begun::Turn(_)));
            assert_eq!(c.share() % SEND_BYTES, 0);
            assert!(c.share() * u32::from(index + 1) <= 3 << 20);
        }
        assert_eq!(begin(25), Begun::Waits { alone: true });
        assert_eq!(c.share(), WIDE_TURN_WINDOW);
        assert_eq!(c.turn() % u64::from(SEND_BYTES), 0);
    }
}
