//! The reaction point by itself, in made-up time.

use super::*;

const GB: u64 = 1_000_000_000;

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

/// One that has sent 1 GB/s for 20 ms.
fn warm() -> Dcqcn {
    let dcqcn = Dcqcn::new(3 << 20);
    for i in 1..=200 {
        dcqcn.sent(at(100 * i), 100_000, true);
    }
    dcqcn
}

fn rate(dcqcn: &Dcqcn) -> Option<u64> {
    dcqcn.reaction().map(|reaction| reaction.rate)
}

#[test]
fn without_marks_there_is_no_rate() {
    let dcqcn = warm();
    assert_eq!(
        (rate(&dcqcn), dcqcn.allowance(at(20_000))),
        (None, Ok(u64::MAX))
    );
}

#[test]
fn a_first_mark_halves_what_was_sent_and_half_of_the_way_back_is_quick() {
    let dcqcn = warm();
    dcqcn.signal(at(20_000), PathSignal::Notified);
    assert_eq!(rate(&dcqcn), Some(GB / 2));
    let mut last = GB / 2;
    for step in 1..=4 {
        let _ = dcqcn.allowance(at(20_000) + step * DCQCN_PERIOD);
        let rate = rate(&dcqcn).expect("limited");
        assert_eq!(rate, last / 2 + GB / 2);
        last = rate;
    }
}

#[test]
fn marks_that_go_on_bring_it_to_the_least_rate_and_silence_ends_it() {
    let dcqcn = warm();
    for i in 0..2000 {
        dcqcn.signal(at(20_000 + 50 * i), PathSignal::Notified);
    }
    assert_eq!(rate(&dcqcn), Some(DCQCN_MIN_RATE));
    let mut now = at(120_000);
    while rate(&dcqcn).is_some() {
        now += DCQCN_PERIOD;
        let _ = dcqcn.allowance(now);
        assert!(now < at(20_000_000), "{:?}", rate(&dcqcn));
    }
}

#[test]
fn what_is_allowed_in_a_while_is_the_rate() {
    let dcqcn = warm();
    dcqcn.signal(at(20_000), PathSignal::Notified);
    let (mut now, mut sent) = (at(20_000), 0);
    let end = at(20_000) + DCQCN_PERIOD - Duration::from_nanos(1);
    while now < end {
        match dcqcn.allowance(now) {
            Ok(bytes) => {
                let bytes = bytes.min(4096);
                dcqcn.sent(now, bytes as usize, false);
                sent += bytes;
            }
            Err(later) => now = later,
        }
    }
    let whole = GB / 2 * DCQCN_PERIOD.as_nanos() as u64 / SECOND;
    let burst = GB / 2 * DCQCN_BURST.as_nanos() as u64 / SECOND;
    assert!(
        (whole - 4096..=whole + burst + 4096).contains(&sent),
        "{sent} of {whole}"
    );
}

#[test]
fn a_mark_before_anything_was_measured_goes_by_what_was_sent_so_far() {
    let dcqcn = Dcqcn::new(3 << 20);
    for i in 0..5 {
        dcqcn.sent(at(1000 + 100 * i), 100_000, true);
    }
    dcqcn.signal(at(1500), PathSignal::Notified);
    let halved = rate(&dcqcn).expect("limited");
    assert!((GB / 4..=GB / 2).contains(&halved), "{halved}");
}

#[test]
fn the_estimate_falls_while_no_mark_comes_and_a_long_pause_is_quickly_over() {
    let dcqcn = warm();
    dcqcn.signal(at(20_000), PathSignal::Notified);
    let alpha = || dcqcn.reaction().map(|reaction| reaction.alpha);
    assert_eq!(alpha(), Some(Reaction::ONE));
    let _ = dcqcn.allowance(at(20_000) + 4 * DCQCN_PERIOD);
    assert!(alpha() < Some(Reaction::ONE), "{:?}", alpha());
    let year = Duration::from_secs(365 * 86_400);
    assert_eq!(dcqcn.allowance(at(20_000) + year), Ok(u64::MAX));
    dcqcn.signal(at(20_000) + year, PathSignal::Notified);
    assert_eq!(alpha(), Some(Reaction::ONE), "as at the first");
}

#[test]
fn losses_are_answered_by_the_window_and_marks_are_not() {
    let dcqcn = warm();
    let window = dcqcn.window();
    dcqcn.signal(at(20_000), PathSignal::Notified);
    assert_eq!(dcqcn.window(), window);
    dcqcn.signal(at(20_000), PathSignal::Loss);
    assert!(dcqcn.window() < window);
}

#[test]
fn a_rate_that_was_not_used_does_not_count() {
    let dcqcn = warm();
    dcqcn.signal(at(20_000), PathSignal::Notified);
    // Held back by something else: 50 MB/s, while the rate grows.
    for i in 1..=100 {
        dcqcn.sent(at(20_000 + 100 * i), 5_000, true);
        let _ = dcqcn.allowance(at(20_000 + 100 * i));
    }
    assert!(rate(&dcqcn) > Some(GB), "{:?}", rate(&dcqcn));
    dcqcn.signal(at(30_000), PathSignal::Notified);
    assert!(rate(&dcqcn) < Some(GB / 8), "{:?}", rate(&dcqcn));
}
