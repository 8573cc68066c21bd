//! Tests of `requester`.

use super::*;

#[test]
fn credits_hold_across_the_wrap_of_message_numbers() {
    for start in [0u32, 7, 0xff_fffd, 0xff_ffff] {
        let at = |n: u32| start.wrapping_add(n) & 0xff_ffff;
        let mut req = Requester {
            max: 1,
            limit: Some(at(3)),
            ..Requester::default()
        };
        // Three within the limit, one more to try, then no more while anything is outstanding.
        for (started, may) in [
            (0, true),
            (1, true),
            (2, true),
            (3, true),
            (4, false),
            (9, false),
        ] {
            req.ssn = at(started);
            assert_eq!(req.credited(), may, "{start:#x} + {started}");
        }
        req.una = 1;
        assert!(req.credited(), "stale credits do not stop an idle queue");
        req.limit = None;
        assert!(req.credited());
    }
}
