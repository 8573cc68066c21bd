//! Group `fabric`: stock OpenSM and infiniband-diags over ports of the InfiniBand link layer, and
//! what programs see of it.

mod changes;
mod data;
mod found;
mod large;
mod multicast;
mod ports;
mod programs;
mod rdma_cm;
mod robust;

use self::found::{ACTIVE, number_after};
pub(crate) use self::found::{activate, back_to_back};
use self::multicast::counted;
pub(crate) use self::rdma_cm::{TCP, connect};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::Finished;
use crate::lab::subnet::{LIMIT, Subnet};
use crate::lab::{Lab, Place};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("fabric/roce/ibstat and perfquery", roce),
        Case::new("fabric/back to back/diagnostics", diagnostics),
        Case::new("fabric/back to back/what ferroce shows", shown),
        Case::new("fabric/back to back/data over LIDs", data::over_lids),
        Case::new(
            "fabric/back to back/subnet manager killed and started again",
            changes::reregister,
        ),
        Case::new(
            "fabric/back to back/peer killed and returned",
            changes::peer_killed,
        ),
        Case::new(
            "fabric/back to back/port disabled and enabled",
            changes::disabled,
        ),
        Case::new("fabric/two switches/min-hop", |lab| eight(lab, "minhop")),
        Case::new("fabric/two switches/up-down", |lab| eight(lab, "updn")),
        Case::new("fabric/two switches/subnet manager fails over", failover),
    ];
    cases.extend(ports::cases());
    cases.extend(programs::cases());
    cases.extend(robust::cases());
    cases.extend(rdma_cm::cases());
    cases.extend(multicast::cases());
    cases.extend(large::cases());
    cases
}

/// With RoCE there is QP1 only: what the agents there say is what sysfs says.
fn roce(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let run = |name: &str, line: &str| {
        let mut command = host.run("sh");
        command.args(["-c", line]);
        command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
        crate::harness::process::run(command, &dir, name, LIMIT)
    };
    let ibstat = run("ibstat", "ibstat")?;
    let traffic = run(
        "pingpong",
        "ibv_rc_pingpong -g 0 -n 500 & for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; ibv_rc_pingpong -g 0 -n 500 127.0.0.1 2>&1 && break; done; wait",
    )?;

    let perfquery = run("perfquery", "perfquery -x")?;
    let sent = number_after(&perfquery.out, "PortXmitPkts:");
    run("reset", "perfquery -x -R")?;
    let reset = run("after", "perfquery -x")?;
    expect(
        number_after(&reset.out, "PortXmitPkts:").is_some_and(|n| n < 100),
        || reset.out.clone(),
    )?;

    let good = ibstat.out.contains(ACTIVE)
        && ibstat.out.contains("Link layer: Ethernet")
        && traffic.success()
        && perfquery.success()
        && sent.is_some_and(|sent| sent >= 1000);
    if good {
        return groups(lab, reset);
    }

    Err(Stop::with(
        format!("at least 1000 packets went out, and perfquery says {sent:?}"),
        &[&ibstat, &traffic, &perfquery],
    ))
}

/// What `mckey` sends to a group of RoCE, twenty messages, is told from the rest. The sender is a
/// member too, and may get copies.
fn groups(lab: &mut Lab, before: Finished) -> Ending {
    crate::groups::cm::single::multicast(lab, Place::OneDaemon, "-m")?;
    let dir = lab.case_dir()?;
    let mut command = lab.site(Place::OneDaemon)?.server().run("perfquery");
    command.arg("-x");
    let after = crate::harness::process::run(command, &dir, "groups", LIMIT)?;
    let counts = [counted(&before)?, counted(&after)?];
    let [sent, received] = [0, 1].map(|way| counts[1][way].wrapping_sub(counts[0][way]));
    expect(sent == 20 && (20..=40).contains(&received), || {
        format!("{counts:?} packets of groups")
    })
}

