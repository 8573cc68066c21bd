//! The verdict on any datagram is the one that computing the ICRC gives.

use arbitrary::{Arbitrary, Unstructured};
use ferroce_wire::icrc::{Flow, Verdict};
use ferroce_wire::{ICRC_LEN, ROCE_V2_PORT, bth};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Checks a datagram as it is, or sealed first. Returns whether it is good.
pub fn run(input: &[u8]) -> bool {
    let mut input = Unstructured::new(input);
    let Ok((v4, hint, seal)) = <(bool, u16, Option<u16>)>::arbitrary(&mut input) else {
        return false;
    };

    let bytes = input.take_rest();
    let flow = if v4 {
        Flow::v4(
            Ipv4Addr::new(127, 0, 0, 1),
            Ipv4Addr::new(127, 0, 0, 2),
            50_000,
            ROCE_V2_PORT,
        )
    } else {
        Flow::v6(
            Ipv6Addr::LOCALHOST,
            Ipv6Addr::LOCALHOST,
            50_000,
            ROCE_V2_PORT,
        )
    };

    if bytes.len() < bth::LEN + ICRC_LEN || bytes.len() > 60_000 {
        assert!(bytes.len() > 60_000 || flow.verify(bytes, hint) == Verdict::Bad);
        return false;
    }

    let icrc = |id: u16, bytes: &[u8]| {
        let mut icrc = flow.start(bytes.len(), id);
        icrc.header(&bytes[..bth::LEN]);
        icrc.payload(&bytes[bth::LEN..bytes.len() - ICRC_LEN]);
        icrc.finish()
    };

    let mut bytes = bytes.to_vec();
    let end = bytes.len() - ICRC_LEN;
    if let Some(id) = seal {
        let sum = icrc(id, &bytes);
        bytes[end..].copy_from_slice(&sum);
        let expected = if !v4 || id == hint {
            Verdict::Exact
        } else {
            Verdict::WithId(id)
        };
        assert_eq!(flow.verify(&bytes, hint), expected);
    }

    let verdict = flow.verify(&bytes, hint);
    match verdict {
        Verdict::Exact => assert_eq!(icrc(hint, &bytes), bytes[end..]),
        Verdict::WithId(id) => assert!(v4 && id != hint && icrc(id, &bytes) == bytes[end..]),
        Verdict::Bad => assert_ne!(icrc(hint, &bytes), bytes[end..]),
    }

    verdict.is_good()
}
