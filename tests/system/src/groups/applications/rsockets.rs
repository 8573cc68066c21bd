//! Programs of TCP over rsockets (`librspreload.so`), beside those of the group `cm`.

use std::fs;
use std::process::Stdio;

use super::running::{Meter, command, expect_success, name};
use crate::groups::cm::sockets::{content, needs_dynamic_busybox, preloaded};
use crate::groups::cm::{LIMIT, TCP, wait_for_listener};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::{Lab, Place};

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let mut cases = vec![Case::new(name(place, "iperf over rsockets"), move |lab| {
        iperf(lab, place)
    })];
    // BusyBox' nc listens at addresses of IPv4.
    if !place.is_ipv6() {
        let name = name(place, "curl over rsockets");
        cases.push(Case::new(name, move |lab| curl(lab, place)));
    }
    cases
}

/// curl connects without waiting (`O_NONBLOCK`) and polls; what it gets is compared.
fn curl(lab: &mut Lab, place: Place) -> Ending {
    needs_dynamic_busybox()?;
    let (dir, port) = (lab.case_dir()?, lab.port());
    let site = lab.site(place)?;
    let answer = dir.join("answer");
    let head = format!(
        "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n",
        content().len()
    );
    fs::write(&answer, [head.as_bytes(), &content()].concat()).map_err(anyhow::Error::from)?;
    let meter = Meter::start(site)?;

    let mut server = preloaded(site.server(), "busybox")?;
    server.args(["nc", "-l", "-p", &port.to_string()]);
    let input = Stdio::from(fs::File::open(&answer).map_err(anyhow::Error::from)?);
    let mut server = process::spawn_with(server, input, &dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let mut client = preloaded(site.client(), "curl")?;
    let url = format!("http://{}:{port}/", site.server().address);
    client.args(["--silent", "--show-error", "--noproxy", "*", "--output"]);
    client.arg(dir.join("got")).arg(url);
    let client = process::run(client, &dir, "client", LIMIT)?;

    // It stays for as long as its own input is open.
    let server = server.kill();

    expect_success(&[&client])?;
    if fs::read(dir.join("got")).unwrap_or_default() != content() {
        return Err(Stop::with(
            "what arrived is not what was sent",
            &[&client, &server],
        ));
    }

    meter.expect(content().len() as u64, &[&client, &server])
}

/// iperf 2, with reads and writes that wait.
fn iperf(lab: &mut Lab, place: Place) -> Ending {
    const BYTES: u64 = 64 << 20;

    let (dir, port) = (lab.case_dir()?, lab.port());
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let port_word = port.to_string();
    let mut server = preloaded(site.server(), "iperf")?;
    server.args(["-s", "-P", "1", "-p", &port_word]);
    if place.is_ipv6() {
        server.arg("-V");
    }

    let mut server = process::spawn(server, &dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let bytes = BYTES.to_string();
    let words = [
        "-c",
        &site.server().address,
        "-p",
        &port_word,
        "-n",
        &bytes,
        "-f",
        "k",
    ];

    let mut client = command(site.client(), "iperf", &words);
    if place.is_ipv6() {
        client.arg("-V");
    }

    let library = preloaded(site.client(), "iperf")?;
    client.envs(
        library
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );

    let client = process::run(client, &dir, "client", LIMIT)?;
    let server = server.kill();

    expect_success(&[&client])?;
    if !client.out.contains("Kbits/sec") {
        return Err(Stop::with("no figure", &[&client, &server]));
    }

    meter.expect(BYTES, &[&client, &server])
}
