//! The uverbs commands that libibverbs sends to the kernel itself, past the provider: making a
//! completion channel (`write`), reading the GID table and, for an imported context, the
//! asynchronous event queue (`ioctl`). Everything else is refused in the way that makes libibverbs
//! fall back or report that it is not supported; nothing is passed to a kernel that never heard of
//! the device.

use crate::completions;
use crate::descriptors;
use crate::gid;
use crate::sys;
use ferroce_cabi::ibv_gid;
use ferroce_cabi::ibv_gid_entry;
use ferroce_cabi::uverbs::*;
use libc::{c_int, c_void};
use std::cell::Cell;
use std::mem::size_of;

/// Carries out a command written to a uverbs descriptor. The error is an errno.
///
/// # Safety
/// `command` is readable for `len` bytes, and the response address in it is writable, as the uverbs
/// ABI asks.
pub(crate) unsafe fn write(fd: c_int, command: *const c_void, len: usize) -> Result<usize, c_int> {
    if len < size_of::<ib_uverbs_cmd_hdr>() || command.is_null() {
        return Err(libc::EINVAL);
    }

    // SAFETY: long enough; the caller's buffer may be unaligned.
    let header = unsafe { command.cast::<ib_uverbs_cmd_hdr>().read_unaligned() };
    if usize::from(header.in_words) * 4 != len {
        return Err(libc::EINVAL);
    }
    if header.command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL {
        return Err(libc::EOPNOTSUPP);
    }

    type Request = ib_uverbs_create_comp_channel;
    type Response = ib_uverbs_create_comp_channel_resp;

    if len < size_of::<ib_uverbs_cmd_hdr>() + size_of::<Request>() {
        return Err(libc::EINVAL);
    }
    if usize::from(header.out_words) * 4 < size_of::<Response>() {
        return Err(libc::ENOSPC);
    }

    // SAFETY: the request follows the header, as its length says.
    let request = unsafe {
        command
            .byte_add(size_of::<ib_uverbs_cmd_hdr>())
            .cast::<Request>()
            .read_unaligned()
    };
    let response = request.response as *mut Response;
    if response.is_null() {
        return Err(libc::EFAULT);
    }

    let fd = match completions::make(fd)? {
        Some(fd) => fd,
        // No provider to write to it: nothing will come, nor end.
        None => sys::pipe_both_ways(),
    };
    if fd < 0 {
        // SAFETY: the calling thread's errno.
        return Err(unsafe { *libc::__errno_location() });
    }

    descriptors::set_completions(fd);
    // SAFETY: the response address is writable, as the caller promises.
    unsafe {
        response.write_unaligned(Response {
            fd: fd.unsigned_abs(),
        })
    };

    Ok(len)
}

/// Carries out `RDMA_VERBS_IOCTL` on the descriptor of `uverbsN`. The error is an errno;
/// `EPROTONOSUPPORT` says that the method does not exist.
///
/// # Safety
/// `request` is an `ib_uverbs_ioctl_hdr` with its attributes, whose addresses are as the uverbs ABI
/// asks.
pub(crate) unsafe fn ioctl(fd: c_int, uverbs: u16, request: *mut c_void) -> Result<(), c_int> {
    if request.is_null() {
        return Err(libc::EFAULT);
    }

    // SAFETY: as the caller promises.
    let header = unsafe { request.cast::<ib_uverbs_ioctl_hdr>().read_unaligned() };
    let count = usize::from(header.num_attrs);
    if usize::from(header.length)
        != size_of::<ib_uverbs_ioctl_hdr>() + count * size_of::<ib_uverbs_attr>()
    {
        return Err(libc::EINVAL);
    }

    let mut attributes = Attributes {
        // SAFETY: the attributes follow the header.
        first: unsafe { request.byte_add(size_of::<ib_uverbs_ioctl_hdr>()) }.cast(),
        count,
    };

    match (header.object_id, header.method_id) {
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY) => {
            gid_entry(fd, uverbs, &mut attributes)
        }
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE) => {
            gid_table(fd, uverbs, &mut attributes)
        }
        (UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC) => {
            async_event(fd, &mut attributes)
        }
        _ => Err(libc::EPROTONOSUPPORT),
    }
}

thread_local! {
    /// A command descriptor, and the asynchronous event queue that the provider has made for it.
    static OFFERED: Cell<(c_int, c_int)> = const { Cell::new((-1, -1)) };
}

