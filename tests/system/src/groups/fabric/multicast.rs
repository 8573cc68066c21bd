//! Group `fabric`, multicast of programs: groups that OpenSM makes, switches that copy, members on
//! either side.

use super::found::{activate, back_to_back, number_after};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::harness::process::{Finished, Running};
use crate::lab::Lab;
use crate::lab::subnet::{LIMIT, Subnet, address};
use crate::programs::cprogram;

/// The group of the programs, and its GID as the kernel's rdma_cm forms it for datagram services.
const GROUP: &str = "239.1.2.3";
const MGID: &str = "ff12:4001:ffff::f01:203";
/// Messages of a sender.
const MESSAGES: &str = "200";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("fabric/multicast/members of two switches", members),
        Case::new(
            "fabric/multicast/who only sends and who does not",
            join_states,
        ),
        Case::new("fabric/multicast/subnet manager started again", restarted),
        Case::new("fabric/multicast/perftest", perftest),
        Case::many("fabric/multicast/groups.c", groups),
    ]
}

/// Four hosts on two switches; OpenSM is on the first, which is never a member.
fn fabric(lab: &mut Lab) -> Result<Subnet, Stop> {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut subnet = Subnet::two_switches(lab.programs(), &dir, 4)?;
    for host in 0..4 {
        subnet.wait_for(host, &["ibstat"], "Physical state: LinkUp")?;
    }
    Ok(subnet)
}

/// `mckey` as a member that waits for a sender's messages.
fn member(subnet: &mut Subnet, host: usize) -> Result<Running, Stop> {
    member_with(subnet, host, &[])
}

fn member_with(subnet: &mut Subnet, host: usize, options: &[&str]) -> Result<Running, Stop> {
    let own = address(host + 1);
    let line = ["mckey", "-m", GROUP, "-b", &own, "-C", MESSAGES];
    let mut member = subnet.spawn(host, &[&["stdbuf", "-oL"], &line[..], options].concat())?;
    // It sleeps for three seconds then, with its receive requests posted.
    let joined = format!("joined dgid: {MGID}");
    match member.wait_until(LIMIT, |m| m.output().contains(&joined)) {
        true => Ok(member),
        false => Err(Stop::with("it does not join", &[&member.kill()])),
    }
}

/// `mckey` as a sender, which ends when it has sent.
fn send(subnet: &mut Subnet, host: usize) -> Ending {
    let own = address(host + 1);
    let line = ["mckey", "-m", GROUP, "-b", &own, "-C", MESSAGES, "-s"];
    subnet.expect(host, &line, &["return status 0"]).map(drop)
}

/// Waits until so many ports of all switches lead to the group: OpenSM answers a join before it
/// tells the switches.
fn leads(subnet: &mut Subnet, ports: usize) -> Ending {
    let count = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("0xc0"));
        let marks = lines.flat_map(|line| line[6..].chars().filter(|c| *c == 'x'));
        marks.count()
    };
    subnet.wait_until(0, &["dump_fts", "-M"], |text| count(text) == ports)
}

/// All that was sent came, and nothing is wrong with it.
fn received(members: Vec<Running>) -> Ending {
    for member in members {
        let member = member.finish(LIMIT);
        let good = member.success() && member.out.contains("return status 0");
        if !good {
            return Err(Stop::with("not all of it came", &[&member]));
        }
    }
    Ok(())
}

/// Members at the near and the far switch, two of them processes of one host, and one on the
/// sender's own host get every message; a host without members gets none, as the counters say. The
/// group ends with its last member, even if that is killed.
fn members(lab: &mut Lab) -> Ending {
    let mut subnet = fabric(lab)?;
    let _manager = subnet.manage(0, &[])?;
    let mut all = Vec::new();
    for host in [1, 2, 2, 3] {
        all.push(member(&mut subnet, host)?);
    }

    // Host 1 and the other switch here; hosts 2 and 3 and this switch there.
    leads(&mut subnet, 5)?;
    let switches = subnet.run(0, &["ibswitches"])?.out;
    let lids = switches
        .lines()
        .filter_map(|l| l.split(" lid ").nth(1)?.split(' ').next());
    let lids: Vec<&str> = lids.collect();
    let before = everywhere(&mut subnet, &lids)?;
    send(&mut subnet, 3)?;
    received(all)?;
    let after = everywhere(&mut subnet, &lids)?;
    let grown = before.iter().zip(&after).map(|(before, after)| {
        [
            after[0].wrapping_sub(before[0]),
            after[1].wrapping_sub(before[1]),
        ]
    });
    let mut grown: Vec<[u64; 2]> = grown.collect();

    // Of the switches one has the sender, and copies to its other host and to the other switch.
    grown[4..].sort_unstable();
    let n: u64 = MESSAGES.parse().map_err(anyhow::Error::from)?;
    let wanted = [[0, 0], [0, n], [0, n], [n, 0], [n, n], [2 * n, n]];
    expect(grown == wanted, || {
        format!("groups' packets, sent and received, of four hosts and two switches: {grown:?}")
    })?;
    let last = member(&mut subnet, 1)?;
    subnet.expect(0, &["saquery", "-g"], &[MGID])?;
    last.kill();
    let gone = |text: &str| text.contains("MGID") && !text.contains(MGID);
    subnet.wait_until(0, &["saquery", "-g"], gone)
}

