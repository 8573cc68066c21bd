//! General services that nobody provides: what QP1 answers where no agent is.

use ferroce_wire::mad::{BASE_VERSION, Mad, MadHeader};
use ferroce_wire::smp::{method, status};

/// Refuses a request of a class that has no agent here: boot, device or congestion management, a vendor's class, subnet
/// administration where no subnet manager is (section 13.4.7). Only Get and Set are answered, as whoever sent them waits;
/// `None` for everything else.
pub fn refuse(mad: &Mad) -> Option<Mad> {
    let mut header = MadHeader::parse(mad)?;
    if !matches!(header.method, method::GET | method::SET) {
        return None;
    }
    header.status = if header.base_version == BASE_VERSION {
        status::UNSUPPORTED_ATTRIBUTE
    } else {
        status::BAD_VERSION
    };
    header.method = method::GET_RESP;
    let mut answer = *mad;
    header.emit(&mut answer);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_wire::mad::LEN;

    #[test]
    fn only_those_who_wait_are_answered() {
        for method in 0..=u8::MAX {
            let asked = MadHeader {
                base_version: 1,
                class: 0x21,
                class_version: 2,
                method,
                tid: 7,
                attribute: 0x11,
                modifier: 3,
                ..MadHeader::default()
            };
            let mut mad = [9; LEN];
            asked.emit(&mut mad);
            let answer = refuse(&mad);
            assert_eq!(answer.is_some(), method == 1 || method == 2);
            let Some(answer) = answer else { continue };
            let expected = MadHeader {
                method: 0x81,
                status: 0x0c,
                ..asked
            };
            assert_eq!(MadHeader::parse(&answer), Some(expected));
            assert_eq!(answer[24..], mad[24..]);
        }
    }

    #[test]
    fn an_unknown_base_version_is_named() {
        let mut mad = [0; LEN];
        mad[..4].copy_from_slice(&[2, 0x21, 2, 1]);
        assert_eq!(refuse(&mad).unwrap()[5], 0x04);
    }
}