/// Takes the descriptor that [`async_event`] will return to this thread for `fd`.
pub(crate) fn offer_async_event(fd: c_int, async_fd: c_int) {
    let (_, unclaimed) = OFFERED.replace((fd, async_fd));
    if unclaimed >= 0 {
        sys::close(unclaimed);
    }
}

/// The asynchronous event queue of an imported context. Only the provider can make one, so it does
/// beforehand.
fn async_event(fd: c_int, attributes: &mut Attributes) -> Result<(), c_int> {
    let id = UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE;
    if attributes.find(id).is_none() {
        return Err(libc::EINVAL);
    }
    match OFFERED.get() {
        (to, async_fd) if to == fd && async_fd >= 0 => {
            OFFERED.set((-1, -1));
            descriptors::set_completions(async_fd);
            attributes.put(id, async_fd.unsigned_abs().into());
            Ok(())
        }
        _ => Err(libc::EPROTONOSUPPORT),
    }
}

/// The attributes of one ioctl.
struct Attributes {
    first: *mut ib_uverbs_attr,
    count: usize,
}

impl Attributes {
    fn find(&self, id: u16) -> Option<(usize, ib_uverbs_attr)> {
        // SAFETY: `count` attributes follow the header.
        (0..self.count)
            .map(|i| (i, unsafe { self.first.add(i).read_unaligned() }))
            .find(|(_, a)| a.attr_id == id)
    }

    /// A value that travels inside the attribute.
    fn value(&self, id: u16) -> Result<u64, c_int> {
        match self.find(id) {
            Some((_, a)) if a.len == 4 => Ok(a.data & 0xffff_ffff),
            Some((_, a)) if a.len == 8 => Ok(a.data),
            _ => Err(libc::EINVAL),
        }
    }

    /// An output buffer: its address and its length in bytes.
    fn buffer(&self, id: u16) -> Result<(*mut u8, usize), c_int> {
        let (_, a) = self.find(id).ok_or(libc::EINVAL)?;
        if a.data == 0 && a.len != 0 {
            return Err(libc::EFAULT);
        }
        Ok((a.data as *mut u8, a.len.into()))
    }

    /// Fills in an output that travels inside the attribute.
    fn put(&mut self, id: u16, value: u64) {
        if let Some((i, mut a)) = self.find(id) {
            a.data = value;
            // SAFETY: an attribute that was just read.
            unsafe { self.first.add(i).write_unaligned(a) };
            self.written(id);
        }
    }

    /// Marks an output as written.
    fn written(&mut self, id: u16) {
        if let Some((i, mut a)) = self.find(id) {
            a.flags |= UVERBS_ATTR_F_VALID_OUTPUT;
            // SAFETY: an attribute that was just read.
            unsafe { self.first.add(i).write_unaligned(a) };
        }
    }
}

/// Copies an entry into a caller's slot of `size` bytes, which may be of another version of the
/// structure.
///
/// # Safety
/// `slot` is writable for `size` bytes.
unsafe fn put(entry: &ibv_gid_entry, slot: *mut u8, size: usize) {
    let n = size.min(size_of::<ibv_gid_entry>());
    // SAFETY: both are that long, and the entry is on our stack.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const *entry).cast::<u8>(), slot, n);
        slot.add(n).write_bytes(0, size - n);
    }
}

fn gid_entry(fd: c_int, uverbs: u16, attributes: &mut Attributes) -> Result<(), c_int> {
    let port = attributes.value(UVERBS_ATTR_QUERY_GID_ENTRY_PORT)?;
    let index = attributes.value(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)?;
    let (slot, size) = attributes.buffer(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY)?;
    if attributes.value(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS)? != 0 {
        return Err(libc::EINVAL);
    }

    let (Ok(port), Ok(index)) = (u32::try_from(port), u32::try_from(index)) else {
        return Err(libc::EINVAL);
    };

    let entry = gid::entry(fd, uverbs, port, index)?;
    if entry.gid == ibv_gid::default() {
        return Err(libc::ENODATA);
    }

    // SAFETY: the caller's output buffer, as it says.
    unsafe { put(&entry, slot, size) };
    attributes.written(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY);
    Ok(())
}

