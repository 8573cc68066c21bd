//! Devices with several InfiniBand ports: each is on a fabric of its own, with a subnet manager,
//! keys and counters of its own.

use super::found::{ACTIVE, number_after};
use super::rdma_cm;
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Lab;
use crate::lab::manager::Manager;
use crate::lab::subnet::{Subnet, address_at};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("fabric/two ports/diagnostics", diagnostics),
        Case::new("fabric/two ports/data and counters", counters),
        Case::new("fabric/two ports/management keys", keys),
        Case::new("fabric/two ports/management key's lease", lease),
        Case::new("fabric/two ports/connections", connections),
        Case::new("fabric/three ports/data and connections", three),
    ]
}

/// The host with several ports is 0, those at the other ends are 1, 2 and so on.
fn ports(lab: &mut Lab, count: usize) -> Result<Subnet, Stop> {
    lab.vacate();
    let dir = lab.case_dir()?;
    Subnet::star(lab.programs(), &dir, count)
}

/// A subnet manager for each port, on its host, with these lines in its settings.
fn manage(subnet: &mut Subnet, settings: &[&str]) -> Result<Vec<Manager>, Stop> {
    let mut managers = Vec::new();
    let guids = subnet.run(0, &["ibstat", "-p"])?.out;
    for (guid, settings) in guids.lines().zip(settings) {
        let mut manager = subnet.start_manager_with(0, &["-g", guid], settings)?;
        manager.wait_for("SUBNET UP")?;
        managers.push(manager);
    }
    expect(managers.len() == settings.len(), || guids.clone())?;
    active(subnet)?;
    Ok(managers)
}

/// Waits until all ports may carry data.
fn active(subnet: &mut Subnet) -> Ending {
    let ports = subnet.hosts.len() - 1;
    for other in 1..=ports {
        subnet.wait_for(other, &["ibstat"], ACTIVE)?;
    }
    let all = |text: &str| text.matches(ACTIVE).count() == ports;
    subnet.wait_until(0, &["ibstat"], all)
}

/// Each port tells of itself and of what is behind it.
fn diagnostics(lab: &mut Lab) -> Ending {
    let mut subnet = ports(lab, 2)?;
    let managers = manage(&mut subnet, &["", ""])?;
    for manager in &managers {
        expect(manager.errors().is_empty(), || manager.errors().join("\n"))?;
    }
    let stat = subnet.expect(0, &["ibstat"], &["Number of ports: 2", "Port 2:"])?;
    expect(stat.out.matches("SM lid: 1").count() == 2, || {
        stat.out.clone()
    })?;
    let info = subnet.expect(0, &["ibv_devinfo"], &["phys_port_cnt:\t\t\t2"])?;
    expect(info.out.matches("PORT_ACTIVE").count() == 2, || {
        info.out.clone()
    })?;
    let mut guids = Vec::new();
    for port in ["1", "2"] {
        subnet.expect(0, &["ibaddr", "-P", port], &["LID start 0x1 end 0x1"])?;
        subnet.expect(0, &["sminfo", "-P", port], &["sm lid 1", "SMINFO_MASTER"])?;
        let local = format!("LocalPort:.......................{port}");
        subnet.expect(
            0,
            &["smpquery", "-P", port, "NI", "1"],
            &[&local, "NumPorts:........................2"],
        )?;

        // By the port's own fabric, and about the other port as well.
        for named in ["1", "2"] {
            subnet.expect(
                0,
                &["smpquery", "-P", port, "-D", "PI", "0", named],
                &["LinkState:.......................Active"],
            )?;
        }

        let found = subnet.run(0, &["ibnetdiscover", "-P", port])?;
        let cas = found.out.lines().filter(|line| line.starts_with("Ca\t"));
        expect(cas.count() == 2, || found.out.clone())?;
        let far = subnet.run(0, &["smpquery", "-P", port, "NI", "2"])?;
        let guid = far.out.lines().find(|line| line.starts_with("Guid:"));
        guids.push(guid.unwrap_or_default().to_owned());
    }

    // The same LID is another node's behind each port.
    expect(guids[0] != guids[1], || guids.join("\n"))
}

/// Packets that a port has sent and received, as performance management says.
fn packets(subnet: &mut Subnet, host: usize, port: &str) -> Result<[u64; 2], Stop> {
    let lid = if host == 0 { "1" } else { "2" };
    let number = if host == 0 { port } else { "1" };
    let line = ["perfquery", "-P", number, "-x", lid, number];
    let said = subnet.run(host, &line)?;
    let count = |label| number_after(&said.out, label);
    match (count("PortXmitPkts:"), count("PortRcvPkts:")) {
        (Some(sent), Some(received)) => Ok([sent, received]),
        _ => Err(Stop::with("no counters", &[&said])),
    }
}

