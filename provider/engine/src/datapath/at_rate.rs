//! What connections with acknowledgements send while marks of congestion have their path held to a
//! rate: data waits for it, requests and answers alike. Acknowledgements and CNPs do not.

use ferroce_transport::{Qp as Transport, Time, TransmitOpts};

use crate::datapath::congestion::Congestion;
use crate::datapath::qp_host::QpHost;
use crate::datapath::tx::Run;
use crate::progress::timers;

/// Sends what the rate and the window allow; no requests without a window. Returns when to go on
/// with what waits for the rate.
#[cold]
pub(super) fn send(
    transport: &mut Transport,
    congestion: &Congestion,
    (now, window, opts): (Time, Option<u32>, TransmitOpts),
    host: &mut QpHost<'_>,
    run: &mut Run<'_>,
) -> Time {
    loop {
        let allowance = match congestion.allowance(timers::now()) {
            Ok(bytes) => bytes,
            Err(later) => {
                let answers = transport.acknowledge(host, run);
                let requests = transport.has_requests_to_send() || transport.is_recovering();
                let waits = answers || window.is_some() && requests;
                return if waits { later } else { Time::MAX };
            }
        };

        let budget = u32::try_from(allowance)
            .unwrap_or(u32::MAX)
            .min(opts.budget);
        let opts = TransmitOpts { budget, ..opts };
        let more = match window {
            Some(_) => transport.transmit(now, opts, host, run),
            None => transport.respond(opts, host, run),
        };

        // What was sent counts for the next look at the rate.
        ferroce_transport::Sink::flush(run);
        if !more {
            return Time::MAX;
        }
    }
}
