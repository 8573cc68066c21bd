//! The kernel's uverbs ABI, as far as libibverbs uses it outside a provider's function table: the
//! completion channel (a `write` command), the GID queries (`ioctl` methods) and the two event
//! records read from descriptors.

/// `IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL`.
pub const IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: u32 = 17;

/// `struct ib_uverbs_cmd_hdr`: the head of every `write` command.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ib_uverbs_cmd_hdr {
    /// `IB_USER_VERBS_CMD_*`.
    pub command: u32,
    /// Length of the command with this head, in 32-bit words.
    pub in_words: u16,
    /// Room for the answer, in 32-bit words.
    pub out_words: u16,
}

/// `struct ib_uverbs_create_comp_channel`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ib_uverbs_create_comp_channel {
    /// Address of an [`ib_uverbs_create_comp_channel_resp`].
    pub response: u64,
}

/// `struct ib_uverbs_create_comp_channel_resp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ib_uverbs_create_comp_channel_resp {
    /// The channel's descriptor.
    pub fd: u32,
}

/// `struct ib_uverbs_async_event_desc`: one record of a context's `async_fd`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ib_uverbs_async_event_desc {
    /// Address of the verbs object, or the port number.
    pub element: u64,
    /// `enum ibv_event_type`.
    pub event_type: u32,
    /// Zero.
    pub reserved: u32,
}

/// `struct ib_uverbs_comp_event_desc`: one record of a completion channel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ib_uverbs_comp_event_desc {
    /// Address of the `ibv_cq`.
    pub cq_handle: u64,
}

/// `RDMA_VERBS_IOCTL`.
pub const RDMA_VERBS_IOCTL: u64 = 0xc018_1b01;

/// `UVERBS_ATTR_F_MANDATORY`.
pub const UVERBS_ATTR_F_MANDATORY: u16 = 1 << 0;
/// `UVERBS_ATTR_F_VALID_OUTPUT`.
pub const UVERBS_ATTR_F_VALID_OUTPUT: u16 = 1 << 1;

/// `struct ib_uverbs_ioctl_hdr`; [`num_attrs`](Self::num_attrs) × [`ib_uverbs_attr`] follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ib_uverbs_ioctl_hdr {
    /// Bytes with the attributes.
    pub length: u16,
    /// `UVERBS_OBJECT_*`.
    pub object_id: u16,
    /// `UVERBS_METHOD_*`.
    pub method_id: u16,
    /// Attributes that follow.
    pub num_attrs: u16,
    /// Zero.
    pub reserved1: u64,
    /// `enum rdma_driver_id`.
    pub driver_id: u32,
    /// Zero.
    pub reserved2: u32,
}

/// `struct ib_uverbs_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ib_uverbs_attr {
    /// `UVERBS_ATTR_*`, counted for each method.
    pub attr_id: u16,
    /// Bytes, where `data` is a pointer or carries them itself (up to 8).
    pub len: u16,
    /// `UVERBS_ATTR_F_*`.
    pub flags: u16,
    /// Element of an enumeration, or zero.
    pub attr_data: u16,
    /// Pointer, inline value, object handle or descriptor.
    pub data: u64,
}

/// `UVERBS_OBJECT_DEVICE`.
pub const UVERBS_OBJECT_DEVICE: u16 = 0;
/// `UVERBS_METHOD_INVOKE_WRITE`.
pub const UVERBS_METHOD_INVOKE_WRITE: u16 = 0;
/// `UVERBS_METHOD_QUERY_GID_TABLE`.
pub const UVERBS_METHOD_QUERY_GID_TABLE: u16 = 5;
/// `UVERBS_METHOD_QUERY_GID_ENTRY`.
pub const UVERBS_METHOD_QUERY_GID_ENTRY: u16 = 6;

/// `UVERBS_OBJECT_ASYNC_EVENT`.
pub const UVERBS_OBJECT_ASYNC_EVENT: u16 = 16;
/// `UVERBS_METHOD_ASYNC_EVENT_ALLOC`.
pub const UVERBS_METHOD_ASYNC_EVENT_ALLOC: u16 = 0;
/// `UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE` (out, a descriptor).
pub const UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE: u16 = 0;

/// `UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE` (in, `u64`).
pub const UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE: u16 = 0;
/// `UVERBS_ATTR_QUERY_GID_TABLE_FLAGS` (in, `u32`).
pub const UVERBS_ATTR_QUERY_GID_TABLE_FLAGS: u16 = 1;
/// `UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES` (out).
pub const UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES: u16 = 2;
/// `UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES` (out, `u64`).
pub const UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES: u16 = 3;

/// `UVERBS_ATTR_QUERY_GID_ENTRY_PORT` (in, `u32`).
pub const UVERBS_ATTR_QUERY_GID_ENTRY_PORT: u16 = 0;
/// `UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX` (in, `u32`).
pub const UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX: u16 = 1;
/// `UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS` (in, `u32`).
pub const UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS: u16 = 2;
/// `UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY` (out).
pub const UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY: u16 = 3;

