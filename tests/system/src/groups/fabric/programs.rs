//! Stock programs of subnet management that ask for more than the others: OpenSM's own test, dumps,
//! resets, a route by LID that goes on by hops.

use super::found::{ACTIVE, back_to_back, number_after};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Lab;
use crate::lab::subnet::{LIMIT, Subnet};
use crate::programs::cprogram;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("fabric/programs/osmtest", osmtest),
        Case::new("fabric/programs/ibsysstat and smpdump", dumps),
        Case::new("fabric/programs/across a switch", across),
        Case::new("fabric/programs/umad's files", files),
        Case::new("fabric/programs/a port and itself", own_port),
        Case::new("fabric/programs/node_desc is written", described),
        Case::new("fabric/programs/umad's P_Key index", partitions),
    ]
}

/// OpenSM's test: it writes down what there is, then has all that the subnet administrator does
/// checked against that.
fn osmtest(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let _manager = subnet.manage(0, &[])?;
    let guid = subnet.run(1, &["ibstat", "-p"])?.out.trim().to_owned();
    let dir = lab.case_dir()?.display().to_string();
    for (flow, passes) in [
        ("c", "\"Create Inventory\" PASS"),
        ("a", "\"All Validations\" PASS"),
    ] {
        let file = format!("{dir}/inventory");
        let log = format!("{dir}/osmtest-{flow}.log");
        let line = ["osmtest", "-f", flow, "-i", &file, "-l", &log, "-g", &guid];
        let Err(mut stop) = subnet.expect(1, &line, &[passes]) else {
            continue;
        };
        if let Stop::Fail(failure) = &mut stop {
            // A query without an answer is OpenSM's silence, or lost on the way: what a query from
            // either host gets now says which.
            for host in [0, 1] {
                failure
                    .commands
                    .push(subnet.attempt(host, &["saquery", "NR"])?);
            }
        }
        return Err(stop);
    }
    Ok(())
}

/// What `ibsysstat` asks a server of its own class, and what `smpdump` shows byte by byte.
fn dumps(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let _manager = subnet.manage(0, &[])?;
    let server = subnet.spawn(0, &["ibsysstat", "-S"])?;
    // A ping takes the port's own answer, that it knows no such class, for the server's.
    subnet.wait_for(1, &["ibsysstat", "1", "cpu"], "cpu 0: model")?;
    subnet.expect(1, &["ibsysstat", "1"], &["sysstat ping succeeded"])?;
    subnet.run(1, &["ibsysstat", "1", "host"])?;
    server.kill();

    // NodeInfo: both versions 1, channel adapter, one port.
    for address in [&["1"][..], &["-D", "0,1"]] {
        subnet.expect(
            1,
            &[&["smpdump"], address, &["0x11"]].concat(),
            &["0101 0101"],
        )?;
    }

    subnet.expect(1, &["smpdump", "-s", "-D", "0,1", "0x10"], &["ferroce0"])?;

    // Of the optional classes of counters and attributes there are none, and the programs are told
    // so.
    for line in [
        &["smpquery", "-t", "200", "SI", "1"][..],
        &["smpquery", "-t", "200", "MEPI", "1"],
        &["perfquery", "-t", "200", "-T", "1", "1"],
    ] {
        let said = subnet.attempt(1, line)?;
        expect(!said.success() && !said.err.contains("timed out"), || {
            format!("{line:?}\n{}{}", said.out, said.err)
        })?;
    }

    Ok(())
}

/// What the stock programs do not ask of umad, by C programs: see `tests/verbs/umad_files.c` and
/// `umad_abi.c`.
fn files(lab: &mut Lab) -> Ending {
    let programs = [
        cprogram::compile_plain("umad_files", &["-libumad"])?,
        cprogram::compile_plain("umad_abi", &[""; 0])?,
    ];
    let mut subnet = back_to_back(lab)?;
    let _manager = subnet.manage(0, &[])?;
    subnet.wait_for(1, &["ibstat"], ACTIVE)?;
    for program in programs {
        let program = program.display().to_string();
        subnet.expect(1, &[&program], &["ok\n"])?;
    }
    Ok(())
}

