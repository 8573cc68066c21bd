//! What a process has one of: tables of sockets, queues and memory, the devices in use, timers, and
//! the way in to all of them. A child of a fork starts without it.

use std::collections::HashMap;
use std::ffi::c_void;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};

use crate::abi::EXS_QUEUES_MAX;
use crate::attention::{Attention, Duty, Next};
use crate::errno::{Errno, Result};
use crate::memory::Memory;
use crate::queue::{Progress, Queue};
use crate::socket::{Phase, Socket};
use crate::table::Table;
use crate::timers::{Deadline, Timers};
use crate::verbs::{self, CmChannel, Completion, Cq, Device};

static LIBRARY: AtomicPtr<Library> = AtomicPtr::new(std::ptr::null_mut());
static STARTING: Mutex<()> = Mutex::new(());

/// How often completions are looked for while requests wait to be posted together.
const LOOKS: usize = 4;

/// What a descriptor that the progress thread waits for stands for; smaller numbers are devices.
pub(crate) const CM: u64 = u64::MAX;
pub(crate) const WAKE: u64 = u64::MAX - 1;

/// The library of this process.
pub(crate) struct Library {
    /// The connection manager.
    pub cm: CmChannel,
    sockets: RwLock<HashMap<u64, Arc<Socket>>>,
    descriptors: RwLock<HashMap<i32, Arc<Socket>>>,
    queues: Mutex<Table<Arc<Queue>>>,
    memories: Mutex<Table<Arc<Memory>>>,
    devices: RwLock<Vec<Arc<Device>>>,
    next_key: AtomicU64,
    pub timers: Arc<Timers>,
    /// What the progress thread sleeps on, and what wakes it.
    pub epoll: RawFd,
    pub wake: RawFd,
    /// Threads that look for completions themselves.
    pub attention: Attention,
}

