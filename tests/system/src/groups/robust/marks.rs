//! Group `robust`, continued: transfers on a network that marks packets (ECN) where it would
//! otherwise drop them, by DCQCN, which answers marks, and by AIMD, which does not ask for them.

use std::path::Path;
use std::time::Duration;

use crate::harness::case::{Case, Company, Ending, Stop, expect};
use crate::lab::host::Host;
use crate::lab::marks::{self, Came};
use crate::lab::{Lab, Place, Site};
use crate::programs::perftest::Pair;
use crate::programs::stream::{Streams, all_right};

const LIMIT: Duration = Duration::from_secs(60);
/// Of the packets that come to either end.
const PERCENT: u32 = 90;
const SECONDS: u32 = 2;
/// The link's MTU, so that packets have 4096 bytes.
const LINK_MTU: u32 = 9000;
/// By how much the bandwidth must fall.
const SLOWER: f64 = 3.0;

/// Programs with other kinds of data: answers, and what is not acknowledged.
const PROGRAMS: [&str; 4] = [
    "ib_read_bw -F -n 300",
    "ib_write_bw -F -b -q 8 -n 100",
    "ib_write_bw -F -c UC -n 300",
    "ib_send_lat -F -n 100",
];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // It compares bandwidths.
        Case::new("robust/veth-9000/marked packets, dcqcn", answered).in_company(Company::Alone),
        Case::new(
            "robust/veth-ipv6-9000/marked packets, dcqcn",
            answered_by_ipv6,
        ),
        Case::new("robust/veth-9000/marked packets, aimd", not_asked_for),
    ]
}

/// What the two ends have counted: marks and CNPs for them at the one, CNPs at the other.
fn counters(site: &Site) -> Result<[u64; 3], Stop> {
    let of = |host: &Host, name: &str| {
        let status = host.status()?;
        let value = status["counters"][name].as_u64();
        value.ok_or_else(|| Stop::fail(format!("ferroce status has no {name}")))
    };
    Ok([
        of(site.server(), "np_ecn_marked_roce_packets")?,
        of(site.server(), "np_cnp_sent")?,
        of(site.client(), "rp_cnp_handled")?,
    ])
}

/// MB/s of WRITEs.
fn bandwidth(lab: &Lab, site: &Site, dir: &Path) -> Result<f64, Stop> {
    let pair = Pair::of(&format!("ib_write_bw -F -D {SECONDS}"), lab.port(), LIMIT);
    let ends = pair.run(site.server(), site.client(), dir)?;
    ends.clean()?;
    let rows = ends.table(1)?;
    let average = rows[0].figures.get(1).copied();
    average.ok_or_else(|| ends.fail("no bandwidth".to_owned()))
}

/// A place whose devices have DCQCN. As on a network, each packet is marked by itself.
fn site(lab: &Lab, place: Place) -> Result<Site, Stop> {
    let site = Site::with(place, lab.programs(), &["--congestion", "dcqcn"])?;
    site.segment_in_software()?;
    let status = site.server().status()?;
    expect(status["device"]["congestion"] == "dcqcn", || {
        format!("the device does not say how: {}", status["device"])
    })?;
    Ok(site)
}

fn mark(site: &Site, percent: u32) -> Result<(), Stop> {
    marks::mark(site.server(), percent)?;
    Ok(marks::mark(site.client(), percent)?)
}

/// The sender was told of marks, by CNPs that may not be marked.
fn told(site: &Site) -> Ending {
    let [seen, told, heard] = counters(site)?;
    expect(seen >= told && told >= heard && heard >= 10, || {
        format!("{seen} marks seen, {told} CNPs sent for them, {heard} of these came")
    })?;
    let came = marks::came(site.client())?;
    expect(came.notices > 0 && came.capable_notices == 0, || {
        format!("CNPs that may be marked: {came:?}")
    })
}

/// Every byte of a transfer in both directions is right.
fn streams(lab: &Lab, site: &Site, dir: &Path) -> Ending {
    let hosts = [site.server(), site.client()];
    let streams = Streams::start(hosts, lab.port(), Some(SECONDS), dir, LIMIT)?;
    let [server, client] = streams.finish(LIMIT);
    if !all_right(&server) || !all_right(&client) {
        return Err(Stop::with("marks end the transfer", &[&client, &server]));
    }
    Ok(())
}

/// Without marks there is no rate; with them the sender is told and goes slower, and all that comes
/// is right.
fn answered(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let site = site(lab, Place::Veth(LINK_MTU))?;

    mark(&site, 0)?;
    let unmarked = bandwidth(lab, &site, &dir)?;
    let came = marks::came(site.server())?;
    expect(came.capable > came.packets / 2 && came.marked == 0, || {
        format!("the data is not capable of ECN: {came:?}")
    })?;
    let before = counters(&site)?;
    expect(before == [0; 3], || format!("marks and CNPs: {before:?}"))?;

    mark(&site, PERCENT)?;
    let marked = bandwidth(lab, &site, &dir)?;
    told(&site)?;
    expect(marked * SLOWER < unmarked, || {
        format!("{marked} MB/s with marks, {unmarked} without")
    })?;

    streams(lab, &site, &dir)?;
    for line in PROGRAMS {
        let pair = Pair::of(line, lab.port(), LIMIT);
        pair.run(site.server(), site.client(), &dir)?.clean()?;
    }
    Ok(())
}

/// The same header fields have other places there; perftest finds nobody by such an address.
fn answered_by_ipv6(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let site = site(lab, Place::VethIpv6(LINK_MTU))?;
    mark(&site, PERCENT)?;
    streams(lab, &site, &dir)?;
    let came = marks::came(site.server())?;
    expect(came.capable > 0 && came.marked > 0, || {
        format!("the data is not capable of ECN: {came:?}")
    })?;
    told(&site)
}

/// Nothing may be marked that is sent by who does not answer marks.
fn not_asked_for(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let site = Site::with(Place::Veth(LINK_MTU), lab.programs(), &[])?;
    let hosts = [site.server(), site.client()];
    for host in hosts {
        marks::mark(host, PERCENT)?;
    }
    bandwidth(lab, &site, &dir)?;
    for host in hosts {
        let came = marks::came(host)?;
        let Came {
            packets, capable, ..
        } = came;
        expect(packets > 0 && capable == 0, || {
            format!("packets may be marked: {came:?}")
        })?;
    }
    let counted = counters(&site)?;
    expect(counted == [0; 3], || format!("marks and CNPs: {counted:?}"))
}