/// The node description is written by a shell and by rdma-ndd, which reads it first; the subnet
/// manager is told (trap 144). Other files of sysfs are not for writing, not for root either.
fn described(lab: &mut Lab) -> Ending {
    const FILE: &str = "/sys/class/infiniband/ferroce0/node_desc";

    let mut subnet = back_to_back(lab)?;
    let mut manager = subnet.manage(0, &[])?;
    subnet.wait_for(1, &["ibstat"], ACTIVE)?;
    let is = |subnet: &mut Subnet, name: &str| {
        let tail = format!(".{name}\n");
        subnet.wait_until(0, &["smpquery", "ND", "2"], |text| text.ends_with(&tail))?;
        let line = format!("{name}\n");
        subnet.wait_until(1, &["cat", FILE], |text| text == line)
    };
    let written = format!("echo another name of it > {FILE}");
    subnet.run(1, &["sh", "-c", &written])?;
    is(&mut subnet, "another name of it")?;
    manager.wait_for("num:144")?;

    let daemon = ["env", "RDMA_NDD_ND_FORMAT=another", "rdma-ndd", "-f"];
    let daemon = subnet.spawn(1, &daemon)?;
    is(&mut subnet, "another")?;
    daemon.kill();

    for file in ["ports/1/lid", "node_guid", "none"] {
        let path = format!("/sys/class/infiniband/ferroce0/{file}");
        let written = subnet.attempt(1, &["sh", "-c", &format!("echo 7 > {path}")])?;
        expect(
            !written.success() && written.err.contains("Permission denied"),
            || format!("{file}: {}", written.err),
        )?;
        let there = subnet.attempt(1, &["cat", &path])?;
        expect(there.out != "7\n", || there.out.clone())?;
    }
    Ok(())
}

/// What a port sends to itself, by `tests/verbs/own_port.c`: with LMC 1 it has two LIDs.
fn own_port(lab: &mut Lab) -> Ending {
    let program = cprogram::compile_plain("own_port", &["-libumad", "-libverbs"])?;
    let program = program.display().to_string();
    let mut subnet = back_to_back(lab)?;
    let _manager = subnet.manage(0, &["-l", "1"])?;
    subnet.wait_for(1, &["ibstat"], ACTIVE)?;
    subnet.expect(1, &[&program], &["ok\n"]).map(drop)
}

/// A MAD goes out with the P_Key of the index that its program names, and is delivered with the
/// index that the key has there, by `tests/verbs/umad_pkey.c`. The subnet manager's port is in a
/// partition more, so that its table has the shared one elsewhere.
fn partitions(lab: &mut Lab) -> Ending {
    let program = cprogram::compile_plain("umad_pkey", &["-libumad"])?;
    let program = program.display().to_string();
    let mut subnet = back_to_back(lab)?;
    let file = lab.case_dir()?.join("partitions");
    let text = "Default=0x7fff : ALL=full;\nown=0x0001 : SELF=full;\nshared=0x0002 : ALL=full;\n";
    std::fs::write(&file, text).map_err(anyhow::Error::from)?;
    let file = file.display().to_string();
    let _manager = subnet.manage(0, &["-P", &file])?;
    for (host, index, key) in [(0, 1, "0x8001"), (0, 2, "0x8002"), (1, 1, "0x8002")] {
        let entry = format!("/sys/class/infiniband/ferroce0/ports/1/pkeys/{index}");
        subnet.wait_for(host, &["cat", &entry], key)?;
    }

    subnet.wait_for(1, &["ibstat"], ACTIVE)?;
    let mut server = subnet.spawn(1, &[&program, "serve"])?;
    let serves = server.wait_until(LIMIT, |server| server.output().contains("serves\n"));
    expect(serves, || server.output())?;

    for (key, answered, wanted) in [
        (
            "0x8002",
            "yes",
            "asked: index 2\nanswered: index 2, key 0x8002\n",
        ),
        ("0x8001", "no", "asked: index 1\nnobody answers\n"),
        (
            "0xffff",
            "yes",
            "asked: index 0\nanswered: index 0, key 0xffff\n",
        ),
    ] {
        subnet.expect(0, &[&program, "ask", "2", key, answered], &[wanted])?;
    }

    let said = server.kill().out;
    let wanted = "serves\ncame: index 1, key 0x8002\ncame: index 0, key 0xffff\n";
    expect(said == wanted, || said)
}

