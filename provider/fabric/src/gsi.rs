//! Who takes a MAD that has come to QP0 or QP1 of a port, and what is answered where nobody does:
//! the same for ports of every link layer, of adapters and of switches.
//!
//! [`serve`] is the one place that looks at the header of whatever has come:
//!
//! 1. SMPs are QP0's, and all other classes QP1's (section 13.5.1); at the other of the two they
//!    are dropped. 2. Who asks by another base version is told so (C13-24). No agent sees such a
//!    MAD. 3. A response goes to the agent that has asked, whatever its class. 4. What is asked
//!    goes by the class, and with communication management by the method: connections are Send's,
//!    all else is an agent's. 5. Who asks what nobody takes is refused (section 13.4.7).
//!
//! Only Get and Set are answered, as whoever sent them waits: a Send, a Trap or a Report that
//! nobody wants is gone, as is a response. An agent of this crate checks the rest of the header
//! itself: with another class version or an unknown method, too, who asks is told. At QP0 it is the
//! [`Node`](crate::sma::Node) that does, as only there it is known whether an SMP has arrived; what
//! it leaves to programs comes here.

use ferroce_wire::mad::{BASE_VERSION, CLASS_CM, Mad, MadHeader, QP0, method, status};
use ferroce_wire::{pma, smp};

/// Those behind the queue pairs of a port. Each call is about the MAD that is being served.
pub trait Services {
    /// A message of communication management has come. Where there are no connections it goes to
    /// nobody.
    fn connection(&mut self) {}

    /// Performance management is asked something; the answer.
    fn performance(&mut self, header: &MadHeader) -> Option<Mad>;

    /// It is a program's, or somebody else's who has asked. `false`: nobody takes it.
    fn agent(&mut self, _header: &MadHeader) -> bool {
        false
    }
}

/// Serves a MAD that has come to a queue pair. Returns what goes back.
pub fn serve(qpn: u32, mad: &Mad, services: &mut impl Services) -> Option<Mad> {
    let header = MadHeader::parse(mad)?;
    let subnet = qpn == QP0;
    if smp::is_class(header.class) != subnet {
        return None;
    }

    let is_taken = if header.base_version != BASE_VERSION {
        false
    } else if header.is_response() {
        services.agent(&header)
    } else {
        match (header.class, header.method) {
            (CLASS_CM, method::SEND) => {
                services.connection();
                true
            }
            (pma::CLASS, _) => return services.performance(&header),
            _ => services.agent(&header),
        }
    };

    if is_taken || subnet {
        return None;
    }

    refuse(mad)
}

/// Refuses a request that nobody here carries out: of boot, device or congestion management, a
/// vendor's class, subnet administration where no subnet manager is (section 13.4.7), or by another
/// base version (C13-24). `None` unless it is Get or Set.
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

/// What an agent of this crate takes of its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Class {
    /// The class version.
    pub(crate) version: u8,
    /// The methods that are no responses.
    pub(crate) methods: &'static [u8],
}

impl Class {
    /// Whether the agent looks at what a request is about. The error is the status with which it is
    /// refused: each kind of mistake has its own, and versions come first, as by another one
    /// nothing else is known (C13-24).
    pub(crate) fn check(&self, header: &MadHeader) -> Result<(), u16> {
        if header.base_version != BASE_VERSION || header.class_version != self.version {
            return Err(status::BAD_VERSION);
        }
        if !self.methods.contains(&header.method) {
            return Err(status::UNSUPPORTED_METHOD);
        }
        Ok(())
    }
}

