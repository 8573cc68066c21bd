//! The kernel's RDMA netlink ABI (`<rdma/rdma_netlink.h>`): what `rdma` of iproute2, libibverbs and
//! librdmacm ask about devices. Of its families only `RDMA_NL_NLDEV`, that of devices. And how the
//! shim tells ferroced what is said of the socket itself.
//!
//! A program's netlink socket is a connection to ferroced ([`SOCKET`]): what it sends are netlink
//! messages, and so is what comes back. What the kernel would keep with the socket, ferroced does;
//! it hears of it by [`Control`].

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `NETLINK_RDMA`.
pub const NETLINK_RDMA: i32 = 20;
/// `RDMA_NL_NLDEV`: the family of messages about devices.
pub const RDMA_NL_NLDEV: u16 = 5;

/// `RDMA_NL_GET_TYPE`: the type of a message of this family.
pub const fn message_type(command: u16) -> u16 {
    RDMA_NL_NLDEV << 10 | command
}

/// `RDMA_NL_GET_CLIENT`: the family of a message by its type.
pub const fn family(message_type: u16) -> u16 {
    message_type >> 10
}

/// `RDMA_NL_GET_OP`: the command of a message by its type.
pub const fn command(message_type: u16) -> u16 {
    message_type & 0x3ff
}

