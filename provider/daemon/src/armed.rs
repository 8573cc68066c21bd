//! Faults that the daemon carries out itself, and how far each has come: those of requests for
//! connections (`ucma::faults`), and those of messages (`message_faults`).

use ferroce_control::CounterPage;
use ferroce_control::faults::{Course, Draw, Given, Lane};

/// A fault.
#[derive(Debug)]
pub(crate) struct Armed {
    pub(crate) given: Given,
    course: Course,
    /// Where its hits are counted.
    page: CounterPage,
}

impl Armed {
    /// Whether it hits what it is about this time; that is counted.
    pub(crate) fn draws(&mut self, lane: Lane) -> Option<Draw> {
        let draw = self.course.next(&self.given.fault, lane, false)?;
        self.page.hit(self.given.place);
        Some(draw)
    }

    /// How often it has hit.
    #[cfg(test)]
    pub(crate) fn hits(&self) -> u64 {
        self.page.hits(self.given.id, self.given.place)
    }
}

/// From now on the faults are these. What has begun goes on.
pub(crate) fn replace(armed: &mut Vec<Armed>, given: Vec<Given>, page: &CounterPage) {
    let old = std::mem::take(armed);
    let course = |id| {
        let known = old.iter().find(|armed| armed.given.id == id);
        known.map(|armed| armed.course)
    };
    let new = given.iter().filter(|given| course(given.id).is_none());
    let new: Vec<_> = new.map(|given| (given.id, given.place)).collect();
    page.take_faults(0, new);

    let begun = |given: Given| Armed {
        course: course(given.id).unwrap_or_default(),
        given,
        page: page.clone(),
    };
    armed.extend(given.into_iter().map(begun));
}
