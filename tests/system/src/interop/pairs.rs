//! Programs whose two ends tell each other over TCP where their queue pairs are: perftest's, and
//! the pingpongs of libibverbs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::field::{Family, Field, Side};
use super::patience::{LIMIT, LISTEN_LIMIT, patience};
use super::setting::Setting;
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::programs::perftest::Ends;

/// The largest size of perftest's `-a`.
const LARGEST: u64 = 8 << 20;

/// Both ends of a program that exchanges addresses over TCP: `extra` gives each side's further
/// options.
fn pair(
    field: &Field,
    setting: &Setting,
    line: &str,
    port: u16,
    dir: &Path,
    extra: impl Fn(Side) -> Result<Vec<String>, Stop>,
) -> Result<Ends, Stop> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let command = |side: Side| -> Result<Command, Stop> {
        let mut command = field.command(side, words[0]);
        command.args(&words[1..]).args(extra(side)?);
        command.args(["-p", &port.to_string()]);
        Ok(command)
    };
    let mut server = process::spawn(command(setting.server)?, dir, "server")?;
    if !server.listens(port, LISTEN_LIMIT) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let mut client = command(setting.server.other())?;
    client.arg(setting.server.address(Family::V4));

    // Many megabytes, and so an exception.
    let limit = if has_all_sizes(line) {
        3 * LIMIT
    } else {
        LIMIT
    };
    let client = process::run(client, dir, "client", limit)?;
    let server = server.finish(patience(&client));
    Ok(Ends { server, client })
}

/// Whether perftest is told to try all sizes.
fn has_all_sizes(line: &str) -> bool {
    line.split_whitespace().any(|word| word == "-a")
}

pub(super) fn perftest(
    field: &Field,
    setting: &Setting,
    line: &str,
    port: u16,
    dir: &Path,
) -> Ending {
    let ends = pair(field, setting, line, port, dir, |side| {
        let gid = field.gid_index(side, setting.family)?;
        Ok(["-F", "-d", side.device(), "-x", &gid.to_string()]
            .map(str::to_owned)
            .to_vec())
    })?;
    ends.clean()?;
    let all = has_all_sizes(line);
    let rows = ends.table(if all { LARGEST.ilog2() as usize } else { 1 })?;
    if all && rows.last().is_none_or(|row| row.bytes != LARGEST) {
        return Err(ends.fail(format!("the last row is not that of {LARGEST} bytes")));
    }
    Ok(())
}

pub(super) fn pingpong(
    field: &Field,
    setting: &Setting,
    line: &str,
    port: u16,
    dir: &Path,
) -> Ending {
    let mtu = field.path_mtu().to_string();
    let retries = || field.rxe_counter("completer_retry_err");
    let before = retries()?;
    let ends = pair(field, setting, line, port, dir, |side| {
        let gid = field.gid_index(side, setting.family)?.to_string();
        let mut options = vec!["-d", side.device(), "-g", &gid];
        if !line.starts_with("ibv_ud") {
            options.extend(["-m", &mtu]);
        }
        Ok(options.into_iter().map(str::to_owned).collect())
    })?;

    let retries = retries()? - before;
    let (rxe, ferroce) = match setting.server {
        Side::Rxe => (&ends.server, &ends.client),
        Side::Ferroce => (&ends.client, &ends.server),
    };

    let mut whole = vec![&ends.client, &ends.server];
    let lacks_an_acknowledgement = left_alone(rxe, ferroce)
        || left_alone(ferroce, rxe)
        || asks_for_ever(rxe, ferroce, retries);
    if setting.bad && lacks_an_acknowledgement {
        whole.retain(|finished| finished.success());
    } else {
        ends.clean()?;
    }

    for finished in whole {
        if finished.out.contains("invalid data") {
            return Err(ends.fail("the received bytes are wrong".to_owned()));
        }
        if !finished.out.contains(" iters in ") {
            return Err(ends.fail("the result is missing".to_owned()));
        }
    }

    Ok(())
}

/// Whether all that an end of a pingpong lacks is the acknowledgement of its last message: where it
/// is lost nobody is there any more to repeat it, as the other end, which has all that it waits
/// for, has left.
fn left_alone(end: &Finished, other: &Finished) -> bool {
    const SEND_FAILED: &str = "Failed status transport retry counter exceeded (12) for wr_id 2";
    // ibv_rc_pingpong adds how many completions it has polled, ibv_srq_pingpong does not.
    const POLLED: &str = "parse WC failed ";
    let mut said = end.err.lines().filter(|line| !line.trim().is_empty());
    end.code() == Some(1)
        && said.next() == Some(SEND_FAILED)
        && said.next().is_none_or(|line| line.starts_with(POLLED))
        && said.next().is_none()
        && other.success()
        && other.out.contains(" iters in ")
}

/// Whether all that rdma_rxe's end of a pingpong lacks is the acknowledgement of its last message,
/// as above: told to try seven times, as this program tells it, it tries without end. `retries`:
/// how often it did during the run.
fn asks_for_ever(rxe: &Finished, other: &Finished, retries: u64) -> bool {
    // It waits 67 ms each time, until its end is killed.
    let tries = LIMIT.as_millis() as u64 / 67;
    rxe.status.is_none()
        && rxe.err.trim().is_empty()
        && retries > tries / 2
        && other.success()
        && other.out.contains(" iters in ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn only_the_last_acknowledgement_may_be_missing() {
        let finished = |code: i32, out: &str, err: &str| Finished {
            line: "ibv_rc_pingpong".to_owned(),
            status: Some(ExitStatus::from_raw(code << 8)),
            out: out.to_owned(),
            err: err.to_owned(),
            elapsed: Duration::ZERO,
        };
        let done = finished(0, "50 iters in 0.23 seconds = 4504.74 usec/iter", "");
        let lost = "Failed status transport retry counter exceeded (12) for wr_id 2\n";
        assert!(left_alone(&finished(1, "", lost), &done));
        let counted = format!("{lost}parse WC failed 2\n");
        assert!(left_alone(&finished(1, "", &counted), &done));

        // The other end must have had all of it.
        assert!(!left_alone(&finished(1, "", lost), &finished(1, "", lost)));
        let flushed = "Failed status Work Request Flushed Error (5) for wr_id 1\n";
        for said in ["", flushed, &lost.repeat(2), &counted.repeat(2)] {
            assert!(!left_alone(&finished(1, "", said), &done), "{said:?}");
        }
        let killed = Finished {
            status: None,
            ..finished(0, "", "")
        };
        assert!(asks_for_ever(&killed, &done, 800));

        // A server that has not got the last message does not ask.
        assert!(!asks_for_ever(&killed, &done, 20));
        assert!(!asks_for_ever(&killed, &finished(1, "", lost), 800));
        assert!(!asks_for_ever(&finished(1, "", lost), &done, 800));
    }
}