/// Data by either port is counted there and nowhere else, in the same way at the other end; resets
/// concern what they name.
fn counters(lab: &mut Lab) -> Ending {
    let mut subnet = ports(lab, 2)?;
    let _managers = manage(&mut subnet, &["", ""])?;
    let mut before = [packets(&mut subnet, 0, "1")?, packets(&mut subnet, 0, "2")?];
    for (index, port) in ["1", "2"].into_iter().enumerate() {
        for program in [
            &["ib_write_bw", "-F", "-n", "300"][..],
            &["ibv_ud_pingpong", "-n", "300"],
        ] {
            let server = [program, &["-i", port]].concat();
            let client = [program, &["-i", "1"]].concat();
            subnet.pair_at((0, index + 1), [&server, &client], lab.port())?;
        }

        let now = [packets(&mut subnet, 0, "1")?, packets(&mut subnet, 0, "2")?];
        let grown = |at: usize, way: usize| now[at][way] - before[at][way];

        // 300 writes of 64 KiB in packets of 4 KiB; beside them there is management.
        let good = grown(index, 1) > 300 * 16 && grown(index, 0) > 300 && grown(1 - index, 1) < 100;
        expect(good, || format!("{before:?}, {now:?}"))?;
        let there = packets(&mut subnet, index + 1, port)?;

        // What is asked about is itself asked by packets.
        let close = |a: u64, b: u64| a.abs_diff(b) < 20;
        expect(
            close(there[0], now[index][1]) && close(there[1], now[index][0]),
            || format!("port {port}: {:?} here, {there:?} there", now[index]),
        )?;

        before = now;
    }

    let shown = |port: &str, name: &str| {
        let file = format!("/sys/class/infiniband/ferroce0/ports/{port}/counters/{name}");
        ["cat".to_owned(), file]
    };

    // Bit 12 is PortXmitData, bit 3 of the extended counters PortRcvPkts.
    subnet.run(0, &["perfquery", "-P", "2", "-R", "1", "2", "0x1000"])?;
    let said = subnet.run(0, &["perfquery", "-P", "2", "1", "2"])?;
    let [data, sent] = ["PortXmitData:", "PortXmitPkts:"].map(|name| number_after(&said.out, name));
    expect(
        data.is_some_and(|data| data < 1000) && sent.is_some_and(|sent| sent > 300),
        || said.out.clone(),
    )?;

    subnet.run(0, &["perfquery", "-P", "2", "-x", "-R", "1", "2", "0x8"])?;
    let after = packets(&mut subnet, 0, "2")?;
    expect(after[0] >= before[1][0] && after[1] < 50, || {
        format!("{after:?}")
    })?;

    // sysfs says the same, resets included, and of the other port that nothing was reset.
    for (port, name, wanted) in [
        ("2", "port_rcv_packets", 0..50),
        ("2", "port_xmit_packets", 300..u64::MAX),
        ("1", "port_rcv_packets", 300 * 16..u64::MAX),
    ] {
        let [cat, file] = shown(port, name);
        let holds = |text: &str| text.trim().parse().is_ok_and(|n| wanted.contains(&n));
        subnet.wait_until(0, &[&cat, &file], holds)?;
    }

    Ok(())
}

/// `M_KeyViolations` of a port, asked for with a key from its own device.
fn violations(subnet: &mut Subnet, port: &str, key: &str) -> Result<u64, Stop> {
    let line = ["smpquery", "-P", port, "-y", key, "-D", "PI", "0", port];
    let said = subnet.run(0, &line)?;
    number_after(&said.out, "MkeyViolations:")
        .ok_or_else(|| Stop::with("no violations are shown", &[&said]))
}

/// A request about another port than that which it comes to needs the keys of both (C14-24.1.1,
/// C14-29). Each port that does not know the key counts it.
fn keys(lab: &mut Lab) -> Ending {
    let mut subnet = ports(lab, 2)?;
    let setting =
        |key: &str| format!("m_key {key}\nm_key_protection_level 2\nm_key_lease_period 0\n");
    let (first, second) = (setting("0x1111"), setting("0x2222"));
    let managers = manage(&mut subnet, &[&first, &second])?;
    for manager in &managers {
        expect(manager.errors().is_empty(), || manager.errors().join("\n"))?;
    }
    let mut managers = managers.into_iter();
    let mut first = managers.next().expect("one for each port");

    // Host 1 is at port 1, whose key is the first.
    for (key, named, answered, counts) in [
        ("0x1111", "1", true, [false, false]),
        ("0x1111", "2", false, [false, true]),
        ("0x2222", "2", false, [true, false]),
        ("0x3333", "2", false, [true, true]),
        ("0x3333", "1", false, [true, false]),
    ] {
        let before = [
            violations(&mut subnet, "1", "0x1111")?,
            violations(&mut subnet, "2", "0x2222")?,
        ];

        let line = ["smpquery", "-t", "100", "-y", key, "-D", "PI", "0,1", named];
        let said = subnet.attempt(1, &line)?;
        let after = [
            violations(&mut subnet, "1", "0x1111")?,
            violations(&mut subnet, "2", "0x2222")?,
        ];
        let grown = [after[0] > before[0], after[1] > before[1]];
        if said.success() != answered || grown != counts {
            return Err(Stop::with(
                format!(
                    "key {key} about port {named}: violations before {before:?}, after {after:?}"
                ),
                &[&said],
            ));
        }
    }

    // Trap 256 tells each violation to the subnet manager of the port that saw it.
    first.wait_for("num:256")
}