/// Both ports become active, and the stock programs say what is so.
fn diagnostics(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    subnet.wait_for(1, &["ibstat"], "State: Initializing")?;
    let manager = subnet.manage(0, &[])?;
    expect(manager.errors().is_empty(), || manager.errors().join("\n"))?;

    for host in 0..2 {
        let lid = format!("Base lid: {}", host + 1);
        // OpenSM is content a moment before the image shows why.
        subnet.wait_for(host, &["ibstat"], ACTIVE)?;
        subnet.expect(
            host,
            &["ibstat"],
            &[
                ACTIVE,
                "Physical state: LinkUp",
                &lid,
                "SM lid: 1",
                "Link layer: InfiniBand",
            ],
        )?;
    }

    subnet.expect(
        1,
        &["ibstatus"],
        &["base lid:\t 0x2", "4: ACTIVE", "5: LinkUp"],
    )?;

    subnet.expect(1, &["ibaddr"], &["LID start 0x2 end 0x2"])?;
    subnet.expect(1, &["sminfo"], &["sm lid 1", "SMINFO_MASTER"])?;

    for (operation, wanted) in [
        ("NI", "Channel Adapter"),
        ("ND", "ferroce0"),
        ("PI", "LinkState:.......................Active"),
        ("PKeys", "0xffff"),
        ("GI", "0x"),
    ] {
        subnet.expect(0, &["smpquery", operation, "2"], &[wanted])?;
        subnet.expect(0, &["smpquery", "-D", operation, "0,1"], &[wanted])?;
    }

    subnet.expect(1, &["saquery", "-p"], &["dlid....................1"])?;
    subnet.expect(1, &["saquery"], &["NodeRecord dump:"])?;
    subnet.expect(0, &["ibnetdiscover"], &["Ca\t1 \"H-", "4xEDR"])?;
    let mut server = subnet.spawn(0, &["ibping", "-S"])?;
    subnet.wait_for(1, &["ibping", "-c", "1", "1"], "1 received, 0% packet loss")?;
    expect(!server.ended_within(std::time::Duration::ZERO), || {
        "the ibping server has ended".to_owned()
    })?;
    server.kill();
    let perfquery = subnet.run(0, &["perfquery", "-x", "2", "1"])?;
    let sent = number_after(&perfquery.out, "PortXmitPkts:");
    expect(sent.is_some_and(|sent| sent > 0), || perfquery.out.clone())
}

/// `ferroce` tells of an InfiniBand port what there is to tell, and of no interface.
fn shown(lab: &mut Lab) -> Ending {
    let ferroce = lab.programs().join("ferroce").display().to_string();
    let mut subnet = back_to_back(lab)?;
    let _manager = activate(&mut subnet)?;
    let gid = subnet.run(1, &["ibaddr", "-g"])?.out;
    let gid = gid.split_whitespace().last().unwrap_or_default().to_owned();
    let port = "port 1: ACTIVE (LinkUp), InfiniBand, LID 2, subnet manager's LID 1, 100 Gb/sec";
    let wanted = [port, &gid, "10.9.0.2"];
    subnet.expect(1, &[&ferroce, "status"], &wanted)?;
    let json = subnet.run(1, &[&ferroce, "status", "--json"])?.out;
    expect(json.contains("\"addr\": \"10.9.0.2\""), || json.clone())?;
    subnet.expect(
        1,
        &[&ferroce, "metrics"],
        &["gids{device=\"ferroce0\"} 1.0\n"],
    )?;
    let devices = subnet.run(1, &[&ferroce, "devices"])?.out;
    let own = devices.lines().find(|line| line.starts_with("ferroce0"));
    expect(
        own.is_some_and(|own| !own.split_whitespace().any(|word| word == "lo")),
        || devices.clone(),
    )
}

