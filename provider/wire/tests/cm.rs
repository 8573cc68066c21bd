//! What holds for all messages of the communication manager, and for all bytes.

use ferroce_wire::cm::*;
use ferroce_wire::mad::MadHeader;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;

/// Bytes with the header of the class.
fn mad(attribute: u16, tid: u64, modifier: u32, content: &[u8]) -> [u8; 256] {
    let mut mad = [0; 256];
    MadHeader::cm(attribute, tid, modifier).emit(&mut mad);
    mad[24..].copy_from_slice(content);
    mad
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

    #[test]
    fn what_is_parsed_is_emitted_again(
        (attribute, tid, modifier) in (0x10u16..0x1b, any::<u64>(), any::<u32>()),
        content in prop::collection::vec(any::<u8>(), 232),
    ) {
        let bytes = mad(attribute, tid, modifier, &content);
        match Message::parse(&bytes) {
            Ok((header, message)) => {
                prop_assert_eq!((header.tid, header.attribute), (tid, attribute));
                let emitted = message.emit(tid);
                let (_, again) = Message::parse(&emitted).unwrap();
                prop_assert_eq!(again, message);
                // Nothing is emitted that was not there: only reserved bits are missing.
                for (at, (new, old)) in emitted.iter().zip(&bytes).enumerate() {
                    // Of the transport, the extended type counts only where it is in use.
                    prop_assert!(new & !old == 0 || at == 24 + 51, "byte {}", at);
                }
                // The consumer's data is whole.
                prop_assert_eq!(&emitted[200..], &bytes[200..]);
            }
            Err(error) => prop_assert_eq!(error, CmParseError::Transport),
        }
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let parsed = Message::parse(&bytes);
        prop_assert!(parsed.is_err() || bytes.len() == 256);
        let _ = comm_ids(&bytes);
    }

    #[test]
    fn values_too_wide_harm_no_neighbour(
        wide in any::<[u32; 4]>(),
        narrow in any::<[u8; 6]>(),
    ) {
        let req = Req {
            local_qpn: wide[0],
            starting_psn: wide[1],
            ece: Ece { vendor_id: wide[2], attributes: wide[3] },
            retry_count: narrow[0],
            mtu: narrow[1],
            rnr_retry_count: narrow[2],
            max_cm_retries: narrow[3],
            local_response_timeout: narrow[4],
            remote_response_timeout: narrow[5],
            ..Req::default()
        };
        let (_, parsed) = Message::parse(&Message::Req(req).emit(1)).unwrap();
        let cut = Req {
            local_qpn: wide[0] & 0xff_ffff,
            starting_psn: wide[1] & 0xff_ffff,
            ece: Ece { vendor_id: wide[2] & 0xff_ffff, attributes: wide[3] },
            retry_count: narrow[0] & 7,
            mtu: narrow[1] & 15,
            rnr_retry_count: narrow[2] & 7,
            max_cm_retries: narrow[3] & 15,
            local_response_timeout: narrow[4] & 31,
            remote_response_timeout: narrow[5] & 31,
            ..Req::default()
        };
        prop_assert_eq!(parsed, Message::Req(cut));
    }
}

#[test]
fn what_is_not_of_the_class_is_refused() {
    let good = Message::Rtu(Rtu::default()).emit(1);
    let with = |at: usize, value: u8| {
        let mut mad = good;
        mad[at] = value;
        Message::parse(&mad).map(|_| ())
    };
    assert_eq!(with(0, 1), Ok(()));
    assert_eq!(with(0, 2), Err(CmParseError::Class));
    assert_eq!(with(1, 3), Err(CmParseError::Class));
    assert_eq!(with(2, 1), Err(CmParseError::ClassVersion(1)));
    assert_eq!(with(3, 0x81), Err(CmParseError::Method(0x81)));
    assert_eq!(with(17, 0x1b), Err(CmParseError::Attribute(0x1b)));
    assert_eq!(
        Message::parse(&good[..255]).err(),
        Some(CmParseError::Length)
    );
}