/// What a port's PortInfo says of its key to somebody who does not know it, if it answers at all.
fn without_key(subnet: &mut Subnet) -> Result<Option<String>, Stop> {
    let said = subnet.attempt(1, &["smpquery", "-K", "-t", "100", "-D", "PI", "0,1", "1"])?;
    Ok(said.success().then_some(said.out))
}

/// A subnet manager that is there keeps the lease of a violated key from running out; when it has
/// gone, protection lapses after that time, the key can be read, and another subnet manager can
/// take over with it (C14-28, C14-30).
fn lease(lab: &mut Lab) -> Ending {
    let mut subnet = ports(lab, 2)?;
    let settings =
        "m_key 0x1111\nm_key_protection_level 2\nm_key_lease_period 1\nsweep_interval 1\n";
    let mut managers = manage(&mut subnet, &[settings, ""])?;

    // OpenSM makes it two seconds, one more than between its sweeps.
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_secs(3) {
        let said = without_key(&mut subnet)?;
        expect(said.is_none(), || said.unwrap_or_default())?;
    }

    managers[0].wait_for("num:256")?;
    managers.swap_remove(0).kill();

    // The first of these starts the lease, those after it must not start it anew.
    let deadline = std::time::Instant::now() + crate::lab::subnet::LIMIT;
    let said = loop {
        match without_key(&mut subnet)? {
            Some(said) => break said,
            None if std::time::Instant::now() > deadline => {
                return Err(Stop::fail("the lease does not run out"));
            }
            None => {}
        }
    };

    expect(
        said.contains("Mkey:............................0x0000000000001111")
            && said.contains("ProtectBits:.....................0"),
        || said.clone(),
    )
}

/// Connections by either port, in both directions, with subnet managers of their own.
fn connections(lab: &mut Lab) -> Ending {
    let mut subnet = ports(lab, 2)?;
    let _managers = manage(&mut subnet, &["", ""])?;
    connect_by_each(&mut subnet, lab)
}

/// `rping` and `udaddy` between each port of host 0 and the host behind it: as a server, and as a
/// client that is bound to the port's address.
fn connect_by_each(subnet: &mut Subnet, lab: &Lab) -> Ending {
    for port in 0..subnet.hosts.len() - 1 {
        let other = port + 1;
        let (own, theirs) = (address_at(1, port), address_at(other + 1, 0));
        rdma_cm::known(subnet, other, &own)?;
        rdma_cm::known(subnet, other, &theirs)?;
        let server = ["rping", "-s", "-C", "20", "-V"];
        let client = ["rping", "-c", "-C", "20", "-V", "-a"];
        let towards = [&client[..], &[&own]].concat();
        rdma_cm::connect(
            subnet,
            (0, other),
            (&server, &towards),
            rdma_cm::TCP,
            lab.port(),
        )?;

        let back = [&client[..], &[&theirs, "-I", &own]].concat();
        rdma_cm::connect(
            subnet,
            (other, 0),
            (&server, &back),
            rdma_cm::TCP,
            lab.port(),
        )?;

        let datagrams = ["udaddy", "-c", "2", "-C", "10", "-s", &own];
        let line = ["udaddy", "-c", "2", "-C", "10"];
        rdma_cm::connect(subnet, (0, other), (&line, &datagrams), rdma_cm::UDP, 0)?;
    }

    Ok(())
}

/// Three ports: what is said of each, data by each, connections by each.
fn three(lab: &mut Lab) -> Ending {
    let mut subnet = ports(lab, 3)?;

    // From the other ends: OpenSM does not run on an adapter with more than two ports.
    let mut managers = Vec::new();
    for other in 1..=3 {
        managers.push(subnet.manage(other, &[])?);
    }
    active(&mut subnet)?;
    subnet.expect(0, &["ibstat"], &["Number of ports: 3", "Port 3:"])?;
    let info = subnet.expect(0, &["ibv_devinfo"], &["phys_port_cnt:\t\t\t3"])?;
    expect(info.out.matches("PORT_ACTIVE").count() == 3, || {
        info.out.clone()
    })?;

    for (port, name) in ["1", "2", "3"].into_iter().enumerate() {
        subnet.expect(
            0,
            &["smpquery", "-P", name, "NI", "2"],
            &["NumPorts:........................3"],
        )?;
        let server = ["ib_write_bw", "-F", "-n", "200", "-i", name];
        let client = ["ib_write_bw", "-F", "-n", "200"];
        subnet.pair_at((0, port + 1), [&server, &client], lab.port())?;
        let said = subnet.run(0, &["perfquery", "-P", name, "-x", "2", name])?;
        let sent = number_after(&said.out, "PortRcvPkts:").unwrap_or_default();
        let received = number_after(&said.out, "PortXmitPkts:").unwrap_or_default();
        expect(sent > 200 * 16 && received > 0, || {
            format!("port {name}: {sent} sent, {received} received")
        })?;
    }

    connect_by_each(&mut subnet, lab)
}
