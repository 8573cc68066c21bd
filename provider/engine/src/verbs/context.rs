//! Contexts and protection domains.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use ferroce_control::faults::Verb;
use ferroce_control::objects::{Listing, MAX_OBJECTS, Object};

use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::instrument::watch::{Call, Watch};
use crate::verbs::async_events::AsyncEvents;
use crate::verbs::channel::Channels;
use crate::verbs::handles::{Handles, Kind};
use crate::verbs::limits;
use crate::verbs::made;

/// An opened device: its own asynchronous event queue on the process's shared [`Hca`].
pub struct Context {
    hca: Arc<Hca>,
    events: Arc<AsyncEvents>,
    pub(crate) channels: Channels,
    watch: Arc<Watch>,
    /// What it shares with its imports.
    shared: Arc<Handles>,
    /// One for it and its imports.
    listing: Arc<Listing>,
    pub(super) closed: AtomicBool,
}

impl Context {
    /// Opens a context.
    pub fn open(hca: Arc<Hca>) -> Result<Arc<Context>> {
        let listing = Arc::new(hca.objects.enter(Object::Context));
        Context::with(hca, Arc::default(), listing)
    }

    pub(crate) fn with(
        hca: Arc<Hca>,
        shared: Arc<Handles>,
        listing: Arc<Listing>,
    ) -> Result<Arc<Context>> {
        let events = AsyncEvents::open()?;
        hca.tell_events_to(&events);
        if hca.is_gone() {
            // It may have gone before it knew of these.
            events.end();
        }
        shared.opened();
        Ok(Arc::new(Context {
            hca,
            events,
            channels: Channels::default(),
            watch: Arc::default(),
            shared,
            listing,
            closed: AtomicBool::new(false),
        }))
    }

    /// The descriptor that delivers `struct ib_uverbs_async_event_desc` records. It closes with the
    /// context.
    pub fn async_fd(&self) -> RawFd {
        self.events.fd()
    }

    /// The program has read an asynchronous event.
    pub fn event_was_read(&self) {
        self.events.was_read();
    }

    /// Has `call` called for each completion of its queues from now on, by a thread of its own
    /// (`EBUSY`: there is one already, or it is being ended).
    pub fn watch(&self, call: Call) -> Result<()> {
        match self.hca.is_inherited() {
            true => Err(Error::Dead),
            false => self.watch.begin(call),
        }
    }

    /// Ends that, when it has been called for all completions that there were; whether there was
    /// one. `EDEADLK`: it is the one who asks. In a forked child there is none.
    pub fn unwatch(&self) -> Result<bool> {
        match self.hca.is_inherited() {
            true => Ok(false),
            false => self.watch.end(),
        }
    }

    pub(super) fn watch_of_completions(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// Where events of what is made in it go.
    pub(crate) fn events(&self) -> &Arc<AsyncEvents> {
        &self.events
    }

    /// The device.
    pub fn hca(&self) -> &Arc<Hca> {
        &self.hca
    }

    /// How others are told of it.
    pub(super) fn listing(&self) -> &Arc<Listing> {
        &self.listing
    }

    pub(crate) fn shared(&self) -> &Arc<Handles> {
        &self.shared
    }

    /// A completion channel: its end for the program, close-on-exec and blocking. `EIO`: the device
    /// has gone.
    pub fn make_channel(&self) -> Result<OwnedFd> {
        let device: Weak<Hca> = Arc::downgrade(&self.hca);
        let fd = made::make(device)?;
        // Who ends them looks after it has said that the device is gone.
        match self.hca.is_gone() {
            true => Err(Error::Dead),
            false => Ok(fd),
        }
    }

    /// Creates a protection domain.
    pub fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Pd>> {
        self.hca.allows(Verb::AllocPd)?;
        self.hca
            .count
            .pd
            .take(limits::MAX_PD, "protection domains")?;

        let domain = Arc::new(Domain {
            hca: self.hca.clone(),
            handle: self.hca.new_handle(),
            users: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            base: None,
            listing: Some(self.hca.objects.enter(Object::Pd {
                context: self.listing.number(),
                users: 0,
            })),
        });

        self.shared.add(Kind::Domain, domain.handle, &domain);
        Ok(Pd::view(self, domain))
    }
}

/// A protection domain, as one context sees it: imports of a domain are views of the same one.
pub struct Pd {
    context: Arc<Context>,
    domain: Arc<Domain>,
}

/// What all views of a protection domain share.
pub(crate) struct Domain {
    hca: Arc<Hca>,
    handle: u32,
    users: AtomicU32,
    gone: AtomicBool,
    /// The domain whose protection this one shares.
    base: Option<Arc<Pd>>,
    /// How others are told of it; not of one that shares another's protection.
    listing: Option<Listing>,
}

impl Pd {
    /// A domain with the same protection, which counts what is made in it for itself
    /// (`ibv_alloc_parent_domain(3)`). The one that it is made from stays in use as long.
    pub fn share(self: &Arc<Self>) -> Arc<Pd> {
        self.add_user();
        let domain = Arc::new(Domain {
            hca: self.context.hca.clone(),
            handle: self.handle(),
            users: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            base: Some(self.clone()),
            listing: None,
        });
        Pd::view(&self.context, domain)
    }

    /// The view of a domain that a context has.
    pub(crate) fn view(context: &Arc<Context>, domain: Arc<Domain>) -> Arc<Pd> {
        Arc::new(Pd {
            context: context.clone(),
            domain,
        })
    }

    /// A number that identifies the domain in this process.
    pub fn handle(&self) -> u32 {
        self.domain.handle
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn add_user(&self) {
        self.domain.users.fetch_add(1, Ordering::Relaxed);
        if let Some(listing) = &self.domain.listing {
            listing.add_user();
        }
    }

    pub(super) fn remove_user(&self) {
        self.domain.users.fetch_sub(1, Ordering::Relaxed);
        if let Some(listing) = &self.domain.listing {
            listing.remove_user();
        }
    }

    /// The number by which others are told of it, or of the one whose protection it shares.
    pub(super) fn listed_number(&self) -> u32 {
        match (&self.domain.listing, &self.domain.base) {
            (None, Some(base)) => base.listed_number(),
            (listing, _) => listing.as_ref().map_or(MAX_OBJECTS, Listing::number),
        }
    }

    /// Ends the domain (`EBUSY` while regions, windows, queue pairs, shared receive queues or
    /// address handles are in it).
    pub fn dealloc(&self) -> Result<()> {
        if self.domain.users.load(Ordering::Relaxed) != 0 {
            return Err(Error::Busy("protection domain"));
        }

        // One that shares another's has no entry: its handle is the other's.
        if self.domain.base.is_none() {
            self.context.shared.forget(Kind::Domain, self.handle());
        }
        self.domain.end();
        Ok(())
    }
}

impl Domain {
    pub(super) fn end(&self) {
        if self.gone.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(listing) = &self.listing {
            listing.remove();
        }
        match &self.base {
            Some(base) => base.remove_user(),
            None => self.hca.count.pd.give_back(),
        }
    }
}
