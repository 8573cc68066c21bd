//! What is not a packet in a file of `ferroce capture --verbs`: entries of a journal, whose
//! messages say in words what a queue pair was asked to do, is, and is set to.

use ferroce_transport::{Access, QpState, QpType, SendFlags, WcStatus};

use crate::names::{FATES, SERVICES, STATES, STATUSES, VERBS, named};

/// A message, of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// A send request is posted.
    PostSend(Post),
    /// A receive request is posted.
    PostRecv {
        /// Its identifier.
        wr_id: u64,
        /// Bytes that it takes.
        bytes: u64,
    },
    /// A request is completed.
    Completion(Completed),
    /// The queue pair has another state.
    State(QpState),
    /// It is set to something.
    SetTo(Settings),
    /// A fault on command has a packet go another way.
    Fault(Fault),
}

/// A send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// What is asked for.
    pub verb: PostVerb,
    /// Its identifier.
    pub wr_id: u64,
    /// Bytes.
    pub bytes: u32,
    /// Flags, of which inline is left out: where the bytes were is not said.
    pub flags: SendFlags,
}

/// `enum ibv_wr_opcode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PostVerb {
    Write,
    WriteImm,
    Send,
    SendImm,
    Read,
    CompareSwap,
    FetchAdd,
    LocalInv,
    Bind,
    SendInv,
    Flush,
    AtomicWrite,
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Of a receive request.
    pub receive: bool,
    /// The request's identifier.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// Bytes.
    pub bytes: u64,
}

/// What a queue pair does by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the verbs' own names
pub struct Settings {
    pub service: QpType,
    pub state: QpState,
    pub path_mtu: u32,
    pub sq_psn: u32,
    pub rq_psn: u32,
    pub dest_qp_num: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub access: Access,
    pub qkey: u32,
    pub stretch: u32,
    pub srq: bool,
    pub sq_sig_all: bool,
}

impl Default for Settings {
    /// Those of a queue pair of which nothing is known.
    fn default() -> Settings {
        Settings {
            service: QpType::Rc,
            state: QpState::Reset,
            path_mtu: 1024,
            sq_psn: 0,
            rq_psn: 0,
            dest_qp_num: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            min_rnr_timer: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            access: Access::empty(),
            qkey: 0,
            stretch: 1,
            srq: false,
            sq_sig_all: false,
        }
    }
}

/// What a fault makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The packet comes.
    pub incoming: bool,
    /// Its opcode.
    pub opcode: u8,
    /// Its PSN.
    pub psn: u32,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Fate {
    Lost,
    Held,
    Arrives,
    Twice,
    NotReady,
    PsnSequence,
    InvalidRequest,
    RemoteAccess,
    RemoteOperational,
}

/// Takes a message apart; `None`: it is of something else. Returns the queue pair, too.
pub fn parse(message: &str) -> Option<(u32, Said)> {
    let rest = message.strip_prefix("QP ")?;
    let (qpn, rest) = rest.split_once(' ')?;
    let qpn = u32::try_from(number(qpn)?)
        .ok()
        .filter(|qpn| *qpn < 1 << 24)?;
    let mut parts = rest.split(", ");
    let first = parts.next()?;
    let (what, name) = first.split_once(' ').unwrap_or((first, ""));
    let rest = Parts(parts.collect());

    let said = match what {
        "post_send" => Said::PostSend(Post {
            verb: named(&VERBS, name)?,
            wr_id: rest.value("wr_id")?,
            bytes: u32::try_from(rest.bytes()?).ok()?,
            flags: rest.flags(),
        }),
        "post_recv" => Said::PostRecv {
            wr_id: rest.value("wr_id")?,
            bytes: rest.bytes()?,
        },
        "completion" => Said::Completion(Completed {
            receive: name.starts_with("RECV"),
            wr_id: rest.value("wr_id")?,
            status: rest.0.iter().find_map(|part| named(&STATUSES, part))?,
            bytes: rest.bytes()?,
        }),
        "is" => Said::State(named(&STATES, name)?),
        "set" => Said::SetTo(rest.settings(name.strip_prefix("to ")?)?),
        "fault" => Said::Fault(Fault {
            incoming: name == "in",
            opcode: rest.small("opcode")?,
            psn: rest.psn("PSN")?,
            fate: rest.0.iter().find_map(|part| named(&FATES, part))?,
        }),
        _ => return None,
    };
    Some((qpn, said))
}