/// Whether somebody waits for the response to a MAD. Of a method that does not exist that is to be
/// assumed.
pub(crate) fn is_asked(header: &MadHeader) -> bool {
    !header.is_response() && header.method != method::TRAP
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_wire::mad::{LEN, QP1};
    use ferroce_wire::sa;

    /// Remembers who was called.
    #[derive(Default)]
    struct Called {
        connection: bool,
        performance: bool,
        agent: bool,
        takes: bool,
    }

    impl Services for Called {
        fn connection(&mut self) {
            self.connection = true;
        }

        fn performance(&mut self, _: &MadHeader) -> Option<Mad> {
            self.performance = true;
            None
        }

        fn agent(&mut self, _: &MadHeader) -> bool {
            self.agent = true;
            self.takes
        }
    }

    #[derive(Debug, PartialEq, Eq)]
    enum To {
        Connection,
        Performance,
        Agent,
        Nobody,
    }

    fn header(base_version: u8, class: u8, method: u8) -> MadHeader {
        MadHeader {
            base_version,
            class,
            class_version: 2,
            method,
            tid: 7,
            attribute: 0x11,
            modifier: 3,
            ..MadHeader::default()
        }
    }

    fn mad(header: &MadHeader) -> Mad {
        let mut mad = [9; LEN];
        header.emit(&mut mad);
        mad
    }

    /// Whom a MAD is given to, and the status that goes back if he does not take it.
    fn served(qpn: u32, header: &MadHeader) -> (To, Option<u16>) {
        let mut called = Called::default();
        let answer = serve(qpn, &mad(header), &mut called);
        let to = match (called.connection, called.performance, called.agent) {
            (false, false, false) => To::Nobody,
            (true, false, false) => To::Connection,
            (false, true, false) => To::Performance,
            (false, false, true) => To::Agent,
            _ => panic!("two were asked"),
        };

        called = Called {
            takes: true,
            ..Called::default()
        };

        let taken = serve(qpn, &mad(header), &mut called);
        assert!(
            taken.is_none() || to == To::Nobody,
            "what is taken is answered"
        );

        let answer = answer.map(|answer| MadHeader::parse(&answer).unwrap());
        let expected = answer.map(|answer| MadHeader {
            method: method::GET_RESP,
            status: answer.status,
            ..*header
        });
        assert_eq!(answer, expected);
        (to, answer.map(|answer| answer.status))
    }

    #[test]
    fn each_is_served_by_its_header() {
        use method::*;

        let other_version = Some(status::BAD_VERSION);
        let refused = Some(status::UNSUPPORTED_ATTRIBUTE);
        const BOOT: u8 = 0x05;
        const VENDOR: u8 = 0x32;

        let rows = [
            // QP0 is for SMPs only, and QP1 for none.
            (QP0, 1, smp::CLASS_LID, GET, To::Agent, None),
            (QP0, 1, smp::CLASS_DIRECTED, GET_RESP, To::Agent, None),
            (QP0, 1, pma::CLASS, GET, To::Nobody, None),
            (QP0, 1, CLASS_CM, SEND, To::Nobody, None),
            (QP0, 2, smp::CLASS_LID, GET_RESP, To::Nobody, None),
            (QP1, 1, smp::CLASS_LID, GET, To::Nobody, None),
            (QP1, 1, smp::CLASS_DIRECTED, SET, To::Nobody, None),
            // Of another base version nothing is known but that somebody waits.
            (QP1, 2, CLASS_CM, SEND, To::Nobody, None),
            (QP1, 0, CLASS_CM, GET, To::Nobody, other_version),
            (QP1, 2, pma::CLASS, GET, To::Nobody, other_version),
            (QP1, 2, sa::CLASS, SET, To::Nobody, other_version),
            (QP1, 2, sa::CLASS, GET_RESP, To::Nobody, None),
            (QP1, 2, VENDOR, TRAP, To::Nobody, None),
            // Communication management is Send.
            (QP1, 1, CLASS_CM, SEND, To::Connection, None),
            (QP1, 1, CLASS_CM, GET, To::Agent, refused),
            (QP1, 1, CLASS_CM, SET, To::Agent, refused),
            (QP1, 1, CLASS_CM, GET_RESP, To::Agent, None),
            (QP1, 1, CLASS_CM, TRAP, To::Agent, None),
            // The performance agent answers for itself.
            (QP1, 1, pma::CLASS, GET, To::Performance, None),
            (QP1, 1, pma::CLASS, SET, To::Performance, None),
            (QP1, 1, pma::CLASS, SEND, To::Performance, None),
            (QP1, 1, pma::CLASS, 0x7f, To::Performance, None),
            (QP1, 1, pma::CLASS, GET_RESP, To::Agent, None),
            // All others are programs'.
            (QP1, 1, sa::CLASS, GET, To::Agent, refused),
            (QP1, 1, sa::CLASS, sa::method::DELETE, To::Agent, None),
            (QP1, 1, sa::CLASS, GET_RESP, To::Agent, None),
            (QP1, 1, BOOT, GET, To::Agent, refused),
            (QP1, 1, BOOT, SET, To::Agent, refused),
            (QP1, 1, BOOT, SEND, To::Agent, None),
            (QP1, 1, VENDOR, REPORT, To::Agent, None),
            (QP1, 1, VENDOR, TRAP_REPRESS, To::Agent, None),
            (QP1, 1, 0xff, GET, To::Agent, refused),
        ];

        for (qpn, version, class, method, to, status) in rows {
            let header = header(version, class, method);
            assert_eq!(served(qpn, &header), (to, status), "QP{qpn}: {header:?}");
        }
    }

    #[test]
    fn only_those_who_wait_are_refused() {
        for method in 0..=u8::MAX {
            let asked = header(1, 0x21, method);
            let answer = refuse(&mad(&asked));
            assert_eq!(answer.is_some(), method == 1 || method == 2);
            let Some(answer) = answer else { continue };
            let expected = MadHeader {
                method: 0x81,
                status: 0x0c,
                ..asked
            };
            assert_eq!(MadHeader::parse(&answer), Some(expected));
            assert_eq!(answer[24..], mad(&asked)[24..]);
        }

        let answer = refuse(&mad(&header(2, 0x21, 1))).unwrap();
        assert_eq!(answer[5], 0x04);
    }

    #[test]
    fn versions_are_looked_at_before_the_method() {
        let class = Class {
            version: 2,
            methods: &[method::GET],
        };
        let check = |base, version, method| {
            class.check(&MadHeader {
                class_version: version,
                ..header(base, 4, method)
            })
        };
        assert_eq!(check(1, 2, 1), Ok(()));
        assert_eq!(check(1, 2, 2), Err(0x08));
        assert_eq!(check(2, 2, 1), Err(0x04));
        assert_eq!(check(1, 1, 2), Err(0x04));
    }
}
