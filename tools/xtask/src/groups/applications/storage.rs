//! Storage: fio's engine `rdma`.

use std::process::Command;
use std::time::Duration;

use super::{LIMIT, Meter, command, expect_success, name};
use crate::case::{Case, Ending, Stop};
use crate::groups::cm::{TCP, wait_for_listener};
use crate::host::Host;
use crate::lab::{Lab, Place};
use crate::process;

/// How much a run transfers, in blocks of 4 KiB.
const BYTES: u64 = 2 << 20;

pub(super) fn cases(place: Place) -> Vec<Case> {
    // The engine knows addresses of IPv4 only.
    if place.is_ipv6() {
        return Vec::new();
    }
    // Sends go out whether receives are posted or not, without retries: here all receives are posted before the first.
    [
        ("write", 16, 16, BYTES),
        ("read", 16, 16, BYTES),
        ("send", 1, 128, 100 * 4096),
    ]
    .into_iter()
    .map(|(verb, depth, server_depth, bytes)| {
        let what = format!("fio, verb={verb}");
        Case::new(name(place, &what), move |lab| {
            fio(lab, place, verb, [depth, server_depth], bytes)
        })
    })
    .collect()
}

fn fio(lab: &mut Lab, place: Place, verb: &str, depths: [u32; 2], bytes: u64) -> Ending {
    let (dir, port) = (lab.case_dir()?, lab.port());
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let job = |host: &Host, direction: &str, depth: u32| -> Command {
        let words = [
            "--name=job".to_owned(),
            "--ioengine=rdma".to_owned(),
            format!("--port={port}"),
            format!("--verb={verb}"),
            format!("--rw={direction}"),
            "--bs=4k".to_owned(),
            format!("--size={bytes}"),
            format!("--iodepth={depth}"),
            "--output-format=json".to_owned(),
        ];
        command(host, "fio", &words)
    };
    let mut server = process::spawn(job(site.server(), "read", depths[1]), &dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let mut client = job(site.client(), "write", depths[0]);
    client.arg(format!("--hostname={}", site.server().address));
    let client = process::run(client, &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, Duration::from_secs(30));

    expect_success(&[&client, &server])?;
    // Messages of the program's own may stand before it.
    let json = client.out.find('{').map_or("", |at| &client.out[at..]);
    let report: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let written = &report["jobs"][0]["write"]["io_bytes"];
    if written.as_u64() != Some(bytes) || report["jobs"][0]["error"] != 0 {
        return Err(Stop::with(
            format!("{written} bytes of {bytes}"),
            &[&client, &server],
        ));
    }
    meter.expect(bytes, &[&client, &server])
}
