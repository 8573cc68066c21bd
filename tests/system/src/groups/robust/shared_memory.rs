//! Group `robust`, continued: no room for the counters by which UC and UD are paced. Traffic goes
//! on without them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::groups::robust::trust::{SOON, well};
use crate::harness::case::{Case, Ending, Stop, expect};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::holder::{Holder, INSIDE};
use crate::lab::host::Host;
use crate::lab::netns::Enter;
use crate::programs::perftest::{MULTICAST, Pair, Runs};

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("robust/a full /dev/shm", full),
        Case::new("robust/programs that may not make files", no_files),
    ]
}

/// A namespace of mounts with a `/dev/shm` that is full.
struct Full(Holder);

impl Full {
    fn new() -> Result<Full, Stop> {
        if !rustix::process::geteuid().is_root() {
            return Err(Stop::Skip("only root can mount".to_owned()));
        }
        let script = format!(
            "mount -t tmpfs -o size=64k shm /dev/shm || exit\n\
             head -c 65536 /dev/zero >/dev/shm/full\n\
             echo {INSIDE}; exec cat"
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c", &script]);
        Holder::start(unshare)
            .map(Full)
            .map_err(|error| Stop::Skip(format!("mounts are not allowed here: {error:#}")))
    }
}

impl Enter for Full {
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.0.id().to_string(), "-m", "--wd=.", "--"]);
        command
    }
}

/// Neither daemon nor programs are killed by what they cannot write to, and `ferroce doctor` says
/// what is missing.
fn full(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let place = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let inside = Box::new(Full::new()?);
    let runtime = place.path().join("runtime");
    let mut host = Host::inside(inside, lab.programs(), &runtime, "127.0.0.1").without_loopback();
    host.up()?;
    traffic(lab, &host, &dir)?;

    let mut doctor = host.ferroce();
    doctor.arg("doctor");
    let doctor = process::run(doctor, &dir, "doctor", SOON)?;
    let mut list = host.plain("ls");
    list.arg("/dev/shm");
    let left = process::run(list, &dir, "ls", SOON)?;
    host.down()?;
    well(&doctor)?;
    let told = |line: &str| line.starts_with("note") && line.contains("No space left");
    if !doctor
        .out
        .lines()
        .any(|line| told(line) && line.contains("/dev/shm"))
    {
        return Err(Stop::with("no word of the full /dev/shm", &[&doctor]));
    }
    expect(left.out.trim() == "full", || {
        format!("left behind: {}", left.out)
    })
}

/// Programs whose files may have no more than a kibibyte (`ulimit -f`).
struct Limited<'a>(&'a Host);

impl Runs for Limited<'_> {
    fn program(&self, name: &str) -> Command {
        let run = self.0.run(name);
        let mut command = self.0.plain("bash");
        // What they say goes to a file, too.
        let script = r#"set -o pipefail; (ulimit -f 1; exec "$@") 2>&1 | cat"#;
        command.args(["-c", script, "bash"]);
        command.arg(run.get_program()).args(run.get_args());
        command
    }

    fn address(&self) -> &str {
        &self.0.address
    }
}

/// Nobody is killed (SIGXFSZ) who may not write a page.
fn no_files(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?.without_loopback();
    host.up()?;
    let ending = traffic(lab, &Limited(&host), &dir);
    host.down()?;
    ending
}

/// UC, UD and multicast, between processes of one machine.
fn traffic(lab: &mut Lab, host: &dyn Runs, dir: &Path) -> Ending {
    for line in [
        "ib_send_bw -F -n 100 -s 1024 -c UC".to_owned(),
        "ib_send_bw -F -n 100 -s 1024 -c UD".to_owned(),
        format!("ib_send_bw -F -n 100 -s 1024 -r 512 {MULTICAST}"),
    ] {
        let ends = Pair::of(&line, lab.port(), LIMIT).run(host, host, dir)?;
        for end in [&ends.client, &ends.server] {
            if !end.success() {
                let ends = [&ends.client, &ends.server];
                return Err(Stop::with(format!("{line}: {}", end.ending()), &ends));
            }
        }
    }
    Ok(())
}