fn gid_table(fd: c_int, uverbs: u16, attributes: &mut Attributes) -> Result<(), c_int> {
    let size = usize::try_from(attributes.value(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE)?)
        .map_err(|_| libc::EINVAL)?;
    if attributes.value(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS)? != 0 || size == 0 {
        return Err(libc::EINVAL);
    }

    let (slots, room) = attributes.buffer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES)?;
    let (count, count_size) = attributes.buffer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES)?;
    if count_size < size_of::<u64>() {
        return Err(libc::EINVAL);
    }

    let mut n = 0;
    // A table has an entry at least, used or not.
    'ports: for port in 1.. {
        for index in 0.. {
            let entry = match gid::entry(fd, uverbs, port, index) {
                Ok(entry) => entry,
                Err(libc::EINVAL) if index == 0 => break 'ports,
                Err(libc::EINVAL) => break,
                Err(errno) => return Err(errno),
            };
            if entry.gid == ibv_gid::default() {
                continue;
            }
            if n >= room / size {
                return Err(libc::EINVAL);
            }
            // SAFETY: the caller's array holds `room / size` slots of that size.
            unsafe { put(&entry, slots.add(n * size), size) };
            n += 1;
        }
    }

    // SAFETY: the caller's output value, of 8 bytes.
    unsafe { count.cast::<u64>().write_unaligned(n as u64) };
    attributes.written(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
    attributes.written(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Command {
        header: ib_uverbs_cmd_hdr,
        request: ib_uverbs_create_comp_channel,
    }

    fn send(command: &Command, len: usize) -> Result<usize, c_int> {
        // SAFETY: the command is whole, and its response address is null or valid.
        unsafe { write(-1, (&raw const *command).cast(), len) }
    }

    #[test]
    fn a_completion_channel_is_a_pipe() {
        let mut response = ib_uverbs_create_comp_channel_resp::default();
        let mut command = Command {
            header: ib_uverbs_cmd_hdr {
                command: IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
                in_words: 4,
                out_words: 1,
            },
            request: ib_uverbs_create_comp_channel {
                response: &raw mut response as u64,
            },
        };

        assert_eq!(send(&command, 16), Ok(16));
        assert!(response.fd > 2);
        sys::close(response.fd as c_int);

        assert_eq!(send(&command, 15), Err(libc::EINVAL));
        assert_eq!(send(&command, 4), Err(libc::EINVAL));
        command.header.out_words = 0;
        assert_eq!(send(&command, 16), Err(libc::ENOSPC));
        command.header.out_words = 1;
        command.request.response = 0;
        assert_eq!(send(&command, 16), Err(libc::EFAULT));
        command.header.command = 1;
        assert_eq!(send(&command, 16), Err(libc::EOPNOTSUPP));
        command.header = ib_uverbs_cmd_hdr {
            command: 17,
            in_words: 2,
            out_words: 1,
        };

        assert_eq!(send(&command, 8), Err(libc::EINVAL));
    }

    #[test]
    fn other_methods_do_not_exist() {
        let mut header = ib_uverbs_ioctl_hdr {
            length: 24,
            ..Default::default()
        };

        let call = |header: &mut ib_uverbs_ioctl_hdr| {
            // SAFETY: a header without attributes.
            unsafe { ioctl(3, 0, (&raw mut *header).cast()) }
        };
        assert_eq!(call(&mut header), Err(libc::EPROTONOSUPPORT));
        header.method_id = UVERBS_METHOD_QUERY_GID_ENTRY;
        assert_eq!(call(&mut header), Err(libc::EINVAL));
        header.length = 25;
        assert_eq!(call(&mut header), Err(libc::EINVAL));

        // SAFETY: null is allowed.
        let nothing = unsafe { ioctl(3, 0, std::ptr::null_mut()) };
        assert_eq!(nothing, Err(libc::EFAULT));
    }

    #[test]
    fn an_event_queue_is_handed_out_once_and_to_its_descriptor() {
        #[repr(C)]
        struct Request {
            header: ib_uverbs_ioctl_hdr,
            fd: ib_uverbs_attr,
        }

        let ask = |fd| {
            let mut request = Request {
                header: ib_uverbs_ioctl_hdr {
                    length: size_of::<Request>() as u16,
                    object_id: UVERBS_OBJECT_ASYNC_EVENT,
                    method_id: UVERBS_METHOD_ASYNC_EVENT_ALLOC,
                    num_attrs: 1,
                    ..Default::default()
                },
                fd: ib_uverbs_attr::default(),
            };
            // SAFETY: a header with its one attribute.
            unsafe { ioctl(fd, 0, (&raw mut request).cast()) }.map(|()| request.fd.data)
        };

        assert_eq!(ask(60_000), Err(libc::EPROTONOSUPPORT));
        offer_async_event(60_000, 60_001);
        assert_eq!(ask(60_002), Err(libc::EPROTONOSUPPORT));
        assert_eq!(ask(60_000), Ok(60_001));
        assert_eq!(ask(60_000), Err(libc::EPROTONOSUPPORT));
    }
}
