//! Counters of ports and of queue pairs.

use super::*;

#[test]
fn counters_are_named() {
    let port = (RDMA_NLDEV_ATTR_PORT_INDEX, 1);
    let get = RDMA_NLDEV_CMD_STAT_GET;
    let answers = asked(&request(get, 0, &[OURS, port], &[]));
    let table = value(&answers[0][HEADER..], RDMA_NLDEV_ATTR_STAT_HWCOUNTERS).unwrap();
    let first = value(table, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY).unwrap();
    let name = value(first, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME);
    assert_eq!(name, Some(&b"rcvd_pkts\0"[..]));
    let number = value(first, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE);
    assert_eq!(number, Some(&(1u64 << 40).to_ne_bytes()[..]));
    let of = |object: u16| (RDMA_NLDEV_ATTR_STAT_RES, object.into());
    assert_eq!(
        refused(&request(
            get,
            0,
            &[OURS, port, of(RDMA_NLDEV_ATTR_RES_CQ)],
            &[]
        )),
        22
    );
}

#[test]
fn counters_have_their_places_and_none_can_be_switched() {
    let port = (RDMA_NLDEV_ATTR_PORT_INDEX, 1);
    let status = asked(&request(
        RDMA_NLDEV_CMD_STAT_GET_STATUS,
        0,
        &[OURS, port],
        &[],
    ));
    let mut table = value(&status[0][HEADER..], RDMA_NLDEV_ATTR_STAT_HWCOUNTERS).unwrap();
    for (place, name) in [(0, &b"rcvd_pkts\0"[..]), (1, b"lifespan\0")] {
        let entry = value(table, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY).unwrap();
        let of = |kind| value(entry, kind);
        assert_eq!(of(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME), Some(name));
        let index = number(entry, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX);
        assert_eq!(index, Some(place));
        assert_eq!(of(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC), None);
        table = &table[4 + entry.len()..];
    }
    assert!(table.is_empty());
}

#[test]
fn each_queue_pair_has_a_counter_of_its_own_that_stays() {
    let get = RDMA_NLDEV_CMD_STAT_GET;
    let port = (RDMA_NLDEV_ATTR_PORT_INDEX, 1);
    let qp = (RDMA_NLDEV_ATTR_STAT_RES, u32::from(RDMA_NLDEV_ATTR_RES_QP));
    let bound = asked(&request(get, DUMP, &[OURS, port, qp], &[]));
    let listed = entries(&bound, RDMA_NLDEV_ATTR_STAT_COUNTER);
    assert_eq!(listed.len(), 200);
    for (n, entry) in (0x02_0100..).zip(&listed) {
        assert_eq!(number(entry, RDMA_NLDEV_ATTR_STAT_COUNTER_ID), Some(n));
        assert_eq!(number(entry, RDMA_NLDEV_ATTR_RES_PID), Some(4711));
        let qps = value(entry, RDMA_NLDEV_ATTR_RES_QP).unwrap();
        let of = value(qps, RDMA_NLDEV_ATTR_RES_QP_ENTRY).unwrap();
        assert_eq!(number(of, RDMA_NLDEV_ATTR_RES_LQPN), Some(n));
        let table = value(entry, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS).unwrap();
        let first = value(table, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY).unwrap();
        let name = value(first, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME);
        assert_eq!(name, Some(&b"sent_pkts\0"[..]));
        let counted = value(first, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE);
        assert_eq!(counted, Some(&u64::from(n).to_ne_bytes()[..]));
    }

    let id = |n| (RDMA_NLDEV_ATTR_STAT_COUNTER_ID, n);
    let one = asked(&request(get, 0, &[OURS, port, qp, id(0x02_0101)], &[]));
    let body = &one[0][HEADER..];
    assert_eq!(
        number(body, RDMA_NLDEV_ATTR_STAT_COUNTER_ID),
        Some(0x02_0101)
    );
    assert_eq!(refused(&request(get, 0, &[OURS, port, qp, id(1)], &[])), 2);

    let mode = (RDMA_NLDEV_ATTR_STAT_MODE, 2);
    let manual = asked(&request(get, 0, &[OURS, port, qp, mode], &[]));
    let shown = number(&manual[0][HEADER..], RDMA_NLDEV_ATTR_STAT_MODE);
    assert_eq!(shown, Some(2));

    let admin = Asker {
        net_admin: true,
        ..ASKER
    };
    for (n, errno) in [(0x02_0101, -95), (1, -2)] {
        let unbind = request(RDMA_NLDEV_CMD_STAT_DEL, 0, &[OURS, port, qp, id(n)], &[]);
        assert_eq!(refused(&unbind), 1);
        assert_eq!(outline(&asked_by(admin, &unbind)[0]).2, errno);
    }
}
