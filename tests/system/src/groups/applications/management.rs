//! What looks at a fabric beside OpenSM and its diagnostics: ibacm, which resolves names by
//! multicast and paths by the subnet administrator, and librdmacm by it; `ibdiagnet`; `srp_daemon`.

use std::fs;
use std::path::Path;

use crate::groups::fabric::{TCP, activate, back_to_back, connect};
use crate::harness::case::{Case, Ending, Stop, expect};
use crate::harness::process::{Finished, Running};
use crate::lab::Lab;
use crate::lab::subnet::{Subnet, address};
use crate::packages;

/// ibacm's own `/run`, with its socket and nobody else's: programs of librdmacm ask whoever is
/// there.
const OWN_RUN: &str = r#"mount -t tmpfs tmpfs /run && exec "$0" "$@""#;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("applications/fabric/ibacm", names),
        Case::new("applications/fabric/ibdiagnet", diagnosis),
        Case::new("applications/fabric/srp_daemon", targets),
    ]
}

/// Both hosts have an ibacm, and ask it for the other one by name, by LID, and for its address by
/// librdmacm.
fn names(lab: &mut Lab) -> Ending {
    packages::ensure(packages::MANAGEMENT)?;
    let (dir, port) = (lab.case_dir()?, lab.port());
    let mut subnet = back_to_back(lab)?;
    let _manager = activate(&mut subnet)?;
    let services = [serve(&mut subnet, 0, &dir)?, serve(&mut subnet, 1, &dir)?];

    const GOOD: &str = "SA verification: success";
    let by_name = ["ib_acme", "-f", "n", "-s", "host2", "-d", "host1", "-v"];
    let by_name = inside(&services[1], &by_name);
    subnet.wait_for(1, &words(&by_name), GOOD)?;
    let by_lid = inside(
        &services[0],
        &["ib_acme", "-f", "l", "-s", "1", "-d", "2", "-v"],
    );
    subnet.expect(0, &words(&by_lid), &[GOOD])?;

    let asked = resolved(&mut subnet, 1, &services[1])?;
    let server = inside(&services[0], &["rdma_server"]);
    let client = inside(&services[1], &["rdma_client", "-s", &address(1)]);
    connect(
        &mut subnet,
        (0, 1),
        (&words(&server), &words(&client)),
        TCP,
        port,
    )?;
    let more = resolved(&mut subnet, 1, &services[1])? - asked;
    expect(more > 0, || format!("librdmacm asked for {more} addresses"))
}

/// ibacm on a host, which is `host1` or `host2` and an address of the port's.
fn serve(subnet: &mut Subnet, host: usize, dir: &Path) -> Result<Running, Stop> {
    let number = host + 1;
    let file = |kind: &str, text: &str| {
        let file = dir.join(format!("ibacm{number}.{kind}"));
        fs::write(&file, text).map_err(anyhow::Error::from)?;
        Ok::<_, Stop>(file.display().to_string())
    };
    let log = dir.join(format!("ibacm{number}.log"));
    let options = format!(
        "log_file {}\nlock_file {}.pid\nlog_level 2\nserver_mode unix\nprovider ibacmp default\n",
        log.display(),
        log.display()
    );
    let options = file("opts", &options)?;
    let names = format!(
        "host{number} ferroce0 1 default\n{} ferroce0 1 default\n",
        address(number)
    );
    let names = file("addr", &names)?;
    let program = packages::which("ibacm").unwrap_or_default();
    let program = program.display().to_string();
    let mut line = vec!["unshare"];
    line.push(if is_root() { "-m" } else { "-rm" });
    line.extend(["sh", "-c", OWN_RUN, &program]);
    line.extend(["-P", "-O", &options, "-A", &names]);
    subnet.spawn(host, &line)
}

/// A line that is run with an ibacm's `/run`.
fn inside(service: &Running, line: &[&str]) -> Vec<String> {
    let id = service.id().to_string();
    let mut enter = vec!["nsenter", "-t", &id, "-m"];
    if !is_root() {
        enter.extend(["-U", "--preserve-credentials"]);
    }
    enter.extend(line);
    enter.into_iter().map(str::to_owned).collect()
}

fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// How many destinations an ibacm was asked for.
fn resolved(subnet: &mut Subnet, host: usize, service: &Running) -> Result<i64, Stop> {
    let line = inside(service, &["ib_acme", "-P"]);
    let told = subnet.run(host, &words(&line))?;
    let mut lines = told.out.lines().filter(|line| line.contains(','));
    let (head, values) = (lines.next(), lines.next());
    let fields = |line: Option<&str>| -> Vec<String> {
        let fields = line.unwrap_or_default().split(',');
        fields.map(str::to_owned).collect()
    };
    let column = fields(head).iter().position(|name| name == "Resolve Count");
    let value = column.and_then(|column| fields(values).get(column)?.parse().ok());
    value.ok_or_else(|| Stop::with("no count of what was resolved", &[&told]))
}

/// ibdiagnet finds four hosts at two switches, and nothing wrong with them.
fn diagnosis(lab: &mut Lab) -> Ending {
    packages::ensure(packages::MANAGEMENT)?;
    let dir = lab.case_dir()?;
    let programs = lab.programs().to_owned();
    lab.vacate();
    let mut subnet = Subnet::two_switches(&programs, &dir, 4)?;
    let _manager = activate(&mut subnet)?;
    let files = dir.join("ibdiagnet").display().to_string();
    let told = subnet.run(2, &["ibdiagnet", "-o", &files])?;
    if !told.out.contains("No bad link were found") {
        return Err(Stop::with("links are bad", &[&told]));
    }
    for stage in [
        "Bad GUIDs/LIDs Check",
        "Link State Active Check",
        "General Devices Info Report",
        "Performance Counters Report",
        "Partitions Check",
    ] {
        let is_clean = |line: &str| {
            line.split_whitespace()
                .collect::<Vec<_>>()
                .ends_with(&["0", "0"])
        };
        let mut lines = told.out.lines().filter(|line| line.contains(stage));
        if !lines.any(is_clean) {
            return Err(Stop::with(format!("{stage}: not clean"), &[&told]));
        }
    }
    // Each link once: to the hosts, and between the switches.
    let list = fs::read_to_string(Path::new(&files).join("ibdiagnet.lst"));
    let list = list.map_err(anyhow::Error::from)?;
    let links = list.lines().filter(|line| line.starts_with('{')).count();
    expect(links == 4 + 2, || {
        format!("{links} links are found:\n{list}")
    })
}

/// There are no targets of the SCSI RDMA Protocol, and both programs find that out.
fn targets(lab: &mut Lab) -> Ending {
    packages::ensure(packages::MANAGEMENT)?;
    let mut subnet = back_to_back(lab)?;
    let _manager = activate(&mut subnet)?;
    let none = |told: &Finished| expect(!told.out.contains("id_ext"), || told.out.clone());
    const DEVICE: &str = "/dev/infiniband/umad0";
    none(&subnet.run(1, &["ibsrpdm", "-c", "-d", DEVICE])?)?;
    none(&subnet.run(1, &["srp_daemon", "-o", "-a", "-c", "-d", DEVICE])?)
}
