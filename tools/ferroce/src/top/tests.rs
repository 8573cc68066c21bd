//! Rates and hints of reports, and what programs read of them.

use ferroce_control::Counter;
use ferroce_control::objects::QpMoment;

use super::example::{Example, S, sample, two};
use super::report::{Report, report};
use super::tables::Tab;

/// The report of one sample.
fn first(examples: &[Example], now: u64) -> Report {
    report(&sample(examples, now), None).0
}

/// The names of the first queue pair's hints.
fn hints(examples: &[Example], now: u64) -> Vec<&'static str> {
    let report = first(examples, now);
    let hints = report.queue_pairs[0].hints.iter();
    hints.map(|hint| hint.name).collect()
}

#[test]
fn rates_are_of_the_time_between_two_samples() {
    let [client, server] = two();
    client.row.sent(10, 1000, 8 * S);
    let examples = [client, server];
    let (report_one, before) = report(&sample(&examples, 10 * S), None);
    assert_eq!(report_one.interval, None);
    assert!(report_one.queue_pairs.iter().all(|qp| qp.rates.is_none()));

    examples[0].row.sent(4, 2000, 11 * S);
    examples[0].row.count(Counter::RetransmittedPackets, 2);
    examples[1].row.received(4, 2000, 11 * S);
    let (report_two, _) = report(&sample(&examples, 12 * S), Some(&before));
    assert_eq!(report_two.interval, Some(2.0));
    let [sender, receiver] = [0, 1].map(|i| report_two.queue_pairs[i].rates.unwrap());
    assert_eq!((sender.sent_bytes, sender.sent_pkts), (1000.0, 2.0));
    assert_eq!((sender.roce_retransmits, sender.rcvd_bytes), (1.0, 0.0));
    assert_eq!((receiver.rcvd_bytes, receiver.rcvd_pkts), (1000.0, 2.0));
    let of_program = report_two.programs[0].rates.unwrap();
    assert_eq!(of_program.sent_bytes, 1000.0);

    // Words of four bytes.
    assert_eq!(report_two.ports[0].rates.unwrap().sent_bytes, 1000.0);
    let qp = &report_two.queue_pairs[0];
    assert_eq!(qp.counters["sent_bytes"], 3000);
    assert_eq!(qp.seconds_ago.sent, Some(1.0));
}

#[test]
fn a_queue_pair_that_came_since_did_all_of_it_since() {
    let [client, server] = two();
    let (_, before) = report(&sample(&[], 10 * S), None);
    client.row.sent(4, 2000, 11 * S);
    let examples = [client, server];
    let (report_two, before) = report(&sample(&examples, 12 * S), Some(&before));
    let sender = report_two.queue_pairs[0].rates.unwrap();
    assert_eq!((sender.sent_bytes, sender.sent_pkts), (1000.0, 2.0));

    // Another one by the same number began anew.
    let [client, server] = two();
    client.row.sent(1, 500, 13 * S);
    let (report_three, _) = report(&sample(&[client, server], 14 * S), Some(&before));
    let sender = report_three.queue_pairs[0].rates.unwrap();
    assert_eq!((sender.sent_bytes, sender.sent_pkts), (250.0, 0.5));
}

#[test]
fn a_program_of_several_slots_is_shown_once() {
    let [client, server] = two();
    let pid = client.pid;
    let mut lane = Example::new(3, pid, "client", 0);
    lane.listings.clear();
    let mut idle = Example::new(4, 300, "idle", 0);
    idle.listings.clear();
    let report = first(&[client, server, lane, idle], S);
    let shown: Vec<_> = report.programs.iter().map(|p| p.owner.slot).collect();
    assert_eq!(shown, [1, 2, 4]);
}

#[test]
fn a_peer_of_the_same_device_is_named() {
    let report = first(&two(), S);
    let peer = &report.queue_pairs[0].peer;
    assert_eq!(
        (peer.number, peer.address.as_deref()),
        (0x02_0100, Some("127.0.0.1"))
    );
    let program = peer.program.as_ref().unwrap();
    assert_eq!((program.pid, program.program.as_str()), (200, "server"));
}

#[test]
fn a_queue_pair_at_work_has_no_hints() {
    let mut examples = two();
    examples[0].set_sending(5);
    examples[0].row.sent(5, 500, 10 * S);
    assert!(hints(&examples, 11 * S).is_empty());
}

