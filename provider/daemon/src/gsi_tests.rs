//! The same MADs to a RoCE port and to an InfiniBand port: they are treated alike.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use ferroce_control::{CounterPage, RuntimeDir};
use ferroce_fabric::link::{self, Ends, Unfit};
use ferroce_wire::icrc::Flow;
use ferroce_wire::link::{Head, LinkPacket};
use ferroce_wire::lrh::{Lrh, NextHeader};
use ferroce_wire::mad::{
    CLASS_CM, DEFAULT_PKEY, Gid, LEN, Mad, QP0, QP1, QP1_QKEY, method, status,
};
use ferroce_wire::{Bth, Deth, Ext, Header, ICRC_LEN, MadHeader, ROCE_V2_PORT, opcode};
use ferroce_wire::{pma, sa, smp};

use crate::adapter::Adapter;
use crate::config::{Config, LinkLayer};
use crate::daemon::Daemon;
use crate::mads::{Address, Incoming, Route};
use crate::qp1::Qp1;

/// Boot management, for which there is no agent.
const CLASS_BOOT: u8 = 0x05;
const VENDOR: u8 = 0x32;

/// A device of each link layer, none of whose ports leads anywhere.
struct Devices {
    daemons: [Daemon; 2],
    _temp: tempfile::TempDir,
}

impl Devices {
    /// At addresses of their own, from this one of the net on.
    fn start(first: u8) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let start = |name: &str, config: Config| {
            let dir = RuntimeDir::resolve(Some(&temp.path().join(name)));
            Daemon::start(dir, config.try_into().unwrap()).unwrap()
        };

        let roce = Config {
            addr: vec![format!("127.0.7.{first}").parse().unwrap()],
            ..Config::default()
        };

        let [near, far] = [first + 1, first + 2].map(|host| format!("127.0.7.{host}:7101"));
        let infiniband = Config {
            link_layer: Some(LinkLayer::Infiniband),
            cable: vec![format!("{near}={far}").parse().unwrap()],
            ..Config::default()
        };

        Self {
            daemons: [start("roce", roce), start("infiniband", infiniband)],
            _temp: temp,
        }
    }

    /// The status that goes back for a MAD, which must be the same from both; `None` if nothing
    /// does.
    fn status(&mut self, qpn: u32, mad: &Mad) -> Option<u16> {
        let [roce, infiniband] = self.daemons.each_mut().map(|daemon| {
            let incoming = incoming(&daemon.adapter, qpn, mad);
            daemon.served().answer(&incoming)
        });
        assert_eq!(roce, infiniband, "{:?}", MadHeader::parse(mad));
        let answer = MadHeader::parse(&roce?).unwrap();
        assert_eq!(answer.method, method::GET_RESP);
        Some(answer.status)
    }

    /// How many messages each connection manager could not understand.
    fn malformed(&self) -> [u64; 2] {
        self.daemons.each_ref().map(|daemon| {
            let counters = daemon.rdma_cm.dropped();
            let (_, n) = counters
                .iter()
                .find(|(name, _)| *name == "cm_malformed")
                .unwrap();
            *n
        })
    }
}

/// As it comes from a program of the same host.
fn incoming(adapter: &Adapter, qpn: u32, mad: &Mad) -> Incoming {
    let own: Gid = match adapter.is_ib() {
        true => adapter.ib.described()[0].gids[0].1,
        false => adapter.gids.entry(0).unwrap().gid,
    };

    Incoming {
        port: 1,
        qpn,
        from: Address {
            qpn,
            qkey: QP1_QKEY,
            grh: Some(Route {
                gid: own,
                hop_limit: 64,
                ..Route::default()
            }),
            ..Address::default()
        },
        mad: *mad,
    }
}

fn mad(version: u8, class: u8, class_version: u8, method: u8, attribute: u16) -> Mad {
    let mut mad = [0; LEN];
    let header = MadHeader {
        base_version: version,
        class,
        class_version,
        method,
        tid: 7,
        attribute,
        ..MadHeader::default()
    };
    header.emit(&mut mad);
    mad
}

