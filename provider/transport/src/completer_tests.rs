//! Tests of `completer`.

use super::*;
use crate::QpConfig;
use ferroce_wire::CreditCode;

#[test]
fn the_limit_never_falls_and_wraps_with_the_message_numbers() {
    let mut qp = Qp::new(QpConfig::default());
    let mut limit = |msn: u32, count: Option<u32>| {
        let code = count.map_or(CreditCode::UNLIMITED, CreditCode::for_count);
        qp.take_credits(Aeth::new(Syndrome::Ack(code), msn));
        qp.req.limit
    };
    assert_eq!(limit(0xff_fffe, Some(1)), Some(0xff_ffff));
    assert_eq!(limit(0xff_fffd, Some(1)), Some(0xff_ffff), "an old one");
    assert_eq!(limit(0xff_ffff, Some(4)), Some(3));
    assert_eq!(limit(0xff_ffff, Some(2)), Some(3));
    assert_eq!(limit(1, Some(2)), Some(3));
    assert_eq!(limit(2, Some(2)), Some(4));
    assert_eq!(limit(2, None), None);
}