impl Library {
    /// The library: `EPERM` before [`Library::init`].
    pub(crate) fn running() -> Result<&'static Self> {
        let library = LIBRARY.load(Ordering::Acquire);
        // SAFETY: null, or leaked by `init` and never freed.
        unsafe { library.as_ref() }.ok_or(Errno(libc::EPERM))
    }

    /// Starts it, and by `start` its progress thread: `EALREADY` a second time, also where that was
    /// in the parent of this process and has opened devices.
    pub(crate) fn init(start: impl FnOnce(&'static Self) -> Result<()>) -> Result<()> {
        let _starting = STARTING.lock();
        if !LIBRARY.load(Ordering::Acquire).is_null() || verbs::opened() {
            return Err(Errno(libc::EALREADY));
        }

        let cm = CmChannel::open()?;

        // SAFETY: makes descriptors, which are ours.
        let (epoll, wake) = unsafe {
            (
                libc::epoll_create1(libc::EPOLL_CLOEXEC),
                libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK),
            )
        };
        if epoll < 0 || wake < 0 {
            return Err(Errno::last());
        }

        let library: &'static Self = Box::leak(Box::new(Self {
            cm,
            sockets: RwLock::default(),
            descriptors: RwLock::default(),
            queues: Mutex::default(),
            memories: Mutex::default(),
            devices: RwLock::default(),
            next_key: AtomicU64::new(1),
            timers: Arc::default(),
            epoll,
            wake,
            attention: Attention::new(),
        }));

        library.watch(library.cm.fd, CM)?;
        library.watch(wake, WAKE)?;
        start(library)?;

        // The child of a fork has not the thread: it must start anew, if librdmacm has not opened
        // devices, which it would go on with. The parent's is left alone. SAFETY: the handler only
        // stores a pointer.
        unsafe { libc::pthread_atfork(None, None, Some(forget_in_child)) };
        LIBRARY.store(std::ptr::from_ref(library).cast_mut(), Ordering::Release);
        Ok(())
    }

    fn watch(&self, fd: RawFd, token: u64) -> Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: token,
        };
        // SAFETY: both descriptors are open, and `event` is one.
        match unsafe { libc::epoll_ctl(self.epoll, libc::EPOLL_CTL_ADD, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(Errno::last()),
        }
    }

    /// A number for a socket. It is part of each work request's, which has 32 bits for it.
    pub(crate) fn next_key(&self) -> u64 {
        loop {
            let key = self.next_key.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff;
            if key != 0 && !self.sockets.read().contains_key(&key) {
                return key;
            }
        }
    }

    /// Makes a socket known by its number.
    pub(crate) fn add(&self, socket: &Arc<Socket>) {
        self.sockets.write().insert(socket.key, Arc::clone(socket));
    }

    /// Gives a socket a descriptor: a real one, so that no other file ever has its number.
    pub(crate) fn give_descriptor(&self, socket: &Arc<Socket>) -> Result<i32> {
        // SAFETY: makes a descriptor.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        let mut inner = socket.lock();
        inner.fd = fd;
        if let Phase::Connected(conn) = &mut inner.phase {
            conn.socket = fd;
        }
        self.descriptors.write().insert(fd, Arc::clone(socket));
        Ok(fd)
    }

    /// A socket by its descriptor.
    pub(crate) fn socket(&self, fd: i32) -> Result<Arc<Socket>> {
        self.descriptors
            .read()
            .get(&fd)
            .cloned()
            .ok_or(Errno(libc::EBADF))
    }

    /// Takes the name away from a socket that is being closed.
    pub(crate) fn unname(&self, fd: i32) -> Result<Arc<Socket>> {
        self.descriptors
            .write()
            .remove(&fd)
            .ok_or(Errno(libc::EBADF))
    }

    /// A socket by its number.
    pub(crate) fn by_key(&self, key: u64) -> Option<Arc<Socket>> {
        self.sockets.read().get(&key).cloned()
    }

    /// A socket is no more.
    pub(crate) fn forget(&self, key: u64) {
        self.sockets.write().remove(&key);
    }

    /// A device, prepared at its first use.
    pub(crate) fn device(&self, verbs: *mut c_void) -> Result<Arc<Device>> {
        let find =
            |devices: &[Arc<Device>]| devices.iter().find(|device| device.is(verbs)).cloned();
        if let Some(device) = find(&self.devices.read()) {
            return Ok(device);
        }
        let mut devices = self.devices.write();
        if let Some(device) = find(&devices) {
            return Ok(device);
        }
        let device = Arc::new(Device::open(verbs)?);
        self.watch(device.fd, devices.len() as u64)?;
        devices.push(Arc::clone(&device));
        Ok(device)
    }

    /// Some device: one that is used, or the first there is.
    pub(crate) fn any_device(&self) -> Result<Arc<Device>> {
        if let Some(device) = self.devices.read().first() {
            return Ok(Arc::clone(device));
        }
        let contexts = Device::contexts();
        let first = contexts.first().ok_or(Errno(libc::ENODEV))?;
        self.device(*first)
    }

    /// The device that the progress thread knows by this token.
    pub(crate) fn device_at(&self, index: u64) -> Option<Arc<Device>> {
        self.devices.read().get(index as usize).cloned()
    }

    /// Makes a queue: `EAGAIN` when there are too many.
    pub(crate) fn add_queue(&self, queue: Arc<Queue>) -> Result<usize> {
        let mut queues = self.queues.lock();
        if queues.len() >= EXS_QUEUES_MAX {
            return Err(Errno(libc::EAGAIN));
        }
        Ok(queues.insert(queue))
    }

    /// A queue by its handle: `EINVAL` if there is none.
    pub(crate) fn queue(&self, handle: usize) -> Result<Arc<Queue>> {
        self.queues
            .lock()
            .get(handle)
            .cloned()
            .ok_or(Errno(libc::EINVAL))
    }

    /// Deletes a queue.
    pub(crate) fn delete_queue(&self, handle: usize) -> Result<()> {
        let mut queues = self.queues.lock();
        let queue = queues.get(handle).ok_or(Errno(libc::EINVAL))?;
        queue.delete()?;
        queues.remove(handle);
        Ok(())
    }

    /// Keeps a registration; answers its handle.
    pub(crate) fn add_memory(&self, memory: Arc<Memory>) -> usize {
        self.memories.lock().insert(memory)
    }

    /// A registration by its handle.
    pub(crate) fn memory(&self, handle: usize) -> Result<Arc<Memory>> {
        self.memories
            .lock()
            .get(handle)
            .cloned()
            .ok_or(Errno(libc::EINVAL))
    }

    /// Drops a registration: `EBUSY` while an operation uses it.
    pub(crate) fn remove_memory(&self, handle: usize) -> Result<()> {
        let mut memories = self.memories.lock();
        let memory = memories.get(handle).ok_or(Errno(libc::EINVAL))?;
        if Arc::strong_count(memory) > 1 {
            return Err(Errno(libc::EBUSY));
        }
        memories.remove(handle);
        Ok(())
    }

    /// Has [`Socket::overdue`] called at a time.
    pub(crate) fn timer(&self, when: Instant, key: u64) {
        if self.timers.add(when, key) {
            self.wake_up();
        }
    }

    /// The same, until what it answers is dropped.
    pub(crate) fn deadline(&self, when: Instant, key: u64) -> Deadline {
        let deadline = self.timers.deadline(when, key);
        self.timer(when, key);
        deadline
    }

    /// The same as [`timer`](Self::timer), unless the socket has one before that time.
    pub(crate) fn timer_once(&self, when: Instant, key: u64) {
        if !self.timers.has(when, key) {
            self.timer(when, key);
        }
    }

    fn wake_up(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes to an eventfd.
        unsafe { libc::write(self.wake, (&raw const one).cast(), 8) };
    }

    /// Takes completions from a queue and gives them to their connections. Where long requests
    /// follow of them, it looks for more first: what is posted together is sent together.
    pub(crate) fn poll(&self, cq: &Cq, wait: bool) -> usize {
        let mut gathering = Vec::new();
        let mut found = 0;
        for _ in 0..LOOKS {
            let more = cq.poll(wait, |completions| {
                for batch in completions.chunk_by(|a, b| a.wr_id >> 32 == b.wr_id >> 32) {
                    self.deliver(batch, &mut gathering);
                }
            });
            found += more;
            if more == 0 || gathering.is_empty() {
                break;
            }
        }
        for key in gathering {
            if let Some(socket) = self.by_key(key)
                && let Some(conn) = socket.lock().conn()
            {
                conn.post();
            }
        }
        found
    }

    fn deliver(&self, batch: &[Completion], gathering: &mut Vec<u64>) {
        let key = batch.first().map_or(0, |first| first.wr_id >> 32);
        let Some(socket) = self.by_key(key) else {
            return;
        };

        let settle = {
            let mut inner = socket.lock();
            let Some(conn) = inner.conn() else { return };
            if conn.completions(batch.iter()) && !gathering.contains(&key) {
                gathering.push(key);
            }
            let up = conn.link() == crate::conn::Link::Up;
            inner.look();
            !up || !inner
                .connected()
                .is_ok_and(|conn| conn.link() == crate::conn::Link::Up)
        };

        if settle {
            socket.settle(self);
        }
    }

    /// Has every completion queue wake the progress thread; what came before it was asked for is
    /// taken here.
    pub(crate) fn arm(&self) {
        self.each_cq(|cq| {
            cq.arm();
            while self.poll(cq, true) > 0 {}
        });
    }

    fn each_cq(&self, mut each: impl FnMut(&Cq)) {
        let mut index = 0;
        while let Some(device) = self.device_at(index) {
            device.each_cq(&mut each);
            index += 1;
        }
    }
}

impl Progress for &Library {
    fn begin(&self) {
        self.attention.begin();
    }

    fn advance(&self) -> bool {
        let mut found = 0;
        self.each_cq(|cq| found += self.poll(cq, false));
        found > 0
    }

    fn end(&self, next: Next) {
        match self.attention.end(next) {
            Duty::None => {}
            Duty::Watch => self.wake_up(),
            Duty::Arm => self.arm(),
        }
    }

    fn awake(&self) {
        self.attention.awake();
    }
}

extern "C" fn forget_in_child() {
    LIBRARY.store(std::ptr::null_mut(), Ordering::Release);
}
