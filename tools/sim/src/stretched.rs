//! Stretches that come: taken whole or apart.

use ferroce_transport::{Qp, Time};
use ferroce_wire::{Packet, Stretch};

use crate::host::{Onlooker, SimHost};

/// A queue pair takes a packet of a connected service; or a stretch, which has more payload than
/// the path MTU `mtu`: whole if it takes it so, else packet by packet.
pub fn receive<M: Onlooker>(
    qp: &mut Qp,
    now: Time,
    packet: &Packet<'_>,
    mtu: u16,
    host: &mut SimHost<M>,
) {
    let is_long = !packet.bth.filled && packet.payload.len() > mtu.into();
    let stretch = Stretch::new(*packet, mtu).filter(|_| is_long);
    host.selected = None;
    let Some(stretch) = stretch else {
        return qp.receive(now, packet, host);
    };
    if qp.receive_stretch(now, &stretch, host) {
        return;
    }
    for i in 0..stretch.packets() {
        host.selected = None;
        qp.receive(now, &stretch.part(i), host);
    }
}