/// A function that the shim exports to the provider: `(cmd_fd, uverbs, async_fd)`. The command
/// descriptor, which came to the process by a way that the shim does not see, is that of `uverbsN`;
/// and the next `UVERBS_METHOD_ASYNC_EVENT_ALLOC` of the calling thread on it returns `async_fd`,
/// which is the shim's until then.
pub type shim_adopt = unsafe extern "C" fn(libc::c_int, u16, libc::c_int);
/// The symbol of [`shim_adopt`].
pub const SHIM_ADOPT: &std::ffi::CStr = c"ferroce_shim_adopt";

/// What the shim has changed in the tables of a process's libraries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StandIn {
    /// Objects that were looked at.
    pub seen: u32,
    /// Libraries whose tables have the shim's functions.
    pub tables: u32,
    /// Slots that have them since now.
    pub slots: u32,
    /// Libraries whose tables look strange, and are as they were.
    pub refused: u32,
    /// Why the last one was refused: null, or a constant of the shim's that ends in NUL.
    pub why: *const libc::c_char,
}

impl Default for StandIn {
    fn default() -> Self {
        Self {
            seen: 0,
            tables: 0,
            slots: 0,
            refused: 0,
            why: std::ptr::null(),
        }
    }
}

/// The shim's function by which the provider has it stand in, in a process that did not preload it,
/// for the device whose runtime directory this is. Returns 0 or an errno.
pub type shim_stand_in = unsafe extern "C" fn(*const libc::c_char, *mut StandIn) -> libc::c_int;
/// The symbol of [`shim_stand_in`].
pub const SHIM_STAND_IN: &std::ffi::CStr = c"ferroce_shim_stand_in";

/// The provider's function that the shim calls when a thread is about to read a completion channel,
/// whose descriptor it is. Returns 0, with the channel to be read next, or an errno that the read
/// fails with.
pub type before_read = unsafe extern "C" fn(libc::c_int) -> libc::c_int;
/// A function that the shim exports to the provider, by which it is told of [`before_read`].
pub type shim_before_read = unsafe extern "C" fn(before_read);
/// The symbol of [`shim_before_read`].
pub const SHIM_BEFORE_READ: &std::ffi::CStr = c"ferroce_shim_before_read";

/// The provider's function that the shim calls when libibverbs asks for a completion channel, with
/// the descriptor of the context's device file. Returns the channel's descriptor, the negative of
/// an errno, or 0 where the context is none of the provider's.
pub type make_channel = unsafe extern "C" fn(libc::c_int) -> libc::c_int;
/// The provider's function that the shim calls when the descriptor of a completion channel is about
/// to be closed.
pub type channel_closed = unsafe extern "C" fn(libc::c_int);
/// A function that the shim exports to the provider, by which it is told of [`make_channel`] and
/// [`channel_closed`].
pub type shim_make_channels = unsafe extern "C" fn(make_channel, channel_closed);
/// The symbol of [`shim_make_channels`].
pub const SHIM_MAKE_CHANNELS: &std::ffi::CStr = c"ferroce_shim_make_channels";

/// A function that the shim exports to the provider, by which it is told of a descriptor that
/// asynchronous events are read from.
pub type shim_has_events = unsafe extern "C" fn(libc::c_int);
/// The symbol of [`shim_has_events`].
pub const SHIM_HAS_EVENTS: &std::ffi::CStr = c"ferroce_shim_has_events";

/// The provider's function that the shim calls when somebody asks for an entry of a port's GID
/// table: `(cmd_fd, port, index, entry)`, with the descriptor of the context's device file. Returns
/// 0 with the entry, of zeros if there is nothing, or an errno (`EINVAL`: there is no such port or
/// index); -1 where the context is none of the provider's.
pub type query_gid =
    unsafe extern "C" fn(libc::c_int, u32, u32, *mut crate::ibv_gid_entry) -> libc::c_int;
/// A function that the shim exports to the provider, by which it is told of [`query_gid`].
pub type shim_query_gid = unsafe extern "C" fn(query_gid);
/// The symbol of [`shim_query_gid`].
pub const SHIM_QUERY_GID: &std::ffi::CStr = c"ferroce_shim_query_gid";

/// The provider's function that the shim calls when somebody looks through a directory, as every
/// libibverbs does before it has its drivers loaded.
pub type before_search = unsafe extern "C" fn();
/// A function that the shim exports to the provider, by which it is told of [`before_search`].
pub type shim_before_search = unsafe extern "C" fn(before_search);
/// The symbol of [`shim_before_search`].
pub const SHIM_BEFORE_SEARCH: &std::ffi::CStr = c"ferroce_shim_before_search";
