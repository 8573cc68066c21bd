//! What was captured as JSON, an object for each packet or thing done by verbs. Numbers are as on
//! the wire, names as in `text`.

use ferroce_control::capture::record::{
    Attributes, FaultNote, Medium, Packet, Verbs, VerbsKind, What,
};
use ferroce_wire::mtu;
use ferroce_wire::{Bth, Lrh, Packet as Transport, Syndrome, opcode};
use serde_json::{Map, Value, json};

use crate::frame::{transport, whole};
use crate::item::Item;
use crate::text::{FLAGS, REQUESTS, SERVICES, completed, message, named, set};
use crate::words::{STATES, STATUSES};

/// The members of an object.
type Members = Map<String, Value>;

/// An item as an object.
pub fn object(item: &Item) -> Value {
    let mut members = Members::new();
    let qp = (item.record.qpn != 0).then_some(item.record.qpn);
    let mut put = |name: &str, value: Value| {
        members.insert(name.to_owned(), value);
    };
    put("time_ns", item.record.time.into());
    put("program", item.source.name.as_str().into());
    put("pid", item.source.pid.into());
    put("qp", qp.into());

    match &item.record.what {
        What::Packet(packet) => of_packet(&mut members, packet, &item.data),
        What::Verbs(verbs) => of_verbs(&mut members, verbs),
        What::Attributes(attributes) => of_attributes(&mut members, attributes),
        What::Fault(note) => of_fault(&mut members, note),
    }
    Value::Object(members)
}

fn of_packet(members: &mut Members, packet: &Packet, data: &[u8]) {
    let (medium, port) = match packet.medium {
        Medium::Udp(_) => ("udp", None),
        Medium::Memory => ("memory", None),
        Medium::Cable(port) => ("cable", Some(port)),
    };
    let lids = port.and_then(|_| Lrh::parse(data));
    let [from, to]: [Value; 2] = match lids {
        Some((lrh, _)) => [lrh.slid.into(), lrh.dlid.into()],
        None => [&packet.from, &packet.to].map(|end| Value::from(end.to_string())),
    };
    let direction = if packet.incoming { "in" } else { "out" };
    add(
        members,
        json!({
            "kind": "packet", "direction": direction, "medium": medium, "port": port, "from": from,
            "to": to, "bytes": packet.original, "dropped": packet.refused,
        }),
    );

    let bytes = transport(packet, data);
    let Some(bth) = Bth::parse(bytes) else { return };
    let name = opcode::info(bth.opcode).map(|info| info.name);
    add(
        members,
        json!({
            "opcode": name, "opcode_number": bth.opcode, "dest_qp": bth.dest_qp, "psn": bth.psn,
            "ack_requested": bth.ack_req,
        }),
    );

    if let Ok(parsed) = Transport::parse(&whole(packet, data)) {
        headers(members, &parsed);
    }
}

/// What the extended headers say.
fn headers(members: &mut Members, packet: &Transport<'_>) {
    add(members, json!({ "payload": packet.content().len() }));
    let filler = packet.filler();
    if filler > 0 {
        add(members, json!({ "filler": filler }));
    }
    if let Some(reth) = &packet.ext.reth {
        let (va, key, length) = (reth.va, reth.rkey, reth.len);
        add(members, json!({ "va": va, "rkey": key, "length": length }));
    }
    if let Some(aeth) = packet.ext.aeth {
        let syndrome = match aeth.kind() {
            Syndrome::Ack(_) => "ACK".to_owned(),
            Syndrome::RnrNak { .. } => "RNR NAK".to_owned(),
            Syndrome::Nak(code) => format!("NAK {code:?}"),
            Syndrome::Reserved(value) => format!("{value:#x}"),
        };
        add(members, json!({ "syndrome": syndrome, "msn": aeth.msn }));
    }
    if let Some(deth) = packet.ext.deth {
        add(members, json!({ "source_qp": deth.src_qp }));
    }

    if let Some(message) = message(packet) {
        add(members, json!({ "message": message }));
    }
}

fn of_verbs(members: &mut Members, verbs: &Verbs) {
    let (wr_id, bytes) = (verbs.wr_id, verbs.bytes);
    let done = match verbs.kind {
        VerbsKind::PostSend => json!({
            "verb": "post_send", "opcode": named(REQUESTS, verbs.opcode), "wr_id": wr_id, "bytes": bytes,
            "flags": set(FLAGS, verbs.status).collect::<Vec<_>>(),
        }),
        VerbsKind::PostRecv => json!({ "verb": "post_recv", "wr_id": wr_id, "bytes": bytes }),
        VerbsKind::Completion => json!({
            "verb": "completion", "opcode": completed(verbs.opcode), "wr_id": wr_id,
            "status": named(STATUSES, verbs.status), "bytes": bytes,
        }),
        VerbsKind::State => {
            json!({ "verb": "state", "state": named(STATES, verbs.status) })
        }
    };
    add(members, json!({ "kind": "verbs" }));
    add(members, done);
}