/// Through switches: every operation of `smpquery`, `ibportstate` by LID, and by LID as far as a
/// switch and by a hop from there, tables.
fn across(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut subnet = Subnet::two_switches(lab.programs(), &dir, 4)?;
    for host in 0..4 {
        subnet.wait_for(host, &["ibstat"], "Physical state: LinkUp")?;
    }
    let _manager = subnet.manage(0, &["-s", "1"])?;
    let switches = subnet.run(3, &["ibswitches"])?;
    let near = switches.out.lines().find(|line| line.contains("switch 2"));
    let lid = near.and_then(|line| line.split(" lid ").nth(1)?.split(' ').next());
    let lid = lid.unwrap_or_default().to_owned();
    for (operation, wanted) in [
        ("NodeInfo", "NodeType:........................Switch"),
        ("NodeDesc", "switch 2"),
        ("PortInfo", "LinkState:.......................Active"),
        ("SwitchInfo", "LinearFdbCap"),
        ("PKeyTable", "0xffff"),
        ("SL2VLTable", "ports: in"),
        ("VLArbitration", "VLArbitration tables"),
        ("GUIDInfo", "guids capacity"),
    ] {
        // The first port of the second switch is host 2's.
        let port: &[&str] = match operation {
            "PortInfo" | "SL2VLTable" | "VLArbitration" => &["1"],
            _ => &[],
        };
        let by_lid = [&["smpquery", operation, &lid], port].concat();
        subnet.expect(0, &by_lid, &[wanted])?;
        let by_hops = [&["smpquery", "-D", operation, "0,1"], port].concat();
        subnet.expect(3, &by_hops, &[wanted])?;
    }

    // A host's port is asked for directly, its peer's by a hop beyond.
    subnet.expect(
        0,
        &["ibportstate", &lid, "1", "query"],
        &["Peer PortInfo:", "Active"],
    )?;

    records(&mut subnet)?;

    // A switch's port, switched off and on from afar: host 2's goes down and comes back.
    for (operation, then) in [
        ("disable", "State: Down"),
        ("enable", ACTIVE),
        ("reset", ACTIVE),
    ] {
        subnet.expect(
            0,
            &["ibportstate", &lid, "1", operation],
            &["After PortInfo set:"],
        )?;
        subnet.wait_for(2, &["ibstat"], then)?;
    }

    // Whose peer went counts a lost link; who was told to let go of his does not.
    let twice = |text: &str| number_after(text, "LinkDownedCounter:").is_some_and(|n| n >= 2);
    subnet.wait_until(2, &["perfquery"], twice)?;
    subnet.wait_for(2, &["ibstat"], ACTIVE)?;

    // That is an error to `ibqueryerrors`, which then fails, until it is cleared.
    for line in [&["ibqueryerrors"][..], &["ibqueryerrors", "-k", "-K"]] {
        let said = subnet.attempt(0, line)?;
        let good = !said.success() && said.out.contains("LinkDownedCounter ==");
        expect(good, || format!("{line:?}\n{}{}", said.out, said.err))?;
    }

    let cleared = subnet.run(0, &["ibqueryerrors"])?;
    expect(!cleared.out.contains("LinkDownedCounter =="), || {
        cleared.out.clone()
    })?;
    subnet.expect(0, &["dump_lfts"], &["Unicast lids", "switch 1", "switch 2"])?;
    subnet.expect(
        0,
        &["dump_mfts"],
        &["Multicast mlids", "switch 1", "switch 2"],
    )?;

    let tables = subnet.expect(0, &["dump_fts"], &["Unicast lids", "switch 1", "switch 2"])?;
    let hosts = tables.out.matches("ferroce0").count();
    expect(hosts == 8, || tables.out.clone())?;
    subnet.expect(0, &["dump_fts", "-M"], &["Multicast mlids"])?;

    // All ports of a switch together, and its resets.
    let packets = |text: &str| number_after(text, "PortXmitPkts:");
    let all = subnet.run(0, &["perfquery", "-x", "-a", &lid])?;
    subnet.run(0, &["perfquery", "-R", "-a", "-x", &lid])?;
    let zeroed = subnet.run(0, &["perfquery", "-x", "-a", &lid])?;
    let (before, after) = (packets(&all.out), packets(&zeroed.out));
    expect(
        before > Some(20) && after < Some(20) && after.is_some(),
        || format!("{before:?} packets, {after:?} after the reset"),
    )
}

/// What subnet administration knows, record by record.
fn records(subnet: &mut Subnet) -> Ending {
    for (record, wanted) in [
        ("NR", "NodeRecord dump:"),
        ("PIR", "PortInfoRecord dump:"),
        ("LR", "LinkRecord dump:"),
        ("SWIR", "SwitchInfoRecord dump:"),
        ("LFTR", "LFT Record dump:"),
        ("SL2VL", "SL2VLTableRecord dump:"),
        ("VLAR", "VLArbTableRecord dump:"),
        ("PKTR", "PKeyTableRecord dump:"),
        ("SMIR", "SMInfoRecord dump:"),
        ("CPI", "SA ClassPortInfo:"),
    ] {
        subnet.expect(3, &["saquery", "--smkey", "1", record], &[wanted])?;
    }

    Ok(())
}
