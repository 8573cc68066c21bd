//! What the CM wants sent and told, kept until whoever called it has time.

use std::collections::VecDeque;

use ferroce_fabric::cm::{Av, CmEvent, CmId, Sink};
use ferroce_wire::mad::Mad;

/// MADs and events under way.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// To be sent, in order.
    pub mads: Vec<(Av, Mad)>,
    /// To be handled, in order.
    pub events: VecDeque<(CmId, CmEvent)>,
}

impl Sink for Outbox {
    fn send(&mut self, to: &Av, mad: &Mad) {
        self.mads.push((*to, *mad));
    }

    fn event(&mut self, id: CmId, event: CmEvent) {
        self.events.push_back((id, event));
    }
}
