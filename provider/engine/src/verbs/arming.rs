//! For which completions a queue sends its next event.

/// What a completion queue is armed for, and what it knows of the completions that it holds.
#[derive(Default)]
pub(crate) struct Arming {
    armed: Armed,
    /// Completions added so far.
    completions: u64,
    /// How many those were when the newest solicited or failed one had been added; 0 if there was
    /// none.
    newest_solicited: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Armed {
    #[default]
    No,
    Solicited,
    Any,
}

impl Arming {
    /// A completion was added. Returns whether the queue is armed for it; `solicited` if it is for
    /// a message with the solicited event bit, or failed.
    pub(crate) fn completed(&mut self, solicited: bool) -> bool {
        self.completions += 1;
        if solicited {
            self.newest_solicited = self.completions;
        }
        match self.armed {
            Armed::No => false,
            Armed::Solicited => solicited,
            Armed::Any => true,
        }
    }

    /// Arms the queue, which holds so many completions, for the next one (or the next solicited
    /// one). A request for any completion is not weakened by a later one for solicited completions
    /// only. Returns whether one that it would be armed for is there.
    pub(crate) fn arm(&mut self, solicited_only: bool, held: usize) -> bool {
        if !solicited_only {
            self.armed = Armed::Any;
        } else if self.armed == Armed::No {
            self.armed = Armed::Solicited;
        }
        match self.armed {
            Armed::Any => held != 0,
            _ => {
                self.newest_solicited != 0 && self.completions - self.newest_solicited < held as u64
            }
        }
    }

    /// The event was sent, or the queue ends.
    pub(super) fn disarm(&mut self) {
        self.armed = Armed::No;
    }
}

#[cfg(test)]
mod tests {
    use super::Arming;

    #[test]
    fn an_event_for_the_next_completion_only() {
        let mut arming = Arming::default();
        assert!(!arming.completed(false));
        assert!(!arming.arm(false, 0));
        assert!(arming.completed(false));
        arming.disarm();
        assert!(!arming.completed(true));
    }

    #[test]
    fn solicited_completions_are_told_from_others() {
        let mut arming = Arming::default();
        assert!(!arming.arm(true, 0));
        assert!(!arming.completed(false));
        assert!(arming.completed(true));
        arming.disarm();
        assert!(!arming.completed(false));
        // Two are held, the older of them solicited; then only the other.
        assert!(arming.arm(true, 2));
        assert!(!arming.arm(true, 1));
        assert!(arming.arm(false, 1));
        // Still armed for any.
        assert!(!arming.arm(true, 0));
        assert!(arming.completed(false));
    }
}
