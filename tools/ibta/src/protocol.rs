//! What the device side is asked to do, in the vocabulary of verbs: one line of JSON each way.
//!
//! The real rig sends these to the agent beside the device; the simulated one carries them out
//! itself. Numbers are those of libibverbs (`enum ibv_wc_status`, `enum ibv_access_flags`, …), in
//! host byte order; keys and addresses as verbs gives them.

mod types;

pub use types::*;

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub enum Command {
    /// Destroys every object; the device is as it was when the agent began. Answer:
    /// [`Reply::Done`].
    Reset,
    /// What device this is. Answer: [`Reply::Device`].
    Device,
    /// State of a port, from 1. Answer: [`Reply::Port`].
    QueryPort {
        /// Port.
        port: u8,
    },
    /// Answer: [`Reply::Pkey`].
    QueryPkey {
        /// Port.
        port: u8,
        /// Index in its table.
        index: u16,
    },
    /// Answer: [`Reply::Gid`].
    QueryGid {
        /// Port.
        port: u8,
        /// Index in its table.
        index: u32,
    },
    /// A subnet manager works behind a port, or no longer: `issm` of the port is opened or closed.
    /// Answer: [`Reply::Done`].
    IsSm {
        /// Port.
        port: u8,
        /// Works.
        on: bool,
    },
    /// A queue pair with completion queues of its own. Answer: [`Reply::Qp`].
    CreateQp(CreateQp),
    /// Answer: [`Reply::Done`].
    ModifyQp {
        /// Queue pair number.
        qp: u32,
        /// What is `Some` is in the mask.
        attributes: QpAttributes,
    },
    /// Answer: [`Reply::QpAttributes`], all `Some` that the service has.
    QueryQp {
        /// Queue pair number.
        qp: u32,
    },
    /// Answer: [`Reply::Done`].
    DestroyQp {
        /// Queue pair number.
        qp: u32,
    },
    /// An XRC domain that no other program knows, with a completion queue for all its shared
    /// receive queues. Answer: [`Reply::Xrcd`].
    OpenXrcd,
    /// A shared receive queue. Answer: [`Reply::Srq`].
    CreateSrq {
        /// Requests that it holds.
        max_wr: u32,
        /// Elements of each.
        max_sge: u32,
        /// In a protection domain of its own, not in that of the queue pairs.
        #[serde(default)]
        apart: bool,
        /// Of this XRC domain.
        #[serde(default)]
        xrcd: Option<u32>,
    },
    /// Answer: [`Reply::Done`].
    DestroySrq {
        /// Handle.
        srq: u32,
    },
    /// Memory of zeros, registered. Answer: [`Reply::Region`].
    Register {
        /// Bytes.
        len: u32,
        /// `enum ibv_access_flags`.
        access: u32,
        /// In the protection domain of this shared receive queue, not in that of the queue pairs.
        #[serde(default)]
        srq: Option<u32>,
    },
    /// Answer: [`Reply::Done`].
    Deregister {
        /// Local key of the region.
        lkey: u32,
    },
    /// Writes to registered memory, as the program would. Answer: [`Reply::Done`].
    WriteMemory {
        /// Address.
        addr: u64,
        /// Bytes.
        data: Vec<u8>,
    },
    /// Reads registered memory, as the program would. Answer: [`Reply::Bytes`].
    ReadMemory {
        /// Address.
        addr: u64,
        /// Bytes.
        len: u32,
    },
    /// A memory window. Answer: [`Reply::Window`].
    AllocateWindow {
        /// 1 or 2.
        kind: u8,
    },
    /// An address handle. Answer: [`Reply::AddressHandle`].
    CreateAh {
        /// Where to.
        av: AddressVector,
    },
    /// Answer: [`Reply::Done`].
    PostSend {
        /// Queue pair number.
        qp: u32,
        /// The request.
        request: SendRequest,
    },
    /// Answer: [`Reply::Done`].
    PostRecv {
        /// Where to.
        queue: RecvQueue,
        /// The consumer's identifier.
        wr_id: u64,
        /// Scatter list.
        sges: Vec<Sge>,
    },
    /// Takes completions: as soon as `at_most` are there, or when the time has passed those that
    /// are. Answer: [`Reply::Completions`].
    Poll {
        /// Queue pair number.
        qp: u32,
        /// Which of its completion queues.
        queue: Side,
        /// At most so many.
        at_most: u32,
        /// Waits so long.
        within: Duration,
    },
    /// Takes asynchronous events: as soon as there is one, or when the time has passed. Answer:
    /// [`Reply::Events`].
    Events {
        /// Waits so long for the first.
        within: Duration,
    },
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply")]
#[allow(missing_docs)] // named after their commands
pub enum Reply {
    Done,
    Device(DeviceInfo),
    Port(PortState),
    Pkey {
        pkey: u16,
    },
    Gid {
        gid: [u8; 16],
        /// Of RoCE version 2.
        roce_v2: bool,
    },
    Qp {
        qp: u32,
    },
    QpAttributes(QpAttributes),
    Xrcd {
        xrcd: u32,
    },
    Srq {
        srq: u32,
        /// What requests call it, if it is of an XRC domain.
        #[serde(default)]
        number: u32,
    },
    Region(Region),
    Window {
        window: u32,
        rkey: u32,
    },
    AddressHandle {
        ah: u32,
    },
    Bytes {
        data: Vec<u8>,
    },
    Completions {
        completions: Vec<Completion>,
    },
    Events {
        events: Vec<AsyncEvent>,
    },
    /// The call failed.
    Errno {
        /// `errno`.
        code: i32,
        /// The call.
        what: String,
    },
}

/// A call that failed and should not have, in words: `ibv_create_qp: Cannot allocate memory (os
/// error 12)`.
pub fn refusal(call: &str, errno: i32) -> anyhow::Error {
    anyhow::anyhow!("{call}: {}", std::io::Error::from_raw_os_error(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_said_in_words() {
        let said = refusal("ibv_create_qp", 12).to_string();
        assert_eq!(said, "ibv_create_qp: Cannot allocate memory (os error 12)");
    }

    #[test]
    fn an_agent_of_an_earlier_version_says_less() {
        let said = r#"{"reply":"device","name":"a","ports":1,"max_qp_rd_atom":1,
            "max_qp_init_rd_atom":1,"atomics":false,"auto_path_mig":false}"#;
        let Ok(Reply::Device(info)) = serde_json::from_str(said) else {
            panic!("it is a device");
        };
        assert_eq!((info.vendor_part_id, info.fw_ver.as_str()), (0, ""));
    }
}
