//! A device, opened: what it says of itself and of its ports, and the events that it raises.

use std::ffi::CStr;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow};
use ferroce_cabi::{
    ibv_async_event, ibv_context, ibv_context_ops, ibv_device_attr, ibv_gid_entry, ibv_port_attr,
    verbs_context,
};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::library::{Library, Verb, VerbsError};

/// A function of the later ones, which libibverbs has beside the context, if this library and
/// device have it.
macro_rules! later {
    ($device:expr, $name:ident) => {{
        let offset = std::mem::offset_of!(ferroce_cabi::verbs_context, $name);
        // SAFETY: the table reaches that far, and changes no more once the device is open.
        ($device.later(offset)).and_then(|table| unsafe { (*table).$name })
    }};
}
pub(super) use later;

/// An open device. What is made on it keeps it open.
pub(super) struct Device {
    pub(super) library: &'static Library,
    pub(super) context: NonNull<ibv_context>,
}

impl Device {
    /// Opens a device by its name.
    ///
    /// # Errors
    /// If there is none (the message says which there are), or if it cannot be opened.
    pub(super) fn open(name: &str) -> Result<Rc<Device>> {
        let library = Library::load()?;
        let list = List::new(library).map_err(|error| match error.errno {
            // The kernel has no RDMA.
            libc::ENOSYS => none(name),
            _ => anyhow!(error).context(format!("looking for {name}")),
        })?;

        let Some((index, _)) = list.names().find(|(_, found)| found == name) else {
            let names: Vec<String> = list.names().map(|(_, name)| name).collect();
            return Err(match names.is_empty() {
                true => none(name),
                false => anyhow!("there is no device {name}; there are {}", names.join(", ")),
            });
        };

        // SAFETY: an entry of the list, which lives on until the device is open.
        let context = unsafe { (library.ibv_open_device)(*list.devices.as_ptr().add(index)) };
        let context = NonNull::new(context)
            .ok_or_else(|| VerbsError::last("ibv_open_device"))
            .with_context(|| format!("opening {name}"))?;
        let device = Device { library, context };

        // Events are looked for, not waited for.
        let flags = fcntl_getfl(device.events_fd())?;
        fcntl_setfl(device.events_fd(), flags | OFlags::NONBLOCK)?;
        Ok(Rc::new(device))
    }

    /// `ibv_query_device(3)`.
    pub(super) fn query(&self) -> Verb<ibv_device_attr> {
        // SAFETY: integers and arrays of them, for which zeros are a value.
        let mut attr: ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: an open context, and room for the answer.
        let returned = unsafe { (self.library.ibv_query_device)(self.context.as_ptr(), &mut attr) };
        VerbsError::check("ibv_query_device", returned)?;
        Ok(attr)
    }

    /// `ibv_query_port(3)`, port from 1.
    pub(super) fn query_port(&self, port: u8) -> Verb<ibv_port_attr> {
        // SAFETY: integers, for which zeros are a value.
        let mut attr: ibv_port_attr = unsafe { std::mem::zeroed() };
        let context = self.context.as_ptr();
        let later = later!(self, query_port);
        // SAFETY: an open context, and room for the answer. The function of the table knows of the
        // fields that came later.
        let returned = unsafe {
            match later {
                Some(query) => query(context, port, &mut attr, size_of::<ibv_port_attr>()),
                None => (self.library.ibv_query_port)(context, port, &mut attr),
            }
        };
        VerbsError::check("ibv_query_port", returned)?;
        Ok(attr)
    }

    /// `ibv_query_pkey(3)`: the entry in host byte order.
    pub(super) fn query_pkey(&self, port: u8, index: u16) -> Verb<u16> {
        let mut pkey = 0u16;
        let context = self.context.as_ptr();
        // SAFETY: an open context, and room for the answer.
        let returned = unsafe {
            (self.library.ibv_query_pkey)(context, port, libc::c_int::from(index), &mut pkey)
        };
        VerbsError::check("ibv_query_pkey", returned)?;
        Ok(u16::from_be(pkey))
    }

