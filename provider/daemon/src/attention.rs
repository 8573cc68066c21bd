//! When the loop waits awake for the next step of a connection.
//!
//! A connection is made step by step, by a program, its daemon, the peer's and the peer's program
//! in turn. Each answers within some ten microseconds, and a processor that has gone to sleep takes
//! longer than that to wake: so the daemon stays awake for a moment between two steps.

use std::time::Duration;

/// How long it waits awake.
pub(crate) const AWAKE: Duration = Duration::from_micros(150);
/// So often in vain. Then programs have to say something first: what comes from the network must
/// not keep a processor busy.
const MOST_IN_VAIN: u8 = 3;

/// Whether the next step is about to come.
#[derive(Debug, Default)]
pub(crate) struct Attention {
    is_due: bool,
    in_vain: u8,
}

impl Attention {
    /// A program has taken a step.
    pub(crate) fn program_spoke(&mut self) {
        self.is_due = true;
        self.in_vain = 0;
    }

    /// A peer may have taken one.
    pub(crate) fn network_spoke(&mut self) {
        self.is_due |= self.in_vain < MOST_IN_VAIN;
    }

    /// Whether to wait awake now, once.
    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Whether something came meanwhile.
    pub(crate) fn waited(&mut self, came: bool) {
        if !came {
            self.in_vain = self.in_vain.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_worth_one_wait() {
        let mut attention = Attention::default();
        assert!(!attention.take());
        attention.program_spoke();
        assert!(attention.take() && !attention.take());
        attention.waited(true);
        attention.network_spoke();
        assert!(attention.take() && !attention.take());
    }

    #[test]
    fn the_network_alone_keeps_nobody_awake() {
        let mut attention = Attention::default();
        for wait in 0..2 * MOST_IN_VAIN {
            attention.network_spoke();
            let waits = attention.take();
            assert_eq!(waits, wait < MOST_IN_VAIN);
            if waits {
                attention.waited(false);
            }
        }

        attention.program_spoke();
        assert!(attention.take());
        attention.network_spoke();
        assert!(attention.take());
    }
}
