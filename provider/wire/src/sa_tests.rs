//! Tests of `sa`.

use super::*;

#[test]
fn records_survive_and_lie_where_they_should() {
    let path = PathRecord {
        service_id: 0x0106_1c06,
        dgid: [1; 16],
        sgid: [2; 16],
        dlid: 0x0304,
        slid: 0x0506,
        flow_label: 0x000a_bcde,
        hop_limit: 1,
        traffic_class: 7,
        pkey: 0x8001,
        sl: 3,
        mtu: 5,
        rate: 16,
        life_time: 18,
    };

    let bytes = path.emit();
    assert_eq!(PathRecord::parse(&bytes), path);
    assert_eq!(bytes[40..48], [3, 4, 5, 6, 0x0a, 0xbc, 0xde, 1]);
    assert_eq!(bytes[54..57], [0x85, 0x90, 0x92]);
    let service = ServiceRecord {
        id: 9,
        gid: [3; 16],
        pkey: 0xffff,
        lease: 120,
        name: [b'n'; 64],
        data: [4; 16],
        number: 0x0102_0304_0506_0708,
    };

    let bytes = service.emit();
    assert_eq!(ServiceRecord::parse(&bytes), service);
    assert_eq!(bytes[28..32], [0, 0, 0, 120]);
    assert!(bytes[128..160].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[160..169], [1, 2, 3, 4, 5, 6, 7, 8, 0]);
    let member = McMemberRecord {
        mgid: [5; 16],
        port_gid: [6; 16],
        qkey: 0x0123_4567,
        mlid: 0xc003,
        mtu: 5,
        traffic_class: 7,
        pkey: 0xffff,
        rate: 16,
        life_time: 18,
        sl: 3,
        flow_label: 0x000a_bcde,
        hop_limit: 9,
        scope: 2,
        join_state: FULL_MEMBER,
    };

    let bytes = member.emit();
    assert_eq!(McMemberRecord::parse(&bytes), member);
    assert_eq!(bytes[36..40], [0xc0, 3, 0x85, 7]);
    assert_eq!(bytes[42..49], [0x90, 0x92, 0x3a, 0xbc, 0xde, 9, 0x21]);
}

#[test]
fn only_answers_are_taken() {
    let mut question = SaMad {
        method: method::GET,
        status: 0,
        tid: 5,
        attribute: attribute::PATH_RECORD,
        mask: component::PATH,
        data: [6; DATA_LEN],
    };
    assert_eq!(SaMad::parse_answer(&question.emit()), None);
    question.method |= method::RESPONSE;
    let mad = question.emit();
    assert_eq!(SaMad::parse_answer(&mad), Some(question));
    assert_eq!(mad[48..56], component::PATH.to_be_bytes());
}

#[test]
fn tables_are_cut_into_records() {
    let mut message = vec![0; DATA];
    assert!(table(&message).is_empty());
    // Two records of 24 bytes, and a rest.
    message[45] = 3;
    message.extend([1; 24]);
    message.extend([2; 24]);
    message.extend([3; 23]);
    let records = table(&message);
    assert_eq!(records.len(), 2);
    assert_eq!(records[1][..24], [2; 24]);
    assert_eq!(records[1][24..], [0; DATA_LEN - 24]);
    // Longer than what is kept of each.
    message[45] = 0xff;
    assert!(table(&message).is_empty());
    message.resize(DATA + 0xff * 8, 4);
    assert_eq!(table(&message).len(), 1);
    assert!(table(&message[..40]).is_empty());
}
