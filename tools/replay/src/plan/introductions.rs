//! When a queue pair was told that its peer may understand selective acknowledgements. No record
//! says so, but what it sends shows it from then on.

use ferroce_transport::QpState;

use crate::subject::{Event, Timed};

/// The events, with each introduction among them: right behind the last packet that was sent
/// without the bit, if there is one with it later in the same connection. It may have come later,
/// which would have made a difference only to requests with the bit that came in between.
pub(super) fn noted(events: Vec<Timed<'_>>) -> Vec<Timed<'_>> {
    let mut noted: Vec<Timed<'_>> = Vec::with_capacity(events.len() + 1);
    // Where it belongs, once there is a packet that shows it.
    let mut place = Some(0);
    let mut is_set = false;
    for timed in events {
        let belongs_behind = match &timed.event {
            // A connection begins, or the capture does.
            Event::SetTo(set) => {
                let first = !std::mem::replace(&mut is_set, true);
                first || matches!(set.state, QpState::Reset | QpState::Init)
            }
            Event::Sent(packet) if packet.bth.selective => {
                if let Some(place) = place.take() {
                    let time = noted.get(place).map_or(timed.time, |next| next.time);
                    let event = Event::Introduced;
                    noted.insert(place, Timed { time, event });
                }
                false
            }
            Event::Sent(packet) => {
                place.is_some() && (packet.info.is_request() || packet.info.is_response())
            }
            _ => false,
        };
        noted.push(timed);
        if belongs_behind {
            place = Some(noted.len());
        }
    }
    noted
}
