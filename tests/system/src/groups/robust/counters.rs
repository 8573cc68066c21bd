//! Group `robust`, continued: who resets a device's performance counters. Nobody from another
//! address, by a MAD to the performance management agent.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use crate::attack::pcap::{self, ROCE_V2};
use crate::groups::robust::strangers::{LIMIT, transfer};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};

/// Bytes of BTH and DETH ahead of a MAD, of a MAD, and where its status is.
const HEADERS: usize = 20;
const MAD: usize = 256;
const STATUS: usize = 4;
/// "The method is not supported for this attribute."
const UNSUPPORTED: [u8; 2] = [0, 0x0c];
const GET: u8 = 1;
const SET: u8 = 2;
const PORT_SAMPLES_CONTROL: u16 = 0x10;
const PORT_COUNTERS: u16 = 0x12;
const PORT_COUNTERS_EXTENDED: u16 = 0x1d;
/// Where PortCountersExtended has PortXmitPkts: behind two counters of data.
const PACKETS_SENT: usize = 64 + 8 + 16;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("robust/one-daemon/counters reset by a stranger", reset),
        Case::new(
            "robust/one-daemon/counters reset from the device's own address",
            reset_by_a_neighbour,
        ),
    ]
}

/// A Set of the performance counters from another address is refused and resets none, though a Get
/// is answered.
fn reset(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::Sockets)?;
    transfer(site, port, "1", &dir, || Ok(()))?;
    let stranger = Stranger::of(site.server())?;
    let before = stranger.asks(GET, PORT_COUNTERS_EXTENDED)?;
    for attribute in [PORT_COUNTERS, PORT_COUNTERS_EXTENDED, PORT_SAMPLES_CONTROL] {
        let refused = stranger.asks(SET, attribute)?;
        expect(refused[STATUS..][..2] == UNSUPPORTED, || {
            format!(
                "Set of {attribute:#x}: status {:?}",
                &refused[STATUS..][..2]
            )
        })?;
    }

    let after = stranger.asks(GET, PORT_COUNTERS_EXTENDED)?;
    expect(
        before[STATUS..][..2] == [0, 0] && sent(&before) > 100 && sent(&after) >= sent(&before),
        || format!("packets sent: {}, then {}", sent(&before), sent(&after)),
    )
}

/// Who sends from the device's own address, as any user of the host can, is taken for the host: it
/// is documented, so it is to be so.
fn reset_by_a_neighbour(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::Sockets)?;
    transfer(site, port, "1", &dir, || Ok(()))?;
    let stranger = Stranger::of(site.server())?;
    let before = sent(&stranger.asks(GET, PORT_COUNTERS_EXTENDED)?);
    let own = UdpSocket::bind((*stranger.device.ip(), 0)).map_err(anyhow::Error::from)?;
    let SocketAddr::V4(from) = own.local_addr().map_err(anyhow::Error::from)? else {
        return Err(Stop::fail("the neighbour's address is not IPv4"));
    };

    let request = performance(SET, PORT_COUNTERS_EXTENDED);
    let request = pcap::with_icrc(&request, from, *stranger.device.ip());
    own.send_to(&request, stranger.device)
        .map_err(anyhow::Error::from)?;

    // The answer goes to the device. Packets of one socket of its are taken in order: the Set has
    // been carried out before the Get.
    let after = sent(&stranger.asks(GET, PORT_COUNTERS_EXTENDED)?);
    expect(before > 100 && after < 100, || {
        format!("packets sent: {before}, then {after}")
    })
}

/// Somebody at another address, as if a device were there.
struct Stranger {
    socket: UdpSocket,
    address: SocketAddrV4,
    device: SocketAddrV4,
}

impl Stranger {
    fn of(host: &Host) -> Result<Stranger, Stop> {
        let device = host.address.parse().map_err(anyhow::Error::from)?;
        let address = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 77), ROCE_V2);
        let socket = UdpSocket::bind(address).map_err(anyhow::Error::from)?;
        socket
            .set_read_timeout(Some(LIMIT))
            .map_err(anyhow::Error::from)?;
        Ok(Stranger {
            socket,
            address,
            device: SocketAddrV4::new(device, ROCE_V2),
        })
    }

    /// The answer to a request to the performance management agent.
    fn asks(&self, method: u8, attribute: u16) -> Result<[u8; MAD], Stop> {
        let request = performance(method, attribute);
        let request = pcap::with_icrc(&request, self.address, *self.device.ip());
        self.socket
            .send_to(&request, self.device)
            .map_err(anyhow::Error::from)?;
        let mut answer = [0; HEADERS + MAD + 4];
        self.socket.recv(&mut answer).map_err(anyhow::Error::from)?;
        Ok(answer[HEADERS..][..MAD].try_into().unwrap_or([0; MAD]))
    }
}

/// Packets sent, of an answer about PortCountersExtended.
fn sent(mad: &[u8; MAD]) -> u64 {
    mad[PACKETS_SENT..][..8]
        .iter()
        .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
}

/// BTH to MAD: a request to the performance management agent, of all counters of port 1.
fn performance(method: u8, attribute: u16) -> Vec<u8> {
    let mut packet = vec![0; HEADERS + MAD];
    packet[..8].copy_from_slice(&[0x64, 0, 0xff, 0xff, 0, 0, 0, 1]);
    packet[12..20].copy_from_slice(&[0x80, 1, 0, 0, 0, 0, 0, 1]);
    let mad = &mut packet[HEADERS..];
    mad[..4].copy_from_slice(&[1, 4, 1, method]);
    mad[8..16].fill(0x5a);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[65..68].copy_from_slice(&[1, 0xff, 0xff]);
    packet
}
