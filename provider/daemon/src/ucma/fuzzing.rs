//! The server without its sockets, for `tests/fuzz`.

use std::time::Duration;

use ferroce_fabric::cm::Time;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

use ferroce_cabi::ucma::rdma_ucm_cmd_hdr;
use ferroce_cabi::ucma_frame::{self, Request};
use ferroce_control::rtnetlink::Socket;
use ferroce_control::{DeviceInfo, GidEntry};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use zerocopy::IntoBytes;

use super::channel::Caller;
use super::host::Host;
use super::state::Ucma;
use crate::fuzzing::inputs::steps;
use crate::gids::{GidTable, gid_of};
use crate::interfaces::Snapshot;

const OWN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const CALLER: Caller = Caller {
    session: 1,
    pid: 1,
    uid: 1,
    privileged: false,
};
/// The channels' numbers, whose descriptors would have these inodes.
const CHANNELS: [u64; 2] = [11, 12];
/// Bytes of answer for which a command has room.
const ROOM: u16 = 1024;
/// Numbers of commands: all that there are, and some beyond.
const COMMANDS: u8 = 28;

/// The server of rdma_cm under any sequence of commands, while what it sends comes back to it.
pub fn rdma_cm(input: &[u8]) -> bool {
    let gids = GidTable::of(vec![GidEntry {
        index: 0,
        gid: gid_of(OWN),
        addr: OWN,
        scope_id: 0,
        ifindex: 1,
        ifname: "lo".to_owned(),
    }]);

    let (info, snapshot, kernel) = (device(), Snapshot::default(), Socket::default());
    let mut server = Ucma::new(&info).expect("a page of generations");
    let ends = CHANNELS.map(|inode| open(&mut server, inode));
    let mut now = Time::from_nanos(1);
    let mut done = false;

    for (what, which, bytes) in steps(input).take(64) {
        let host = Host {
            gids: &gids,
            info: &info,
            snapshot: &snapshot,
            kernel: &kernel,
            given: true,
            ports: &[],
            now,
        };

        match what {
            // A command of any number, the known ones mostly.
            0..0xc0 => done |= command(&mut server, what % COMMANDS, which, bytes, &host),
            // What was sent, or something like it, comes back.
            0xc0..0xe0 => {
                for (to, mut mad) in std::mem::take(&mut server.out.mads) {
                    if let [at, change] = *bytes {
                        mad[usize::from(at)] ^= change;
                    }
                    server.cm.receive(now, &to, &mad, &mut server.out);
                }
            }
            0xe0..0xf0 => {
                now += Duration::from_millis(u64::from(which) * 50);
                server
                    .cm
                    .handle_timeout(now, &|qpn| qpn & 1 == 1, &mut server.out);
                (server.services).end_pauses(false, now, &mut server.cm, &mut server.out);
            }
            // A program reads, and says so.
            _ => {
                let end = usize::from(which) % CHANNELS.len();
                let mut record = [0; 4096];
                let taken = (0..).take_while(|_| {
                    rustix::net::recv(&ends[end], &mut record[..], RecvFlags::DONTWAIT)
                        .is_ok_and(|(len, _)| len > 0)
                });
                let taken = taken.count() as u32;
                server.taken(CHANNELS[end], taken);
            }
        }

        server.settle(&host);
        server.announce(&host);
    }

    done
}

pub(super) fn device() -> DeviceInfo {
    DeviceInfo {
        name: "ferroce0".to_owned(),
        index: 10_000,
        uverbs: "uverbs0".to_owned(),
        node_guid: [2; 8],
        sys_image_guid: [2; 8],
        netdev: "lo".to_owned(),
        netdev_index: 1,
        netdev_mtu: 65_536,
        active_mtu: 4096,
        speed_mbps: 100_000,
        port_active: true,
        ib_ports: 0,
        gid_tbl_len: 16,
        rcvbuf: 1 << 20,
        fw_ver: String::new(),
        stretch_timeouts: 1,
        congestion: Default::default(),
    }
}

/// Opens a channel and returns the program's end.
fn open(server: &mut Ucma, inode: u64) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .expect("a pair of sockets");
    server
        .open(inode, ours, CALLER)
        .expect("a number for the channel");
    theirs
}

/// Returns whether it was carried out.
fn command(server: &mut Ucma, number: u8, which: u8, bytes: &[u8], host: &Host<'_>) -> bool {
    let head = rdma_ucm_cmd_hdr {
        cmd: number.into(),
        r#in: bytes.len() as u16,
        out: ROOM,
    };
    let mut whole = head.as_bytes().to_vec();
    whole.extend_from_slice(bytes);
    let request = Request {
        version: ucma_frame::VERSION,
        kind: ucma_frame::COMMAND,
        channel: CHANNELS[usize::from(which) % CHANNELS.len()],
        from: CHANNELS[usize::from(which / 2) % CHANNELS.len()],
        ..Request::default()
    };

    let option = &bytes[..bytes.len().min(usize::from(which / 4))];
    if which & 0x80 == 0 {
        let outcome = server.command(CALLER, &request, (&whole, option), host);
        assert!(outcome.answer.len() <= ucma_frame::MAX_ANSWER);
        assert!(outcome.result <= 0);
        outcome.result == 0
    } else {
        server.posted(CALLER, &request, &whole, host);
        false
    }
}