/// Numbers with their names, and a list of both that is compared with the header.
macro_rules! constants {
    ($(#[$about:meta])* $list:ident { $($(#[$doc:meta])* $name:ident = $value:literal,)* }) => {
        $($(#[$doc])* pub const $name: u16 = $value;)*

        $(#[$about])*
        pub const $list: &[(&str, u16)] = &[$((stringify!($name), $name),)*];
    };
}

constants! {
    /// Commands of `enum rdma_nldev_command`.
    COMMANDS {
        /// The device, or all of them.
        RDMA_NLDEV_CMD_GET = 1,
        /// Changes a device's name, network namespace or moderation.
        RDMA_NLDEV_CMD_SET = 2,
        /// Makes a device of an interface.
        RDMA_NLDEV_CMD_NEWLINK = 3,
        /// Removes such a device.
        RDMA_NLDEV_CMD_DELLINK = 4,
        /// A port, or all of a device.
        RDMA_NLDEV_CMD_PORT_GET = 5,
        /// What holds for all devices.
        RDMA_NLDEV_CMD_SYS_GET = 6,
        /// Changes that.
        RDMA_NLDEV_CMD_SYS_SET = 7,
        /// How many objects there are of each kind.
        RDMA_NLDEV_CMD_RES_GET = 9,
        /// Queue pairs.
        RDMA_NLDEV_CMD_RES_QP_GET = 10,
        /// Identifiers of the connection manager.
        RDMA_NLDEV_CMD_RES_CM_ID_GET = 11,
        /// Completion queues.
        RDMA_NLDEV_CMD_RES_CQ_GET = 12,
        /// Memory regions.
        RDMA_NLDEV_CMD_RES_MR_GET = 13,
        /// Protection domains.
        RDMA_NLDEV_CMD_RES_PD_GET = 14,
        /// A character device.
        RDMA_NLDEV_CMD_GET_CHARDEV = 15,
        /// Binds counters.
        RDMA_NLDEV_CMD_STAT_SET = 16,
        /// Counters of a port, or of objects.
        RDMA_NLDEV_CMD_STAT_GET = 17,
        /// Unbinds counters.
        RDMA_NLDEV_CMD_STAT_DEL = 18,
        /// A driver's own words about a queue pair.
        RDMA_NLDEV_CMD_RES_QP_GET_RAW = 19,
        /// The same of a completion queue.
        RDMA_NLDEV_CMD_RES_CQ_GET_RAW = 20,
        /// The same of a memory region.
        RDMA_NLDEV_CMD_RES_MR_GET_RAW = 21,
        /// Contexts.
        RDMA_NLDEV_CMD_RES_CTX_GET = 22,
        /// Shared receive queues.
        RDMA_NLDEV_CMD_RES_SRQ_GET = 23,
        /// Which counters of a port may be switched.
        RDMA_NLDEV_CMD_STAT_GET_STATUS = 24,
    }
}

constants! {
    /// Attributes of `enum rdma_nldev_attr`.
    ATTRIBUTES {
        /// u32: which device.
        RDMA_NLDEV_ATTR_DEV_INDEX = 1,
        /// String.
        RDMA_NLDEV_ATTR_DEV_NAME = 2,
        /// u32: which port, from 1; of a device, how many it has.
        RDMA_NLDEV_ATTR_PORT_INDEX = 3,
        /// u64: capabilities of a device or port.
        RDMA_NLDEV_ATTR_CAP_FLAGS = 4,
        /// String.
        RDMA_NLDEV_ATTR_FW_VERSION = 5,
        /// u64.
        RDMA_NLDEV_ATTR_NODE_GUID = 6,
        /// u64.
        RDMA_NLDEV_ATTR_SYS_IMAGE_GUID = 7,
        /// u64.
        RDMA_NLDEV_ATTR_SUBNET_PREFIX = 8,
        /// u32.
        RDMA_NLDEV_ATTR_LID = 9,
        /// u32.
        RDMA_NLDEV_ATTR_SM_LID = 10,
        /// u8.
        RDMA_NLDEV_ATTR_LMC = 11,
        /// u8: `enum ibv_port_state`.
        RDMA_NLDEV_ATTR_PORT_STATE = 12,
        /// u8.
        RDMA_NLDEV_ATTR_PORT_PHYS_STATE = 13,
        /// u8: 1 is a channel adapter.
        RDMA_NLDEV_ATTR_DEV_NODE_TYPE = 14,
        /// Entries, one a kind of object.
        RDMA_NLDEV_ATTR_RES_SUMMARY = 15,
        /// Name and number.
        RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY = 16,
        /// String.
        RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME = 17,
        /// u64.
        RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR = 18,
        /// Entries, one a queue pair.
        RDMA_NLDEV_ATTR_RES_QP = 19,
        /// A queue pair.
        RDMA_NLDEV_ATTR_RES_QP_ENTRY = 20,
        /// u32: its number.
        RDMA_NLDEV_ATTR_RES_LQPN = 21,
        /// u32: its peer's number.
        RDMA_NLDEV_ATTR_RES_RQPN = 22,
        /// u32.
        RDMA_NLDEV_ATTR_RES_RQ_PSN = 23,
        /// u32.
        RDMA_NLDEV_ATTR_RES_SQ_PSN = 24,
        /// u8: `enum ibv_mig_state`.
        RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE = 25,
        /// u8: `enum ib_qp_type`, or a shared receive queue's type.
        RDMA_NLDEV_ATTR_RES_TYPE = 26,
        /// u8: `enum ib_qp_state`, or an identifier's state.
        RDMA_NLDEV_ATTR_RES_STATE = 27,
        /// u32: the process.
        RDMA_NLDEV_ATTR_RES_PID = 28,
        /// Entries, one an identifier.
        RDMA_NLDEV_ATTR_RES_CM_ID = 30,
        /// An identifier.
        RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY = 31,
        /// u32: its port space.
        RDMA_NLDEV_ATTR_RES_PS = 32,
        /// `struct sockaddr_storage`.
        RDMA_NLDEV_ATTR_RES_SRC_ADDR = 33,
        /// `struct sockaddr_storage`.
        RDMA_NLDEV_ATTR_RES_DST_ADDR = 34,
        /// Entries, one a completion queue.
        RDMA_NLDEV_ATTR_RES_CQ = 35,
        /// A completion queue.
        RDMA_NLDEV_ATTR_RES_CQ_ENTRY = 36,
        /// u32: its size.
        RDMA_NLDEV_ATTR_RES_CQE = 37,
        /// u64: how many objects use it.
        RDMA_NLDEV_ATTR_RES_USECNT = 38,
        /// Entries, one a memory region.
        RDMA_NLDEV_ATTR_RES_MR = 40,
        /// A memory region.
        RDMA_NLDEV_ATTR_RES_MR_ENTRY = 41,
        /// u32.
        RDMA_NLDEV_ATTR_RES_RKEY = 42,
        /// u32.
        RDMA_NLDEV_ATTR_RES_LKEY = 43,
        /// u64: its length in bytes.
        RDMA_NLDEV_ATTR_RES_MRLEN = 45,
        /// Entries, one a protection domain.
        RDMA_NLDEV_ATTR_RES_PD = 46,
        /// A protection domain.
        RDMA_NLDEV_ATTR_RES_PD_ENTRY = 47,
        /// u32: the key of all memory, of which there is none here.
        RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY = 48,
        /// u32: the network interface of a port.
        RDMA_NLDEV_ATTR_NDEV_INDEX = 50,
        /// String.
        RDMA_NLDEV_ATTR_NDEV_NAME = 51,
        /// u32: a protection domain's number.
        RDMA_NLDEV_ATTR_RES_PDN = 60,
        /// u32: a completion queue's.
        RDMA_NLDEV_ATTR_RES_CQN = 61,
        /// u32: a memory region's.
        RDMA_NLDEV_ATTR_RES_MRN = 62,
        /// u32: an identifier's.
        RDMA_NLDEV_ATTR_RES_CM_IDN = 63,
        /// u32: a context's.
        RDMA_NLDEV_ATTR_RES_CTXN = 64,
        /// String: the driver of a device that is made of an interface.
        RDMA_NLDEV_ATTR_LINK_TYPE = 65,
        /// u8: 1, devices are seen in all network namespaces.
        RDMA_NLDEV_SYS_ATTR_NETNS_MODE = 66,
        /// String.
        RDMA_NLDEV_ATTR_DEV_PROTOCOL = 67,
        /// String: whose device file.
        RDMA_NLDEV_ATTR_CHARDEV_TYPE = 69,
        /// String.
        RDMA_NLDEV_ATTR_CHARDEV_NAME = 70,
        /// u64.
        RDMA_NLDEV_ATTR_CHARDEV_ABI = 71,
        /// u64: device numbers, as the kernel encodes them.
        RDMA_NLDEV_ATTR_CHARDEV = 72,
        /// u32: `enum rdma_driver_id`.
        RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID = 73,
        /// u32.
        RDMA_NLDEV_ATTR_STAT_MODE = 74,
        /// u32: of which objects, as the attribute's number of the entries.
        RDMA_NLDEV_ATTR_STAT_RES = 75,
        /// Entries, one a counter that is bound to objects.
        RDMA_NLDEV_ATTR_STAT_COUNTER = 77,
        /// Such a counter.
        RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY = 78,
        /// u32.
        RDMA_NLDEV_ATTR_STAT_COUNTER_ID = 79,
        /// Entries, one a counter.
        RDMA_NLDEV_ATTR_STAT_HWCOUNTERS = 80,
        /// A counter.
        RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY = 81,
        /// String.
        RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME = 82,
        /// u64.
        RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE = 83,
        /// u8: whether completion queues moderate themselves.
        RDMA_NLDEV_ATTR_DEV_DIM = 84,
        /// Entries, one a context.
        RDMA_NLDEV_ATTR_RES_CTX = 86,
        /// A context.
        RDMA_NLDEV_ATTR_RES_CTX_ENTRY = 87,
        /// Entries, one a shared receive queue.
        RDMA_NLDEV_ATTR_RES_SRQ = 88,
        /// A shared receive queue.
        RDMA_NLDEV_ATTR_RES_SRQ_ENTRY = 89,
        /// u32: its number.
        RDMA_NLDEV_ATTR_RES_SRQN = 90,
        /// u32: the first of several numbers.
        RDMA_NLDEV_ATTR_MIN_RANGE = 91,
        /// u32: the last of them.
        RDMA_NLDEV_ATTR_MAX_RANGE = 92,
        /// u8: 1, registered memory survives `fork` as it is.
        RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK = 93,
        /// u32: the counter's place among those of its port.
        RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX = 94,
        /// u8, of counters that can be switched alone: 1, it is on.
        RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC = 95,
    }
}

/// The socket's name in the runtime directory.
pub const SOCKET: &str = "netlink.sock";
/// Version of [`Control`].
pub const VERSION: u32 = 1;
/// The longest message that a program may send, in bytes.
pub const MAX_REQUEST: usize = 16 * 1024;
/// Type of [`Control`], which is none of netlink's: below `NLMSG_MIN_TYPE`, where the kernel takes
/// no requests.
pub const CONTROL: u16 = 0x0f;
/// [`Control::option`] of the first message of a connection. Its value is 1 if the process has
/// `CAP_NET_ADMIN`, else 0. If the kernel has such sockets too, one of the process's own comes
/// along.
pub const HELLO: u32 = 0;

/// A message of the shim's own.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Control {
    /// `nlmsg_len`: the size of this.
    pub len: u32,
    /// `nlmsg_type`: [`CONTROL`].
    pub message_type: u16,
    /// `nlmsg_flags`: none.
    pub flags: u16,
    /// `nlmsg_seq`: of no meaning.
    pub sequence: u32,
    /// `nlmsg_pid`: of no meaning.
    pub port: u32,
    /// [`VERSION`].
    pub version: u32,
    /// [`HELLO`], or an option of level `SOL_NETLINK` that is set.
    pub option: u32,
    /// Its value.
    pub value: u32,
}

impl Control {
    /// Says a value.
    pub const fn new(option: u32, value: u32) -> Control {
        Control {
            len: size_of::<Control>() as u32,
            message_type: CONTROL,
            flags: 0,
            sequence: 0,
            port: 0,
            version: VERSION,
            option,
            value,
        }
    }
}

/// How the name of the program's end of the connection begins, an abstract one: the rest is the
/// socket's port number in hexadecimal. So the kernel keeps it, and keeps numbers apart.
pub const PORT_NAME: &[u8] = b"ferroce-netlink-";
/// Bytes of such a name.
pub const PORT_NAME_LEN: usize = PORT_NAME.len() + 8;

/// The name of a port number.
pub fn port_name(port: u32) -> [u8; PORT_NAME_LEN] {
    let mut name = [0; PORT_NAME_LEN];
    let (head, digits) = name.split_at_mut(PORT_NAME.len());
    head.copy_from_slice(PORT_NAME);
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(port >> (28 - 4 * at) & 0xf) as usize];
    }
    name
}

/// The port number that a name says.
pub fn port_of_name(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(PORT_NAME)?;
    if digits.len() != 8 {
        return None;
    }
    digits.iter().try_fold(0, |port, digit| {
        Some(port << 4 | char::from(*digit).to_digit(16)?)
    })
}
