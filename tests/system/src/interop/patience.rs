//! How long the two ends of a run may take: the guest is emulated, on a machine that may be busy.

use std::time::Duration;

use crate::harness::process::Finished;

/// How long an end may take.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// How long a server may take until it listens.
pub(super) const LISTEN_LIMIT: Duration = Duration::from_secs(30);
/// How long the other end may take when one has failed.
pub(super) const AFTERMATH: Duration = Duration::from_secs(2);

/// How long the server may take after its client.
pub(super) fn patience(client: &Finished) -> Duration {
    if client.success() { LIMIT } else { AFTERMATH }
}
