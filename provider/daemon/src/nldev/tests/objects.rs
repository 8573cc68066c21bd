//! How objects are counted and listed.

use super::*;

#[test]
fn objects_are_counted_and_listed_in_messages_that_fit() {
    let summary = asked(&request(RDMA_NLDEV_CMD_RES_GET, 0, &[OURS], &[]));
    let table = value(&summary[0][HEADER..], RDMA_NLDEV_ATTR_RES_SUMMARY).unwrap();
    let wanted: &[(&[u8], u64)] = &[
        (b"pd\0", 1),
        (b"cq\0", 1),
        (b"qp\0", 200),
        (b"cm_id\0", 0),
        (b"mr\0", 1),
        (b"ctx\0", 1),
        (b"srq\0", 1),
    ];

    let mut rest = table;
    for (name, count) in wanted {
        let entry = value(rest, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY).unwrap();
        assert_eq!(
            value(entry, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME),
            Some(*name)
        );
        let current = value(entry, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR);
        assert_eq!(current, Some(&count.to_ne_bytes()[..]));
        rest = &rest[(4 + entry.len()).next_multiple_of(4)..];
    }

    let qps = asked(&request(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, &[OURS], &[]));
    assert!(qps.len() > 2);
    let listed = entries(&qps, RDMA_NLDEV_ATTR_RES_QP);
    assert_eq!(listed.len(), 200);
    for (n, entry) in (0..).zip(&listed) {
        assert_eq!(number(entry, RDMA_NLDEV_ATTR_RES_LQPN), Some(0x02_0100 + n));
        assert_eq!(number(entry, RDMA_NLDEV_ATTR_RES_RQPN), Some(0x03_0005));
        assert_eq!(number(entry, RDMA_NLDEV_ATTR_RES_PDN), Some(2 << 24 | 1));
        assert_eq!(number(entry, RDMA_NLDEV_ATTR_RES_PID), Some(4711));
        assert_eq!(value(entry, RDMA_NLDEV_ATTR_RES_STATE), Some(&[3][..]));
    }

    let port = (RDMA_NLDEV_ATTR_PORT_INDEX, 1);
    let one = (RDMA_NLDEV_ATTR_RES_LQPN, 0x02_0101);
    let found = asked(&request(
        RDMA_NLDEV_CMD_RES_QP_GET,
        0,
        &[OURS, port, one],
        &[],
    ));

    assert_eq!(
        number(&found[0][HEADER..], RDMA_NLDEV_ATTR_RES_SQ_PSN),
        Some(17)
    );

    let none = (RDMA_NLDEV_ATTR_RES_LQPN, 5);
    assert_eq!(
        refused(&request(
            RDMA_NLDEV_CMD_RES_QP_GET,
            0,
            &[OURS, port, none],
            &[]
        )),
        2
    );

    assert_eq!(
        refused(&request(RDMA_NLDEV_CMD_RES_QP_GET, 0, &[OURS, one], &[])),
        22
    );
}

#[test]
fn keys_are_for_administrators_and_a_shared_queue_names_its_users() {
    let get = request(RDMA_NLDEV_CMD_RES_MR_GET, DUMP, &[OURS], &[]);
    let plain = entries(&asked(&get), RDMA_NLDEV_ATTR_RES_MR);
    assert_eq!(number(&plain[0], RDMA_NLDEV_ATTR_RES_RKEY), None);
    assert_eq!(
        number(&plain[0], RDMA_NLDEV_ATTR_RES_MRN),
        Some(2 << 24 | 3)
    );

    let admin = Asker {
        net_admin: true,
        ..ASKER
    };
    let keyed = entries(&asked_by(admin, &get), RDMA_NLDEV_ATTR_RES_MR);
    assert_eq!(number(&keyed[0], RDMA_NLDEV_ATTR_RES_LKEY), Some(0xfeed));
    let srqs = asked(&request(RDMA_NLDEV_CMD_RES_SRQ_GET, DUMP, &[OURS], &[]));
    let srqs = entries(&srqs, RDMA_NLDEV_ATTR_RES_SRQ);
    let users = value(&srqs[0], RDMA_NLDEV_ATTR_RES_QP).unwrap();
    let range = value(users, RDMA_NLDEV_ATTR_RES_QP_ENTRY).unwrap();
    assert_eq!(number(range, RDMA_NLDEV_ATTR_MIN_RANGE), Some(0x02_0100));
    assert_eq!(number(range, RDMA_NLDEV_ATTR_MAX_RANGE), Some(0x02_0101));
}
