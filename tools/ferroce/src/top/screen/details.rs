//! All that is known of one queue pair.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline, Wrap};
use std::time::Duration;

use super::draw::Theme;
use super::state::State;
use crate::top::names::{short, span};
use crate::top::queue_pair::{Queue, QueuePair};
use crate::top::report::{Owner, Rates};

/// Lines of a picture of rates, with its words.
const PICTURE: u16 = 3;

/// The numbers, and below them how the rates were.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &State,
    qp: &QueuePair,
    theme: &Theme,
) {
    let rows = [
        Constraint::Min(0),
        Constraint::Length(PICTURE),
        Constraint::Length(PICTURE),
    ];
    let [text, sent, received] = Layout::vertical(rows).areas(area);

    let lines: Vec<Line<'_>> = lines(qp)
        .into_iter()
        .map(|(label, text)| {
            let style = if label == "hint" {
                theme.marked
            } else {
                theme.head
            };
            Line::from(vec![
                Span::styled(format!("{label:<9}"), style),
                Span::raw(text),
            ])
        })
        .collect();
    let paragraph = Paragraph::new(lines)
        .wrap(Wrap { trim: false })
        .scroll((state.scrolled, 0));
    frame.render_widget(paragraph, text);

    let history = state.history(qp);
    let of = |which: fn(&(u64, u64)) -> u64| -> Vec<u64> {
        // As many as there is room for, the newest at the right.
        let all = history.into_iter().flatten().map(which);
        let skipped = history.map_or(0, |past| past.len().saturating_sub(area.width.into()));
        all.skip(skipped).collect()
    };
    let now = qp.rates.unwrap_or_default();
    let pictures = [
        (sent, "sent", of(|rate| rate.0), now.sent_bytes, theme.sent),
        (
            received,
            "received",
            of(|rate| rate.1),
            now.rcvd_bytes,
            theme.received,
        ),
    ];

    for (area, what, data, now, style) in pictures {
        let [words, picture] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
        let most = data.iter().max().copied().unwrap_or(0);
        let text = format!(
            "{what} {} bytes a second, {} at most",
            short(now),
            short(most as f64)
        );
        frame.render_widget(Line::styled(text, theme.head), words);
        frame.render_widget(Sparkline::default().data(data).style(style), picture);
    }
}

/// Each with its label.
pub(super) fn lines(qp: &QueuePair) -> Vec<(&'static str, String)> {
    let psn = &qp.psn;
    let mut lines = vec![
        (
            "QP",
            format!(
                "0x{:06x}, {}, {}, port {}, of {}",
                qp.number,
                qp.service,
                qp.state,
                qp.port,
                of(&qp.owner)
            ),
        ),
        ("peer", peer(qp)),
    ];

    lines.extend(qp.hints.iter().map(|hint| ("hint", hint.text.clone())));
    lines.extend([
        ("sends", queue(&qp.sends, qp.send_cq)),
        ("receives", receives(qp)),
        (
            "PSNs",
            format!(
                "next 0x{:06x}, unacknowledged from 0x{:06x} to 0x{:06x}, expected 0x{:06x}",
                psn.next, psn.unacknowledged, psn.highest, psn.expected
            ),
        ),
        (
            "window",
            format!(
                "{} of {} bytes in flight; retries left {}, after RNR NAKs {}{}",
                qp.in_flight_bytes,
                qp.window_bytes,
                qp.retries_left,
                qp.rnr_retries_left,
                if qp.waits_for_receiver {
                    ", waits for the receiver"
                } else {
                    ""
                }
            ),
        ),
    ]);
    lines.extend(pace(qp).map(|pace| ("rate", pace)));
    lines.extend(traffic(qp));
    lines.extend(attributes(qp));
    lines
}

/// What marks of congestion have its path held to.
fn pace(qp: &QueuePair) -> Option<String> {
    let mbps = qp.rate_bytes_per_second? as f64 * 8e-6;
    let alpha = qp.congestion_estimate?;
    Some(format!(
        "{mbps:.0} Mb/s, as packets were marked; alpha {alpha:.3}"
    ))
}

fn of(owner: &Owner) -> String {
    let Owner { slot, pid, program } = owner;
    format!("{program}, process {pid}, slot {slot}")
}

fn peer(qp: &QueuePair) -> String {
    let Some(address) = &qp.peer.address else {
        return "none".to_owned();
    };
    let program = match &qp.peer.program {
        Some(owner) => format!(", {}", of(owner)),
        None => String::new(),
    };
    format!("0x{:06x} at {address}{program}", qp.peer.number)
}