    /// `ibv_query_gid_ex(3)`; an entry that is not in use is all zeros.
    pub(super) fn gid(&self, port: u8, index: u32) -> Verb<ibv_gid_entry> {
        let mut entry = ibv_gid_entry::default();
        let (context, size) = (self.context.as_ptr(), size_of::<ibv_gid_entry>());
        // SAFETY: an open context, and as much room as is said.
        let returned = unsafe {
            (self.library._ibv_query_gid_ex)(context, port.into(), index, &mut entry, 0, size)
        };
        match VerbsError::check("ibv_query_gid_ex", returned) {
            Err(error) if error.errno == libc::ENODATA => Ok(ibv_gid_entry::default()),
            Err(error) => Err(error),
            Ok(()) => Ok(entry),
        }
    }

    /// The next asynchronous event, acknowledged: its number in `enum ibv_event_type` and the
    /// object's address or the port.
    pub(super) fn event(&self) -> Option<(u32, usize)> {
        let mut event = ibv_async_event {
            element: std::ptr::null_mut(),
            event_type: 0,
        };
        // SAFETY: an open context; what comes is acknowledged at once, and the object is only
        // compared afterwards.
        unsafe {
            if (self.library.ibv_get_async_event)(self.context.as_ptr(), &mut event) != 0 {
                return None;
            }
            (self.library.ibv_ack_async_event)(&mut event);
        }
        Some((event.event_type, event.element.addr()))
    }

    /// Readable while an event waits.
    pub(super) fn events_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context owns the descriptor and is open as long as this borrow.
        unsafe { BorrowedFd::borrow_raw((*self.context.as_ptr()).async_fd) }
    }

    /// The functions that are called through the context.
    pub(super) fn operations(&self) -> &ibv_context_ops {
        // SAFETY: the table is part of the context and changes no more once the device is open.
        unsafe { &(*self.context.as_ptr()).ops }
    }

    /// The table of later functions, if it has what is that far from its start.
    pub(super) fn later(&self, offset: usize) -> Option<*const verbs_context> {
        let context = self.context.as_ptr();
        // SAFETY: with this mark, the context is the last part of a `verbs_context`, which grows at
        // its head and says how large it is, at its end.
        unsafe {
            if (*context).abi_compat.addr() != usize::MAX {
                return None;
            }
            let whole =
                context.byte_sub(offset_of!(verbs_context, context)) as *const verbs_context;
            let to_end = size_of::<verbs_context>() - offset;
            ((*whole).sz >= to_end).then_some(whole)
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: everything that was made on it held the device, so nothing is left.
        unsafe { (self.library.ibv_close_device)(self.context.as_ptr()) };
    }
}

fn none(name: &str) -> anyhow::Error {
    anyhow!(
        "there is no device {name}, nor any other; ferroce's are seen by what `ferroce run` runs"
    )
}

/// The list of devices.
struct List {
    library: &'static Library,
    devices: NonNull<*mut ferroce_cabi::ibv_device>,
    count: usize,
}

impl List {
    fn new(library: &'static Library) -> Verb<List> {
        let mut count = 0;
        // SAFETY: room for the number.
        let devices = unsafe { (library.ibv_get_device_list)(&mut count) };
        let devices = NonNull::new(devices).ok_or_else(|| VerbsError::last("ibv_get_device_list"));
        Ok(List {
            library,
            devices: devices?,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    fn names(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        (0..self.count).map(|index| {
            // SAFETY: the list has `count` devices, whose names are C strings that live as long as
            // it.
            let name = unsafe {
                let device = *self.devices.as_ptr().add(index);
                CStr::from_ptr((self.library.ibv_get_device_name)(device))
            };
            (index, name.to_string_lossy().into_owned())
        })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list came from the library and is freed once.
        unsafe { (self.library.ibv_free_device_list)(self.devices.as_ptr()) };
    }
}
