//! What programs write to `umad` and `issm`, and MADs that come for them.

use ferroce_cabi::ucma_frame::{self, Request};
use ferroce_cabi::umad::*;
use ferroce_wire::mad::{self, Mad};
use zerocopy::IntoBytes;

use super::Seeds;
use super::steps::{frame, step};

/// A MAD of a class.
fn mad(class: u8, version: u8, method: u8) -> Mad {
    let mut mad = [0; mad::LEN];
    mad[..4].copy_from_slice(&[1, class, version, method]);
    mad[15] = 7;
    mad
}

pub(crate) fn umad() -> Seeds {
    let mut seeds = Seeds::new();

    // A class, its version, and whether RMPP is done for it.
    for (class, version, rmpp) in [
        (3u8, 2u8, 1u8),
        (3, 2, 0),
        (4, 1, 0),
        (5, 1, 0),
        (6, 1, 0),
        (7, 2, 0),
        (9, 1, 0),
    ] {
        // Wants the methods 1 and 2.
        let register = step(0, 0, &[1, class, version, 0, 6, 0, rmpp, 0]);
        let came = step(3, 0, &mad(class, version, 1));
        let name = format!("{class}-{version}-{rmpp}");
        seeds.insert(format!("came-{name}"), [&register[..], &came].concat());

        // Sent with a timeout, to the same port, where it is a request for the agent itself.
        let sent = step(
            1,
            0,
            &[&[10, 2, 1, 0], &mad(class, version, 2)[..]].concat(),
        );

        let late = step(5, 200, &[]);
        seeds.insert(
            format!("sent-{name}"),
            [&register[..], &sent, &late, &late].concat(),
        );

        let gone = step(6, 0, &[]);
        seeds.insert(
            format!("gone-{name}"),
            [&register[..], &came, &sent, &gone, &came].concat(),
        );
    }

    // A long message, in segments.
    let mut long = mad(3, 2, 0x92).to_vec();
    long[24..27].copy_from_slice(&[1, 1, 1]);
    long.resize(3000, 0x5a);
    let register = step(0, 0, &[1, 3, 2, 0, 6, 0, 1, 0]);
    let came = step(3, 0, &mad(3, 2, 1));
    let sent = step(1, 0, &[&[10, 2, 1, 0], &long[..]].concat());
    seeds.insert("long".to_owned(), [register, came, sent].concat());
    seeds
}

pub(crate) fn umad_frames() -> Seeds {
    let mut seeds = Seeds::new();
    let open = |kind, number| {
        let head = Request {
            kind,
            from: number,
            ..Request::default()
        };
        frame(head, &[], &[])
    };

    let ioctl = |file, number, argument: &[u8]| {
        let head = Request {
            kind: ucma_frame::UMAD_IOCTL,
            channel: file,
            from: number,
            ..Request::default()
        };
        frame(head, argument, &[])
    };

    let write = |bytes: &[u8]| {
        let head = Request {
            kind: ucma_frame::UMAD_WRITE,
            ..Request::default()
        };
        frame(head, bytes, &[])
    };

    let read = step(6, 0, &[]);
    for (class, version, rmpp_version) in [(3u8, 2u8, 1u8), (4, 1, 0), (7, 2, 0), (1, 1, 0)] {
        let qpn = u8::from(class != 1);
        let old = ib_user_mad_reg_req {
            method_mask: [6, 0, 0, 0],
            qpn,
            mgmt_class: class,
            mgmt_class_version: version,
            rmpp_version,
            ..zerocopy::FromZeros::new_zeroed()
        };

        let new = ib_user_mad_reg_req2 {
            qpn: qpn.into(),
            mgmt_class: class,
            mgmt_class_version: version,
            method_mask: [6, 0],
            rmpp_version,
            ..zerocopy::FromZeros::new_zeroed()
        };

        let ways = [
            ("old", ioctl(0, IB_USER_MAD_REGISTER_AGENT, old.as_bytes())),
            ("new", ioctl(0, IB_USER_MAD_REGISTER_AGENT2, new.as_bytes())),
        ];

        for (way, register) in ways {
            let name = format!("{class}-{version}-{way}");
            let opened = [open(ucma_frame::UMAD_OPEN, 0), register].concat();
            seeds.insert(format!("register-{name}"), opened.clone());

            let header = ib_user_mad_hdr {
                old: ib_user_mad_hdr_old {
                    timeout_ms: 100,
                    retries: 2,
                    qpn: u32::from(qpn).into(),
                    lid: 1.into(),
                    ..Default::default()
                },
                ..Default::default()
            };

            let request = mad(class, version, 1);
            let written = [header.old.as_bytes(), &request[..]].concat();
            let came = step(7, qpn << 1, &request);
            let talk = [&opened[..], &write(&written), &came, &read].concat();
            seeds.insert(format!("talk-{name}"), talk);

            // With the longer header.
            let longer = [header.as_bytes(), &request[..]].concat();
            let pkey = [
                open(ucma_frame::UMAD_OPEN, 1),
                ioctl(0, IB_USER_MAD_ENABLE_PKEY, &[]),
                opened[open(ucma_frame::UMAD_OPEN, 0).len()..].to_vec(),
                write(&longer),
                ioctl(0, IB_USER_MAD_UNREGISTER_AGENT, 0u32.as_bytes()),
                write(&longer),
            ];

            seeds.insert(format!("pkey-{name}"), pkey.concat());
        }
    }

    let issm = [
        open(ucma_frame::ISSM_OPEN, 0),
        open(ucma_frame::ISSM_OPEN, 0),
        open(ucma_frame::UMAD_OPEN, 0),
        ioctl(2, IB_USER_MAD_ENABLE_PKEY, &[]),
        step(5, 0, &[]),
    ];
    seeds.insert("issm".to_owned(), issm.concat());
    seeds
}
