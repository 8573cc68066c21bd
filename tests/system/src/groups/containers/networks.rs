//! Programs in networks of their own over a device that is at an interface of the host's: two whose
//! network has an interface of that name, index and address, and one with nothing but a loopback.

use std::path::Path;

use crate::groups::cm::{self, STOCK, Stock, exchange};
use crate::groups::verbs::traffic::{judge_perftest, pair_of};
use crate::harness::case::{Ending, Parts, Stop};
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::lab::netns::{ADDRESSES, ADDRESSES_V6, INTERFACES, Pair};
use crate::programs::mckey;

const MTU: u32 = 1500;
/// The path MTU that fits it.
const PATH_MTU: u32 = 1024;
/// Groups of IPv4 and IPv6, whose datagrams come back to members beside the sender, too.
const GROUPS: [&str; 2] = ["239.77.2.1", "ff0e::77:2:1"];

/// Two machines, and programs of the first one's device.
struct Networks {
    near: Host,
    far: Host,
    /// Two that reach each other as the machines do.
    joined: [Host; 2],
    alone: Host,
}

impl Networks {
    fn new(lab: &mut Lab) -> Result<Networks, Stop> {
        lab.vacate();
        let machines = Pair::new(MTU).map_err(|error| {
            Stop::Skip(format!(
                "network namespaces are not allowed here: {error:#}"
            ))
        })?;
        machines.add_ipv6()?;
        let mut near = Host::new(lab.programs(), ADDRESSES[0], Some(machines.a))?;
        let alone = near.apart()?;
        let mut far = Host::new(lab.programs(), ADDRESSES[1], Some(machines.b))?;
        near.up_with(&["--netdev", INTERFACES[0]])?;
        far.up_with(&["--netdev", INTERFACES[1]])?;
        let networks = Pair::new(MTU)?;
        let joined = [
            near.beside(networks.a, ADDRESSES[0]),
            near.beside(networks.b, ADDRESSES[1]),
        ];
        Ok(Networks {
            near,
            far,
            joined,
            alone,
        })
    }

    /// Which address each side of rdma_cm's goes by.
    fn addresses(&mut self, [near, far]: [&str; 2]) {
        near.clone_into(&mut self.near.address);
        near.clone_into(&mut self.alone.address);
        far.clone_into(&mut self.far.address);
    }
}

pub(super) fn exchanges(lab: &mut Lab) -> Parts {
    let mut networks = Networks::new(lab)?;
    let dir = lab.case_dir()?;
    let mut endings = Vec::new();
    let mut add = |name: &str, ending: Ending| endings.push((name.to_owned(), ending));

    let line = "ib_write_bw -n 500";
    add(
        "two programs, through memory",
        perftest(lab, &networks, line, &dir),
    );
    networks.joined = networks.joined.map(Host::without_loopback);
    for line in [line, "ib_send_bw -c UD -s 1024 -n 500"] {
        add(
            &format!("{line}, two programs, over sockets"),
            perftest(lab, &networks, line, &dir),
        );
    }

    let Networks { near, far, .. } = &networks;
    let write = cm::perftest("ib_write_bw -n 500");
    let between = |server: &Host, client: &Host, stock: &Stock| {
        exchange(server, client, stock, lab.port(), &dir)
    };
    add(
        "ib_write_bw to another host",
        between(far, &networks.alone, &write),
    );
    add(
        "rping to a program beside its daemon",
        between(near, &networks.alone, &STOCK[0]),
    );
    for (index, addresses) in [ADDRESSES, ADDRESSES_V6].into_iter().enumerate() {
        networks.addresses(addresses);
        let Networks { far, alone, .. } = &networks;
        let name = |what: &str| format!("{what}, {}", addresses[0]);
        add(
            &name("rping to another host"),
            between(far, alone, &STOCK[0]),
        );
        add(
            &name("rping from another host"),
            between(alone, far, &STOCK[0]),
        );
        let group = GROUPS[index];
        add(
            &name("mckey to another host"),
            mckey::heard([far, alone], [&far.address, &alone.address], group, &dir),
        );
        add(
            &name("mckey from another host"),
            mckey::heard([alone, far], [&alone.address, &far.address], group, &dir),
        );
    }
    Ok(endings)
}

fn perftest(lab: &Lab, networks: &Networks, line: &str, dir: &Path) -> Ending {
    let [server, client] = &networks.joined;
    let ends = pair_of(line, &["-F", "-x", "0"], lab.port()).run(server, client, dir)?;
    judge_perftest(&ends, line, PATH_MTU)
}
