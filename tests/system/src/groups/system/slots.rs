//! What a user of the machine's device has of a slot that has become another user's: nothing.

use super::{LIMIT, SOON, Site, said, users};
use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::machine::MEMBERS;

/// Takes all slots, lets them go, keeps their sockets, and looks at what comes there.
const KEEP: &str = include_str!("keep.py");

/// One user has had all slots, so that another gets one that was his, and still reads no packet of
/// the new owner's: not of a transfer, and none when he has packets come to his sockets that are
/// for others.
pub(super) fn passed_on(lab: &mut Lab) -> Ending {
    let site = Site::new(lab)?;
    said(&site.ferroce("enable", &["system", "enable"])?, &[])?;
    let script = site.dir.join("keep.py");
    std::fs::write(&script, KEEP).map_err(anyhow::Error::from)?;
    let command = site.machine.login(MEMBERS[1], "/usr/bin/python3 -");
    let input = std::fs::File::open(&script).map_err(anyhow::Error::from)?;
    let mut keeper = process::spawn_with(command, input.into(), &site.dir, "keeper")?;
    if !keeper.wait_until(LIMIT, |keeper| keeper.output().contains("kept: 255")) {
        return Err(Stop::with("does not have all slots", &[&keeper.kill()]));
    }

    let waiting = users::hold(&site, "server", MEMBERS[0])?;
    let status = site.daemon("status")?;
    let clients = status["clients"].as_array().into_iter().flatten();
    let slot = clients.filter_map(|client| client["slot"].as_u64()).next();
    let slot = slot.ok_or_else(|| Stop::fail(format!("nobody has a slot in {status}")))?;
    let tell = format!("echo {slot} >/run/slot.new && mv /run/slot.new /run/slot");
    said(&site.root("slot", &["sh", "-c", &tell])?, &[])?;
    if !keeper.wait_until(SOON, |keeper| keeper.output().contains("looking")) {
        return Err(Stop::with("does not look", &[&keeper.kill()]));
    }
    // Root's end, as packets between programs of one user may go through memory.
    users::release(&site, "client", "root", waiting)?;
    said(&site.root("over", &["touch", "/run/over"])?, &[])?;
    let kept = keeper.finish(LIMIT);
    said(
        &kept,
        &[
            "of a transfer: 0\n",
            "sent to the slot: 0\n",
            "without steering: 0\n",
            "drawn: 0\n",
        ],
    )?;
    said(&site.ferroce("disable", &["system", "disable"])?, &[])
}
