//! iSER: a disk of tgt's, which libiscsi asks about and QEMU's tools fill and read, by libiscsi
//! again.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::running::{LIMIT, Meter, command, content, expect_success, in_url, name};
use crate::groups::cm::{TCP, wait_for_listener};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::{Lab, Place, Site};

/// The disk's size.
const BYTES: usize = 8 << 20;
/// tgt takes no other: its option for it looks at an `errno` that nothing has cleared.
const PORT: u16 = 3260;
const TARGET: &str = "iqn.2026-01.test:disk";
/// What QEMU's tools call themselves.
const INITIATOR: &str = "iqn.2008-11.org.linux-kvm";
/// libiscsi's buffers for iSER are of this size, and it does not look whether a transfer fits.
const BLOCK: &str = "bs=256k";

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let what = "tgt and libiscsi over iSER";
    vec![Case::new(name(place, what), move |lab| disk(lab, place))]
}

fn disk(lab: &mut Lab, place: Place) -> Ending {
    let (dir, port) = (lab.case_dir()?, lab.port());

    // The path of a Unix socket is short.
    let control = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let content = content(BYTES);
    let paths = ["content", "disk", "back"].map(|file| dir.join(file));
    let [given, disk, back] = &paths;
    fs::write(given, &content).map_err(anyhow::Error::from)?;
    fs::write(disk, vec![0; BYTES]).map_err(anyhow::Error::from)?;

    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let target = serve(site, &dir, control.path(), port)?;
    let all = inquire_and_copy(site, &dir, &paths.each_ref().map(|path| path.as_path()));
    let target = target.kill();

    let [inquiry, stranger, wrote, read] = &all?;
    expect_success(&[inquiry, wrote, read])?;
    if !inquiry.out.contains("VIRTUAL-DISK") {
        return Err(Stop::with("no word of the disk", &[inquiry, &target]));
    }

    // An initiator that the target does not know is told so.
    let told = stranger.out.contains("not found") || stranger.err.contains("not found");
    if stranger.success() || !told {
        return Err(Stop::with("not refused", &[stranger, &target]));
    }

    for (file, end) in [(disk, wrote), (back, read)] {
        if fs::read(file).map_err(anyhow::Error::from)? != content {
            let what = format!("{} is not what was written", file.display());
            return Err(Stop::with(what, &[end, &target]));
        }
    }

    meter.expect(2 * BYTES as u64, &[wrote, read, &target])
}

/// An initiator's question, a stranger's, and a copy each way.
fn inquire_and_copy(
    site: &Site,
    dir: &Path,
    [content, _, back]: &[&Path; 3],
) -> Result<[Finished; 4], Stop> {
    let address = in_url(&site.server().address);
    let url = format!("iser://{address}:{PORT}/{TARGET}/1");
    let run = |program: &str, words: &[&str], name: &str| {
        process::run(command(site.client(), program, words), dir, name, LIMIT)
    };
    let copy = |from: String, to: String, name: &str| {
        let words = ["dd", "-f", "raw", "-O", "raw", BLOCK, &from, &to];
        run("qemu-img", &words, name)
    };

    let inquiry = run("iscsi-inq", &["-i", INITIATOR, &url], "inquiry")?;
    let stranger = run(
        "iscsi-inq",
        &["-i", "iqn.2026-01.test:other", &url],
        "stranger",
    )?;

    let wrote = copy(
        format!("if={}", content.display()),
        format!("of={url}"),
        "write",
    )?;

    let read = copy(
        format!("if={url}"),
        format!("of={}", back.display()),
        "read",
    )?;
    Ok([inquiry, stranger, wrote, read])
}

/// tgt, with the disk, for one initiator at any address. It asks for both.
fn serve(site: &Site, dir: &Path, control: &Path, port: u16) -> Result<Running, Stop> {
    const SOCKET: &str = "TGT_IPC_SOCKET";

    let host = site.server();
    let socket = control.join("tgt");

    // There is no target without a listener of TCP, which nobody is told of.
    let portal = format!("portal={}:{port}", in_url(&host.address));
    let words = ["-f", "--iscsi", &portal, "--iser", "pool_sz_mb=128"];
    let mut target = command(host, "tgtd", &words);
    target.env(SOCKET, &socket);
    let mut target = process::spawn(target, dir, "tgtd")?;
    let listens = wait_for_listener(&mut target, host, TCP, PORT)
        && target.wait_until(Duration::from_secs(30), |_| {
            UnixStream::connect(control.join("tgt.0")).is_ok()
        });

    if !listens {
        let target = target.kill();
        return Err(Stop::with("tgt does not come to listen", &[&target]));
    }

    let disk = dir.join("disk").display().to_string();
    for (index, line) in [
        &["new", "--mode", "target", "-T", TARGET][..],
        &["new", "--mode", "logicalunit", "--lun", "1", "-b", &disk],
        &["bind", "--mode", "target", "-I", "ALL"],
        &["bind", "--mode", "target", "--initiator-name", INITIATOR],
    ]
    .into_iter()
    .enumerate()
    {
        let mut order = host.plain("tgtadm");
        order
            .args(["--lld", "iser", "--tid", "1", "--op"])
            .args(line);
        order.env(SOCKET, &socket);
        let done = process::run(order, dir, &format!("tgtadm{index}"), LIMIT)?;
        if !done.success() {
            let target = target.kill();
            return Err(Stop::with(done.ending(), &[&done, &target]));
        }
    }

    Ok(target)
}
