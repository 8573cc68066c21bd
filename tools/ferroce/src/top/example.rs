//! Two programs with a connection between them, made as real ones are: by tables that programs
//! write and others read.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use ferroce_control::objects::{
    Listing, Object, ObjectTable, QpAttributes, QpProgress, QpRow, QueuePair, Seen,
};
use ferroce_control::{ClientStatus, CmStatus, DeviceInfo, GidEntry, SlotStatus, Status};

use super::sample::{Sample, read};
use crate::ports::Port;

/// A second.
pub(super) const S: u64 = 1_000_000_000;

/// A program with a context, a completion queue, a region and a queue pair.
pub(super) struct Example {
    pub slot: u8,
    pub pid: u32,
    pub name: &'static str,
    daemon: ObjectTable,
    pub listings: Vec<Listing>,
    pub qp: QueuePair,
    pub row: QpRow,
    pub progress: QpProgress,
}

impl Example {
    pub(super) fn new(slot: u8, pid: u32, name: &'static str, remote: u32) -> Example {
        let (daemon, fd) = ObjectTable::create().unwrap();
        let client = Arc::new(ObjectTable::from_fd(fd).unwrap());
        let row = client.row([Some(2), Some(2)]).unwrap();
        row.describe(&attributes());
        let qp = QueuePair {
            number: u32::from(slot) << 16 | 0x100,
            qp_type: 2,
            state: 3,
            port: 1,
            pd: Some(1),
            srq: None,
            remote,
            sq_psn: 1,
            rq_psn: 2,
            row: row.place(),
        };

        let objects = [
            Object::Context,
            Object::Pd {
                context: 0,
                users: 2,
            },
            Object::Cq {
                context: 0,
                cqe: 16,
                users: 2,
            },
            Object::Mr {
                pd: 1,
                key: 5,
                len: 1 << 20,
            },
            Object::Qp(qp),
        ];
        let listings = objects.map(|object| client.enter(object)).into();

        Example {
            slot,
            pid,
            name,
            daemon,
            listings,
            qp,
            row,
            progress: QpProgress {
                sends: 0,
                next_psn: 10,
                unacknowledged_psn: 10,
                highest_psn: 10,
                expected_psn: 20,
                window: 65_536,
                ..QpProgress::default()
            },
        }
    }

    /// Its completion queue.
    pub(super) fn queue(&self) -> &Listing {
        &self.listings[2]
    }

    /// Its queue pair is in another state.
    pub(super) fn set_state(&mut self, state: u8) {
        self.qp.state = state;
        self.listings[4].set(Object::Qp(self.qp));
    }

    /// It has a request on its way, or none.
    pub(super) fn set_sending(&mut self, sends: u32) {
        self.progress.sends = sends;
        self.progress.highest_psn = 10 + sends;
        self.row.publish(&self.progress);
    }
}

fn attributes() -> QpAttributes {
    let mut dgid = [0; 16];
    dgid[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
    QpAttributes {
        dgid,
        path_mtu: 4096,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        max_send_wr: 128,
        max_recv_wr: 64,
        access: 7,
        ..QpAttributes::default()
    }
}

/// Two programs of one device, connected with each other.
pub(super) fn two() -> [Example; 2] {
    [
        Example::new(1, 100, "ib_write_bw", 0x02_0100),
        Example::new(2, 200, "server", 0x01_0100),
    ]
}

/// What there is at a time.
pub(super) fn sample(examples: &[Example], now: u64) -> Sample {
    let clients: Vec<ClientStatus> = examples
        .iter()
        .map(|example| ClientStatus {
            pid: example.pid,
            name: example.name.to_owned(),
            slot: Some(example.slot),
            seconds: 125,
        })
        .collect();

    let programs = examples.iter().zip(&clients).map(|(example, client)| {
        let shared = example.daemon.shared().unwrap();
        let seen = Seen::from_fd(shared.try_clone_to_owned().unwrap()).unwrap();
        read(&seen, example.slot, client)
    });
    Sample {
        now,
        time: UNIX_EPOCH,
        programs: programs.collect(),
        status: status(clients),
        ports: vec![(port(), vec![("port_xmit_data".to_owned(), now / S * 250)])],
    }
}

fn port() -> Port {
    Port {
        device: "ferroce0".to_owned(),
        number: 1,
        state: "ACTIVE".to_owned(),
        phys_state: "LinkUp".to_owned(),
        link_layer: "Ethernet".to_owned(),
        rate: "100 Gb/sec (4X EDR)".to_owned(),
        lid: 0,
        sm_lid: 0,
        netdevs: vec!["lo".to_owned()],
        node_guid: String::new(),
        ours: true,
    }
}

fn status(clients: Vec<ClientStatus>) -> Status {
    Status {
        pid: 1,
        version: "1.2.3".to_owned(),
        uptime_seconds: 9,
        device: DeviceInfo {
            name: "ferroce0".to_owned(),
            index: 10_000,
            uverbs: "uverbs0".to_owned(),
            node_guid: [0; 8],
            sys_image_guid: [0; 8],
            netdev: "lo".to_owned(),
            netdev_index: 1,
            netdev_mtu: 65_536,
            active_mtu: 4096,
            speed_mbps: 100_000,
            port_active: true,
            ib_ports: 0,
            gid_tbl_len: 64,
            rcvbuf: 0,
            fw_ver: String::new(),
            stretch_timeouts: 1,
            congestion: Default::default(),
        },
        gids: vec![GidEntry {
            index: 0,
            gid: [0; 16],
            addr: "127.0.0.1".parse().unwrap(),
            scope_id: 0,
            ifindex: 1,
            ifname: "lo".to_owned(),
        }],
        clients,
        slots: SlotStatus {
            claimed: 2,
            free: 253,
            resting: 0,
        },
        cm: CmStatus::default(),
        counters: Vec::new(),
    }
}