fn queue(queue: &Queue, cq: Option<u32>) -> String {
    let completes = cq.map_or(String::new(), |cq| format!(", into CQ {cq}"));
    format!(
        "{} posted, {} completed, {} of {} outstanding{completes}",
        queue.posted, queue.completed, queue.outstanding, queue.capacity
    )
}

fn receives(qp: &QueuePair) -> String {
    match qp.shared_receive_queue {
        None => queue(&qp.receives, qp.recv_cq),
        Some(srq) => {
            let completes = qp
                .recv_cq
                .map_or(String::new(), |cq| format!(", into CQ {cq}"));
            format!(
                "{} completed, from SRQ {srq}{completes}",
                qp.receives.completed
            )
        }
    }
}

fn traffic(qp: &QueuePair) -> Vec<(&'static str, String)> {
    let n = |name: &str| qp.counters.get(name).copied().unwrap_or(0);
    let at = &qp.seconds_ago;
    let rate = |of: fn(&Rates) -> f64| {
        let rate = qp.rates.as_ref().map(of);
        rate.map_or(String::new(), |rate| format!(", {} a second", short(rate)))
    };

    let error = match &qp.last_error {
        None => "none".to_owned(),
        Some(error) => {
            let ago = ago(Some(error.seconds_ago));
            format!("{} of a {} {ago}", error.status, error.queue)
        }
    };

    vec![
        (
            "sent",
            format!(
                "{} packets{}, {} bytes, the last {}",
                n("sent_pkts"),
                rate(|rates| rates.sent_pkts),
                n("sent_bytes"),
                ago(at.sent)
            ),
        ),
        (
            "received",
            format!(
                "{} packets{}, {} bytes, the last {}",
                n("rcvd_pkts"),
                rate(|rates| rates.rcvd_pkts),
                n("rcvd_bytes"),
                ago(at.received)
            ),
        ),
        (
            "again",
            format!(
                "{} packets, the last {}; {} timeouts, the last {}; NAKs {}, implied {}",
                n("roce_retransmits"),
                ago(at.sent_again),
                n("local_ack_timeout_err"),
                ago(at.timed_out),
                n("packet_seq_err"),
                n("implied_nak_seq_err")
            ),
        ),
        (
            "RNR",
            format!(
                "{} NAKs received, the last {}; {} sent, the last {}",
                n("rnr_nak_retry_err"),
                ago(at.rnr_nak_received),
                n("out_of_buffer"),
                ago(at.rnr_nak_sent)
            ),
        ),
        (
            "order",
            format!(
                "{} duplicates, {} out of sequence, {} sequence NAKs sent, {} dropped",
                n("duplicate_request"),
                n("out_of_sequence"),
                n("send_seq_nak"),
                n("rx_no_receive") + n("uc_loss") + n("qkey_viol")
            ),
        ),
        (
            "errors",
            format!(
                "{} of sends, {} of receives, {} and {} flushed; the last: {error}",
                n("req_cqe_error"),
                n("resp_cqe_error"),
                n("req_cqe_flush_error"),
                n("resp_cqe_flush_error")
            ),
        ),
    ]
}

fn ago(seconds: Option<f64>) -> String {
    let known = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    known.map_or_else(|| "never".to_owned(), |ago| format!("{} ago", span(ago)))
}

fn attributes(qp: &QueuePair) -> Vec<(&'static str, String)> {
    let has = &qp.attributes;
    vec![
        (
            "path",
            format!(
                "mtu {}, sgid_index {}, hop_limit {}, traffic_class {}, flow_label {}, sl {}",
                has.path_mtu,
                has.sgid_index,
                has.hop_limit,
                has.traffic_class,
                has.flow_label,
                has.sl
            ),
        ),
        (
            "retries",
            format!(
                "timeout {}, retry_cnt {}, rnr_retry {}, min_rnr_timer {}",
                has.timeout, has.retry_cnt, has.rnr_retry, has.min_rnr_timer
            ),
        ),
        (
            "limits",
            format!(
                "rd_atomic {}, dest_rd_atomic {}, sge {} and {}, inline {}",
                has.max_rd_atomic,
                has.max_dest_rd_atomic,
                has.max_send_sge,
                has.max_recv_sge,
                has.max_inline_data
            ),
        ),
        (
            "keys",
            format!(
                "access {}, pkey_index {}, qkey 0x{:08x}",
                match has.access.is_empty() {
                    true => "none".to_owned(),
                    false => has.access.join(" "),
                },
                has.pkey_index,
                has.qkey
            ),
        ),
        (
            "first",
            format!(
                "sq_psn 0x{:06x}, rq_psn 0x{:06x}, sq_sig_all {}, PD {}",
                has.sq_psn,
                has.rq_psn,
                has.sq_sig_all,
                qp.domain.map_or("none".to_owned(), |pd| pd.to_string())
            ),
        ),
    ]
}