/// Packets of groups that each host, and then each of these switches by all its ports, has sent and
/// received.
fn everywhere(subnet: &mut Subnet, switches: &[&str]) -> Result<Vec<[u64; 2]>, Stop> {
    let mut all = Vec::new();
    for host in 0..4 {
        all.push(counted(&subnet.run(host, &["perfquery", "-x"])?)?);
    }
    for lid in switches {
        all.push(counted(&subnet.run(0, &["perfquery", "-x", "-a", lid])?)?);
    }
    Ok(all)
}

/// Packets of groups that were sent and received, as `perfquery -x` says. With the others they are
/// all.
pub(crate) fn counted(said: &Finished) -> Result<[u64; 2], Stop> {
    let mut counted = [0; 2];
    for (way, of_groups) in ["Xmit", "Rcv"].into_iter().zip(&mut counted) {
        let number = |kind: &str| number_after(&said.out, &format!("Port{kind}{way}Pkts:"));
        match (number(""), number("Unicast"), number("Multicast")) {
            (Some(all), Some(one), Some(many)) if all == one + many => *of_groups = many,
            _ => {
                return Err(Stop::with(
                    "the counters are not those of all packets",
                    &[said],
                ));
            }
        }
    }
    Ok(counted)
}

/// A port is a member in each way in which a program of its host is, and no longer: who only sends
/// is no reason to get packets.
fn join_states(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let _manager = activate(&mut subnet)?;
    let gid = subnet.run(1, &["cat", "/sys/class/infiniband/ferroce0/ports/1/gids/0"])?;
    let gid: std::net::Ipv6Addr = gid.out.trim().parse().map_err(anyhow::Error::from)?;
    let state = |subnet: &mut Subnet, wanted: Option<&str>| {
        let gid = format!("PortGid.................{gid}\n");
        // Who is a member the administrator tells those who have its key.
        subnet.wait_until(0, &["saquery", "--smkey", "1", "-m"], |text| {
            let mut records = text.split("MCMemberRecord");
            let found = records.find(|record| record.contains(MGID) && record.contains(&gid));
            let state = found.and_then(|record| record.split_once("ScopeState.............."));
            let state = state.and_then(|(_, state)| state.lines().next());
            text.contains(MGID) && state == wanted
        })
    };

    // For those who only send OpenSM keeps no group.
    let _keeps_it = member(&mut subnet, 0)?;
    let all = [member(&mut subnet, 1)?, member(&mut subnet, 1)?];
    let sender = member_with(&mut subnet, 1, &["-o"])?;
    state(&mut subnet, Some("0x9"))?;
    sender.kill();
    state(&mut subnet, Some("0x1"))?;
    let sender = member_with(&mut subnet, 1, &["-o"])?;
    state(&mut subnet, Some("0x9"))?;
    for member in all {
        member.kill();
    }
    state(&mut subnet, Some("0x8"))?;
    sender.kill();
    state(&mut subnet, None)
}

/// A subnet manager that starts anew knows of no member until the hosts have told it, which their
/// programs do not notice.
fn restarted(lab: &mut Lab) -> Ending {
    let mut subnet = fabric(lab)?;
    let manager = subnet.manage(0, &[])?;
    let all = vec![member(&mut subnet, 1)?, member(&mut subnet, 2)?];
    manager.kill();
    let _manager = subnet.manage(0, &[])?;
    subnet.wait_for(0, &["saquery", "-g"], MGID)?;
    // A host and the other switch on either side.
    leads(&mut subnet, 4)?;
    send(&mut subnet, 1)?;
    received(all)
}

/// perftest joins by MADs of its own, through umad.
fn perftest(lab: &mut Lab) -> Ending {
    let mut subnet = fabric(lab)?;
    let _manager = subnet.manage(0, &[])?;
    // -F: it ends well also where a busy machine has kept it from measuring the clock.
    let line = [
        "ib_send_bw",
        "-F",
        "-c",
        "UD",
        "-g",
        "-n",
        "500",
        "-t",
        "64",
        "-s",
        "1024",
    ];

    let [server, _] = subnet.pair((1, 2), &line, lab.port())?;
    expect(server.out.contains("LID 0xc001 QPN 0xffffff"), || {
        server.out.clone()
    })
}

/// What can be attached and what cannot, which wants no subnet manager.
fn groups(lab: &mut Lab) -> Parts {
    let program = cprogram::compile("groups")?.display().to_string();
    let mut subnet = back_to_back(lab)?;
    Ok(cprogram::endings(&subnet.attempt(0, &[&program])?))
}