/// A client that hears of the end starts the next daemon.
#[test]
fn what_was_cleaned_up_is_free_before_the_last_word() {
    let mut devices = Devices::start(65);
    let ends = [
        format!("127.0.7.65:{ROCE_V2_PORT}"),
        "127.0.7.66:7101".into(),
    ];
    for (daemon, end) in devices.daemons.iter_mut().zip(ends) {
        assert!(UdpSocket::bind(&end).is_err(), "{end}");
        daemon.clean_up();
        UdpSocket::bind(&end).unwrap();
    }
}

#[test]
fn both_link_layers_answer_alike() {
    use method::*;
    const BAD_VERSION: Option<u16> = Some(status::BAD_VERSION);
    const BAD_METHOD: Option<u16> = Some(status::UNSUPPORTED_METHOD);
    const BAD_ATTRIBUTE: Option<u16> = Some(status::UNSUPPORTED_ATTRIBUTE);
    const COUNTERS: u16 = pma::attribute::PORT_COUNTERS;
    const INFO: u16 = pma::attribute::CLASS_PORT_INFO;

    let mut devices = Devices::start(60);
    let rows = [
        // C13-24: another base version, whoever it is for.
        (QP1, mad(2, pma::CLASS, 1, GET, INFO), BAD_VERSION),
        (QP1, mad(2, sa::CLASS, 2, SET, INFO), BAD_VERSION),
        (QP1, mad(0, CLASS_CM, 2, GET, INFO), BAD_VERSION),
        (QP1, mad(2, CLASS_CM, 2, SEND, 0x10), None),
        (QP1, mad(2, VENDOR, 1, GET_RESP, INFO), None),
        (QP1, mad(2, pma::CLASS, 1, TRAP, 2), None),
        // C13-24: class version, then method, then attribute.
        (QP1, mad(1, pma::CLASS, 2, GET, INFO), BAD_VERSION),
        (QP1, mad(1, pma::CLASS, 2, 0x7f, INFO), BAD_VERSION),
        (QP1, mad(1, pma::CLASS, 1, 0x7f, INFO), BAD_METHOD),
        (QP1, mad(1, pma::CLASS, 1, SEND, COUNTERS), BAD_METHOD),
        (QP1, mad(1, pma::CLASS, 1, TRAP, 2), None),
        (QP1, mad(1, pma::CLASS, 1, GET_RESP, INFO), None),
        (QP1, mad(1, pma::CLASS, 1, GET, 0x7777), BAD_ATTRIBUTE),
        (QP1, mad(1, pma::CLASS, 1, SET, INFO), BAD_ATTRIBUTE),
        (QP1, mad(1, pma::CLASS, 1, GET, INFO), Some(0)),
        // Section 13.4.7: classes that nobody serves.
        (QP1, mad(1, CLASS_BOOT, 1, GET, INFO), BAD_ATTRIBUTE),
        (QP1, mad(1, CLASS_BOOT, 1, SET, INFO), BAD_ATTRIBUTE),
        (QP1, mad(1, CLASS_BOOT, 1, SEND, INFO), None),
        (QP1, mad(1, VENDOR, 1, GET, INFO), BAD_ATTRIBUTE),
        (QP1, mad(1, VENDOR, 1, TRAP_REPRESS, 2), None),
        (QP1, mad(1, sa::CLASS, 2, GET, 0x35), BAD_ATTRIBUTE),
        (QP1, mad(1, sa::CLASS, 2, GET_RESP, 0x35), None),
        // Connections are made by Send; what else the class has, nobody serves.
        (QP1, mad(1, CLASS_CM, 2, GET, INFO), BAD_ATTRIBUTE),
        (QP1, mad(1, CLASS_CM, 2, SET, INFO), BAD_ATTRIBUTE),
        (QP1, mad(1, CLASS_CM, 2, GET_RESP, INFO), None),
        // Section 13.5.1: each queue pair has its classes.
        (QP1, mad(1, smp::CLASS_LID, 1, GET, 0x11), None),
        (QP1, mad(1, smp::CLASS_DIRECTED, 1, GET, 0x11), None),
        (QP0, mad(1, pma::CLASS, 1, GET, INFO), None),
        (QP0, mad(1, CLASS_CM, 2, SEND, 0x10), None),
    ];

    for (qpn, mad, expected) in rows {
        let header = MadHeader::parse(&mad);
        assert_eq!(devices.status(qpn, &mad), expected, "QP{qpn}: {header:?}");
    }

    assert_eq!(devices.malformed(), [0, 0]);
}