fn of_attributes(members: &mut Members, of: &Attributes) {
    add(
        members,
        json!({
            "kind": "attributes", "service": named(SERVICES, of.service.into()),
            "state": named(STATES, of.state.into()), "path_mtu": mtu::bytes(of.path_mtu),
            "sq_psn": of.sq_psn, "rq_psn": of.rq_psn, "dest_qp": of.dest_qp, "timeout": of.timeout,
            "retry_cnt": of.retry_cnt, "rnr_retry": of.rnr_retry,
            "min_rnr_timer": of.min_rnr_timer, "max_rd_atomic": of.max_rd_atomic,
            "max_dest_rd_atomic": of.max_dest_rd_atomic, "access": of.access, "qkey": of.qkey,
            "stretch": of.stretch, "srq": of.srq, "sq_sig_all": of.sq_sig_all,
        }),
    );
}

fn of_fault(members: &mut Members, note: &FaultNote) {
    let direction = if note.incoming { "in" } else { "out" };
    let name = opcode::info(note.opcode).map(|info| info.name);
    add(
        members,
        json!({
            "kind": "fault", "direction": direction, "opcode": name, "opcode_number": note.opcode,
            "psn": note.psn, "fate": format!("{:?}", note.fate),
        }),
    );
}

/// Adds the members of another object.
fn add(members: &mut Members, more: Value) {
    if let Value::Object(more) = more {
        members.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use ferroce_control::capture::record::Fate;

    use super::*;

    fn item(what: What, data: &[u8]) -> Item {
        Item::of_rping(1_795_662_018_260_934_401, what, data)
    }

    #[test]
    fn an_acknowledgement_has_its_numbers_and_syndrome() {
        let packet = Packet {
            incoming: true,
            refused: false,
            medium: Medium::Memory,
            original: 20,
            from: "192.0.2.1".parse().unwrap(),
            to: "192.0.2.2".parse().unwrap(),
            traffic_class: 0,
            hop_limit: 64,
            id: 0,
            flow_label: 0,
        };
        // BTH, AETH with unlimited credits, ICRC.
        let data = [
            17, 0, 0xff, 0xff, 0, 0, 0, 5, 0, 0, 1, 0, 0x1f, 0, 0, 3, 0, 0, 0, 0,
        ];
        let wanted = json!({
            "kind": "packet", "time_ns": 1_795_662_018_260_934_401_u64, "program": "rping", "pid": 2, "qp": 7,
            "direction": "in", "medium": "memory", "port": null, "from": "192.0.2.1", "to": "192.0.2.2",
            "bytes": 20, "dropped": false, "opcode": "RC Acknowledge", "opcode_number": 17, "dest_qp": 5,
            "psn": 256, "ack_requested": false, "payload": 0, "syndrome": "ACK", "msn": 3,
        });
        assert_eq!(object(&item(What::Packet(packet), &data)), wanted);

        // What is no packet has no fields of one.
        let cut = object(&item(What::Packet(packet), &data[..4]));
        assert!(cut["bytes"] == 20 && cut.get("opcode").is_none());
    }

    #[test]
    fn what_is_done_by_verbs_has_its_names() {
        let verbs = Verbs {
            kind: VerbsKind::Completion,
            wr_id: u64::MAX,
            opcode: 128,
            status: 12,
            bytes: 64,
        };
        let object = object(&item(What::Verbs(verbs), &[]));
        assert_eq!(object["kind"], "verbs");
        assert_eq!(object["verb"], "completion");
        assert_eq!(object["opcode"], "RECV");
        assert_eq!(object["status"], STATUSES[12]);
        assert_eq!(object["wr_id"], u64::MAX);

        let posted = Verbs {
            kind: VerbsKind::PostSend,
            wr_id: 1,
            opcode: 0,
            status: 2,
            bytes: 64,
        };
        let posted = super::object(&item(What::Verbs(posted), &[]));
        assert_eq!(posted["flags"], json!(["signaled"]));
    }

    #[test]
    fn attributes_and_faults_have_kinds_of_their_own() {
        let attributes = Attributes {
            state: 3,
            path_mtu: 3,
            sq_psn: 0xff_ffff,
            ..Attributes::default()
        };
        let set = object(&item(What::Attributes(attributes), &[]));
        assert_eq!(
            (&set["kind"], &set["service"]),
            (&json!("attributes"), &json!("RC"))
        );
        assert_eq!(
            (&set["state"], &set["path_mtu"]),
            (&json!("RTS"), &json!(1024))
        );
        assert_eq!(set["sq_psn"], 0xff_ffff);

        let note = FaultNote {
            incoming: false,
            opcode: 17,
            psn: 7,
            fate: Fate::Lost,
        };
        let fault = object(&item(What::Fault(note), &[]));
        assert_eq!(
            (&fault["kind"], &fault["fate"]),
            (&json!("fault"), &json!("Lost"))
        );
        assert_eq!(
            (&fault["opcode"], &fault["psn"]),
            (&json!("RC Acknowledge"), &json!(7))
        );
    }
}