/// Eight hosts on two switches, routed by an engine of OpenSM's.
fn eight(lab: &mut Lab, engine: &str) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut subnet = Subnet::two_switches(lab.programs(), &dir, 8)?;
    for host in 0..8 {
        subnet.wait_for(host, &["ibstat"], "Physical state: LinkUp")?;
    }
    let manager = subnet.manage(0, &["-R", engine])?;
    expect(manager.errors().is_empty(), || manager.errors().join("\n"))?;
    let count = |text: &str, word: &str| text.lines().filter(|l| l.starts_with(word)).count();
    let found = subnet.run(4, &["ibnetdiscover"])?;
    let (cas, switches) = (count(&found.out, "Ca\t"), count(&found.out, "Switch\t"));
    expect((cas, switches) == (8, 2), || found.out.clone())?;
    let hosts = subnet.run(7, &["ibhosts"])?;
    expect(count(&hosts.out, "Ca\t") == 8, || hosts.out.clone())?;
    let switches = subnet.run(3, &["ibswitches"])?;
    expect(count(&switches.out, "Switch\t") == 2, || {
        switches.out.clone()
    })?;
    let links = subnet.run(2, &["iblinkinfo"])?;

    // Every cable from both sides: eight to hosts, two between the switches.
    expect(links.out.matches("Active/  LinkUp").count() == 20, || {
        links.out.clone()
    })?;
    let lid = |finished: &crate::harness::process::Finished| {
        let line = finished
            .out
            .lines()
            .find_map(|l| l.trim().strip_prefix("Base lid: "));
        line.unwrap_or_default().to_owned()
    };
    let near = lid(&subnet.run(1, &["ibstat"])?);
    let far = lid(&subnet.run(6, &["ibstat"])?);
    let trace = subnet.run(1, &["ibtracert", &near, &far])?;
    expect(trace.out.matches("switch port").count() == 2, || {
        trace.out.clone()
    })?;
    let switch = switches
        .out
        .lines()
        .find_map(|l| l.split(" lid ").nth(1)?.split(' ').next());

    subnet.expect(
        5,
        &["ibroute", switch.unwrap_or_default()],
        &["Unicast lids"],
    )?;

    subnet.run(5, &["ibqueryerrors"])?;

    // What subnet administration says of all nodes, and of the way between two.
    let records = subnet.run(5, &["saquery"])?;
    expect(
        records.out.matches("NodeRecord dump:").count() == 10,
        || records.out.clone(),
    )?;

    let ends = format!("{near}:{far}");
    let [from, to] = [("slid", &near), ("dlid", &far)]
        .map(|(end, lid)| format!("{end}....................{lid}\n"));
    subnet.expect(2, &["saquery", "--src-to-dst", &ends], &[&from, &to])?;
    let server = subnet.spawn(6, &["ibping", "-S"])?;
    let all = "10 received, 0% packet loss";
    subnet.wait_for(1, &["ibping", "-f", "-c", "10", &far], all)?;
    server.kill();
    subnet.pair((1, 6), &["ibv_rc_pingpong", "-n", "300"], lab.port())?;
    subnet.pair((6, 2), &["ib_write_bw", "-F", "-n", "200"], lab.port())?;
    rdma_cm::rping(&mut subnet, (2, 7), lab.port())?;
    manager.stop()
}

/// Of two subnet managers one is master; when it dies, the other takes over.
fn failover(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut subnet = Subnet::two_switches(lab.programs(), &dir, 4)?;
    for host in 0..4 {
        subnet.wait_for(host, &["ibstat"], "Physical state: LinkUp")?;
    }
    let master = subnet.manage(0, &["-p", "14"])?;
    let mut standby = subnet.start_manager(3, &["-p", "2"])?;
    standby.wait_for("Entering STANDBY state")?;
    let before = subnet.expect(1, &["sminfo"], &["SMINFO_MASTER"])?;
    master.kill();
    standby.wait_for("Entering MASTER state")?;
    standby.wait_for("SUBNET UP")?;
    let after = subnet.expect(1, &["sminfo"], &["priority 2 state 3 SMINFO_MASTER"])?;
    expect(before.out != after.out, || after.out.clone())?;
    subnet.pair((1, 2), &["ibv_rc_pingpong", "-n", "300"], lab.port())?;
    Ok(())
}