#[test]
fn both_link_layers_give_messages_to_the_connection_manager() {
    let mut devices = Devices::start(70);
    for (n, (class_version, attribute)) in [(1, 0x10), (2, 0x7777)].into_iter().enumerate() {
        let message = mad(1, CLASS_CM, class_version, method::SEND, attribute);
        assert_eq!(devices.status(QP1, &message), None);
        let seen = n as u64 + 1;
        assert_eq!(devices.malformed(), [seen, seen]);
    }
}

/// Section 13.4.2: a MAD is of 256 bytes, neither less nor more.
#[test]
fn what_has_another_length_is_no_mad() {
    for (len, is_mad) in [
        (0, false),
        (24, false),
        (252, false),
        (256, true),
        (260, false),
    ] {
        let payload = vec![1; len];
        assert_eq!(over_roce(&payload), usize::from(is_mad), "{len}");
        let read = over_infiniband(&payload);
        assert_eq!(read.err(), (!is_mad).then_some(Unfit::Malformed), "{len}");
    }
}

fn transport() -> Header {
    Header {
        bth: Bth {
            opcode: opcode::UD_SEND_ONLY,
            pkey: DEFAULT_PKEY,
            dest_qp: QP1,
            ..Bth::default()
        },
        ext: Ext {
            deth: Some(Deth {
                qkey: QP1_QKEY,
                src_qp: QP1,
            }),
            ..Ext::default()
        },
    }
}

/// How many MADs come of a datagram with that payload.
fn over_roce(payload: &[u8]) -> usize {
    let ip = Ipv4Addr::LOCALHOST;
    let [from, to] = [(); 2].map(|()| UdpSocket::bind((ip, 0)).unwrap());
    let mut packet = [0; 512];
    let n = transport().emit(&mut packet);
    let len = n + payload.len() + ICRC_LEN;
    packet[n..n + payload.len()].copy_from_slice(payload);
    let port = from.local_addr().unwrap().port();
    let mut icrc = Flow::v4(ip, ip, port, ROCE_V2_PORT).start(len, 0);
    icrc.header(&packet[..n]);
    icrc.payload(payload);
    packet[len - ICRC_LEN..len].copy_from_slice(&icrc.finish());
    from.send_to(&packet[..len], to.local_addr().unwrap())
        .unwrap();
    let counters = CounterPage::private().unwrap();
    let place = (IpAddr::V4(ip), Some(0));
    Qp1::default().receive(&to.into(), place, &counters).len()
}

/// What is read of a packet with that payload.
fn over_infiniband(payload: &[u8]) -> Result<Ends, Unfit> {
    let head = Head {
        lrh: Lrh {
            vl: 0,
            version: 0,
            sl: 0,
            next: NextHeader::Local,
            dlid: 1,
            words: 0,
            slid: 2,
        },
        grh: None,
    };

    let transport = transport();
    let mut bytes = [0; 64];
    let n = transport.emit(&mut bytes);
    let len = n + payload.len() + ICRC_LEN;
    let mut packet = vec![0; head.len() + len];
    let mut icrc = head.emit(len, &mut packet);
    icrc.header(&bytes[..n]);
    icrc.payload(payload);
    let body = &mut packet[head.len()..];
    body[..n].copy_from_slice(&bytes[..n]);
    body[n..n + payload.len()].copy_from_slice(payload);
    body[n + payload.len()..].copy_from_slice(&icrc.finish());
    link::read(&LinkPacket::parse(&packet).unwrap()).map(|(ends, _)| ends)
}