#[test]
fn a_silent_peer_is_one_that_is_timed_out_and_owes_an_answer() {
    let mut examples = two();
    examples[0].set_sending(1);
    examples[0].row.sent(1, 100, 10 * S);
    examples[0].row.received(1, 20, 9 * S);
    examples[0].row.happened(QpMoment::TimedOut, 11 * S);
    assert_eq!(hints(&examples, 12 * S), ["silent"]);
    let report = first(&examples, 12 * S);
    let text = &report.queue_pairs[0].hints[0].text;
    assert_eq!(text, "the peer does not answer, for 3.0s now");

    // It has answered since, or nothing is owed.
    examples[0].row.received(1, 20, 12 * S);
    assert!(hints(&examples, 13 * S).is_empty());
    examples[0].row.happened(QpMoment::TimedOut, 13 * S);
    examples[0].set_sending(0);
    assert!(hints(&examples, 14 * S).is_empty());
}

#[test]
fn receives_that_are_missing_are_named_at_both_ends() {
    let examples = two();
    examples[0].row.happened(QpMoment::RnrReceived, 10 * S);
    examples[1].row.happened(QpMoment::RnrSent, 10 * S);
    let report = first(&examples, 11 * S);
    let [sender, receiver] = [0, 1].map(|i| report.queue_pairs[i].hints[0].name);
    assert_eq!((sender, receiver), ("rnr", "no-receive"));
    assert_eq!(report.programs[1].hints, ["no-receive"]);
    assert!(hints(&examples, 13 * S).is_empty(), "that is long ago");
}

#[test]
fn what_is_sent_again_and_what_is_dropped_is_named() {
    let examples = two();
    examples[0].row.happened(QpMoment::SentAgain, 10 * S);
    assert_eq!(hints(&examples, 11 * S), ["retransmits"]);
    assert!(hints(&examples, 13 * S).is_empty());
    examples[0].row.count(Counter::RxNoReceive, 3);
    assert_eq!(hints(&examples, 13 * S), ["dropped"]);
}

#[test]
fn a_queue_pair_in_error_says_which_request_failed() {
    let mut examples = two();
    examples[0].set_state(6);
    assert_eq!(hints(&examples, S), ["error"]);
    examples[0].row.failed(12, false, 10 * S);
    let report = first(&examples, 13 * S);
    let qp = &report.queue_pairs[0];
    assert_eq!(
        qp.hints[0].text,
        "in error: a send failed with RETRY_EXC_ERR 3.0s ago"
    );
    let error = qp.last_error.as_ref().unwrap();
    assert_eq!((error.status, error.queue), ("RETRY_EXC_ERR", "send"));
}

#[test]
fn completion_queues_that_nobody_serves_are_named() {
    let examples = two();
    let queue = |now| {
        let mut report = first(&examples, now);
        report.completion_queues.remove(0)
    };
    assert!(queue(S).hints.is_empty());
    examples[0].queue().armed(true);
    assert_eq!(queue(S).armed, "solicited");
    examples[0].queue().held(3);
    examples[0].queue().notified(1, 10 * S);
    assert!(queue(10 * S + 1).hints.is_empty(), "it may be waking up");
    assert_eq!(queue(12 * S).hints, ["event-not-taken"]);
    examples[0].queue().polled();
    assert!(queue(12 * S).hints.is_empty());
    examples[0].queue().held(16);
    assert_eq!(queue(12 * S).hints, ["full"]);
    examples[0].queue().overrun();
    assert_eq!(queue(12 * S).hints, ["overrun"]);
}

#[test]
fn every_row_has_a_cell_for_each_column() {
    let report = first(&two(), S);
    for tab in Tab::ALL {
        let rows = tab.rows(&report);
        assert!(!rows.is_empty(), "{tab:?}");
        for row in rows {
            assert_eq!(row.cells.len(), tab.columns().len(), "{tab:?}");
        }
    }
}

#[test]
fn programs_read_numbers_and_names() {
    let report = serde_json::to_value(first(&two(), S)).unwrap();
    let qp = &report["queue_pairs"][0];
    assert_eq!(
        (&qp["pid"], &qp["program"]),
        (&100.into(), &"ib_write_bw".into())
    );
    assert_eq!((&qp["type"], &qp["state"]), (&"RC".into(), &"RTS".into()));
    assert_eq!(qp["peer"]["program"]["pid"], 200);
    assert_eq!(qp["sends"]["capacity"], 128);
    assert_eq!(qp["attributes"]["access"][2], "remote_read");
    assert!(qp["rates"].is_null() && qp["last_error"].is_null());
    assert_eq!(report["memory_regions"][0]["bytes"], 1 << 20);
    assert!(report["memory_regions"][0].get("key").is_none());
}
