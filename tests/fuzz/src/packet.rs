//! Any datagram parses or is refused; what parses is emitted again as it came, reserved bits aside.

use ferroce_wire::{Grh, Header, ICRC_LEN, Lrh, MAX_HEADER, Packet};

/// Parses and emits again. Returns whether it was a packet.
pub fn run(datagram: &[u8]) -> bool {
    if let Some((header, rest)) = Lrh::parse(datagram) {
        let mut out = [0; ferroce_wire::lrh::LEN];
        header.emit(&mut out);
        assert_eq!(Lrh::parse(&out).map(|(again, _)| again), Some(header));
        let _ = Grh::parse(rest);
    }

    let Ok(packet) = Packet::parse(datagram) else {
        return false;
    };

    assert_eq!(packet.ext.headers(), packet.info.headers);
    let header = Header {
        bth: packet.bth,
        ext: packet.ext,
    };

    let mut out = [0; MAX_HEADER];
    let n = header.emit(&mut out);
    assert_eq!(n, header.len());
    assert_eq!(
        n + packet.payload.len() + usize::from(packet.bth.pad) + ICRC_LEN,
        datagram.len()
    );

    let mut again = datagram.to_vec();
    again[..n].copy_from_slice(&out[..n]);
    let again = Packet::parse(&again).expect("what was a packet is one");
    assert_eq!((again.bth, again.ext), (packet.bth, packet.ext));
    assert_eq!(again.payload.private(), packet.payload.private());
    true
}
