//! The sequence of a test as a diagram: tester and device side by side, time downwards, an arrow
//! for each packet, the steps between.
//!
//! Rows are of one height, whatever the time between them: a wait is a row that says how long it
//! was.

use super::decode::Decoded;
use super::markup::{Text, short, time};
use crate::run::{Entry, Recorded};
use crate::trace::Frame;
use std::fmt::Write;
use std::time::Duration;

/// Where the two lifelines are, and how wide all is.
const TESTER: u32 = 130;
const DEVICE: u32 = 660;
const WIDTH: u32 = 720;
/// Of a row, and of the head.
const ROW: u32 = 24;
const HEAD: u32 = 34;
/// Letters that fit.
const LETTERS: usize = 88;
/// A wait as long as that has a row of its own.
const WAIT: Duration = Duration::from_millis(10);

/// What a row is about.
enum Row<'a> {
    Step(&'a str, &'a str),
    Failed(&'a str),
    Wait(Duration),
    Packet(&'a Frame, &'a Decoded, usize),
    Left(usize),
}

/// Draws the packets, of which those between `left` (from, to) are left out.
pub(super) fn draw(
    entries: &[Recorded],
    packets: &[(&Frame, Decoded)],
    left: (usize, usize),
) -> String {
    let rows = rows(entries, packets, left);
    let height = HEAD + ROW * rows.len() as u32 + 10;
    let mut svg = format!(
        "<svg class=ladder role=img aria-label=\"sequence of packets\" viewBox=\"0 0 {WIDTH} {height}\" width={WIDTH} height={height}>\
         <text class=who x={TESTER} y=16>tester</text><text class=who x={DEVICE} y=16>device</text>\
         <path class=life d=\"M{TESTER} 22V{height}M{DEVICE} 22V{height}\"/>\n"
    );

    for (n, row) in rows.iter().enumerate() {
        let y = HEAD + ROW * n as u32 + ROW / 2;
        svg += &match row {
            Row::Step(number, text) => format!(
                "<g class=step><path d=\"M{} {y}H{WIDTH}\"/><text x=4 y={}>{}</text></g>\n",
                TESTER + 4,
                y + 4,
                Text(short(&format!("{number}  {text}"), LETTERS + 14))
            ),
            Row::Failed(text) => format!(
                "<text class=bad x=4 y={}>✗ {}</text>\n",
                y + 4,
                Text(short(text, LETTERS + 14))
            ),
            Row::Wait(wait) => format!(
                "<g class=wait><path d=\"M{TESTER} {0}V{1}M{DEVICE} {0}V{1}\"/><text x={2} y={3}>{4}</text></g>\n",
                y - ROW / 2,
                y + ROW / 2,
                (TESTER + DEVICE) / 2,
                y + 4,
                Text(time(*wait))
            ),
            Row::Packet(frame, packet, number) => arrow(y, frame, packet, *number),
            Row::Left(count) => format!(
                "<text class=left x={} y={}>{count} packets more: in the capture</text>\n",
                (TESTER + DEVICE) / 2,
                y + 4
            ),
        };
    }

    svg += "</svg>";
    svg
}

fn rows<'a>(
    entries: &'a [Recorded],
    packets: &'a [(&Frame, Decoded)],
    left: (usize, usize),
) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let mut entries = entries.iter().peekable();
    let mut last: Option<Duration> = None;
    for n in 0..=packets.len() {
        while let Some(recorded) = entries.next_if(|r| r.after_packets <= n || n == packets.len()) {
            match &recorded.entry {
                Entry::Step { number, text } => rows.push(Row::Step(number, text)),
                Entry::Check {
                    assertion,
                    held: false,
                    ..
                } => rows.push(Row::Failed(assertion)),
                _ => {}
            }
        }

        let Some((frame, packet)) = packets.get(n) else {
            break;
        };

        if (left.0..left.1).contains(&n) {
            if n == left.0 {
                rows.push(Row::Left(left.1 - left.0));
            }
            last = None;
            continue;
        }

        if let Some(last) = last
            && let Some(wait) = frame.at.checked_sub(last)
            && wait >= WAIT
        {
            rows.push(Row::Wait(wait));
        }

        last = Some(frame.at);
        rows.push(Row::Packet(frame, packet, n + 1));
    }

    rows
}

fn arrow(y: u32, frame: &Frame, packet: &Decoded, number: usize) -> String {
    let mut svg = String::new();
    let class = match (packet.problem.is_some(), frame.by_device) {
        (true, _) => "bad",
        (_, true) => "device",
        (_, false) => "tester",
    };

    let (line, base) = (y + 6, y + 1);
    let path = match frame.by_device {
        false => format!("M{TESTER} {line}H{DEVICE}m-7-4 7 4-7 4"),
        true => format!("M{DEVICE} {line}H{TESTER}m7-4-7 4 7 4"),
    };

    let mut label = packet.name.clone();
    if let Some(psn) = packet.psn {
        let _ = write!(label, " · PSN {psn:#08x}");
    }

    let _ = writeln!(
        svg,
        "<g class={class}><title>packet {number}</title><text class=when x={} y={}>{}</text><path d=\"{path}\"/><text class=what x={} y={base}>{}</text></g>",
        TESTER - 8,
        line + 3,
        Text(time(frame.at)),
        (TESTER + DEVICE) / 2,
        Text(short(&label, LETTERS))
    );

    svg
}