/// What stands between commas.
struct Parts<'a>(Vec<&'a str>);

impl Parts<'_> {
    fn value(&self, name: &str) -> Option<u64> {
        let value = |part: &&str| part.strip_prefix(name)?.strip_prefix(' ').and_then(number);
        self.0.iter().find_map(value)
    }

    fn small(&self, name: &str) -> Option<u8> {
        self.value(name)?.try_into().ok()
    }

    fn word(&self, name: &str) -> Option<u32> {
        self.value(name)?.try_into().ok()
    }

    fn psn(&self, name: &str) -> Option<u32> {
        self.word(name).filter(|psn| *psn < 1 << 24)
    }

    fn bytes(&self) -> Option<u64> {
        let bytes = |part: &&str| part.strip_suffix(" bytes").and_then(number);
        self.0.iter().find_map(bytes)
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn flags(&self) -> SendFlags {
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::FENCE, self.has("fence"));
        flags.set(SendFlags::SIGNALED, self.has("signaled"));
        flags.set(SendFlags::SOLICITED, self.has("solicited"));
        flags
    }

    fn settings(&self, kind: &str) -> Option<Settings> {
        let (service, state) = kind.split_once(' ')?;
        let mtu = self.word("path_mtu")?;
        Some(Settings {
            service: named(&SERVICES, service)?,
            state: named(&STATES, state)?,
            path_mtu: (mtu.is_power_of_two() && (256..=4096).contains(&mtu)).then_some(mtu)?,
            sq_psn: self.psn("sq_psn")?,
            rq_psn: self.psn("rq_psn")?,
            dest_qp_num: self.psn("dest_qp_num")?,
            timeout: self.small("timeout").filter(|n| *n < 32)?,
            retry_cnt: self.small("retry_cnt").filter(|n| *n < 8)?,
            rnr_retry: self.small("rnr_retry").filter(|n| *n < 8)?,
            min_rnr_timer: self.small("min_rnr_timer").filter(|n| *n < 32)?,
            max_rd_atomic: self.small("max_rd_atomic").filter(|n| *n <= 128)?,
            max_dest_rd_atomic: self.small("max_dest_rd_atomic").filter(|n| *n <= 128)?,
            access: Access::from_bits_truncate(self.word("access")?),
            qkey: self.word("qkey")?,
            stretch: self.word("stretch")?,
            srq: self.has("srq"),
            sq_sig_all: self.has("sq_sig_all"),
        })
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart() {
        let (qpn, said) = parse("QP 0x1f post_send SEND, wr_id 0x2, 4096 bytes, signaled").unwrap();
        let Said::PostSend(post) = said else {
            panic!("{said:?}")
        };
        assert_eq!((qpn, post.wr_id, post.bytes), (0x1f, 2, 4096));
        assert_eq!(
            (post.verb, post.flags),
            (PostVerb::Send, SendFlags::SIGNALED)
        );

        let line = "QP 0x2 completion RECV, wr_id 0x7, RNR_RETRY_EXC_ERR, 9 bytes";
        let completed = Completed {
            receive: true,
            wr_id: 7,
            status: WcStatus::RnrRetryExcErr,
            bytes: 9,
        };
        assert_eq!(parse(line), Some((2, Said::Completion(completed))));
        assert_eq!(parse("QP 0x2 is RTS"), Some((2, Said::State(QpState::Rts))));
        let fault = Fault {
            incoming: true,
            opcode: 17,
            psn: 8,
            fate: Fate::Lost,
        };
        let line = "QP 0x2 fault in, opcode 0x11, PSN 8, Lost";
        assert_eq!(parse(line), Some((2, Said::Fault(fault))));
    }

    #[test]
    fn what_is_something_else_is_nothing() {
        for line in [
            "",
            "QP",
            "QP 0x1",
            "QP x is RTS",
            "QP 0x1 is",
            "QP 0x1 is DOING",
            "QP 0x1 post_send SEND",
            "QP 0x1 post_send SEND, wr_id 0x2, 99999999999999 bytes",
            "QP 0x1000000 is RTS",
            "QP 0x1 set to RC",
            "QP 0x1 fault in, opcode 0x111, PSN 8, Lost",
            "systemd is up",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
