//! Who has a queue pair open: contexts, which have opened its XRC domain as `X`.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::verbs::async_events::AsyncEvents;

pub(crate) struct Opener<X> {
    /// Its context's.
    pub(crate) events: Arc<AsyncEvents>,
    /// XRC target: the domain as this opener has it.
    pub(crate) xrcd: Option<Arc<X>>,
    pub(crate) cookie: u64,
    /// Events written for it.
    pub(crate) written: u32,
}

/// The openers of a queue pair.
pub(crate) struct Openers<X>(pub(crate) Mutex<List<X>>);

pub(crate) struct List<X> {
    pub(crate) openers: Vec<Opener<X>>,
    /// The last one is leaving, and nobody can join any more.
    pub(crate) ending: bool,
}

impl<X> Openers<X> {
    pub(crate) fn new(events: &Arc<AsyncEvents>, xrcd: Option<Arc<X>>, cookie: u64) -> Self {
        Openers(Mutex::new(List {
            openers: vec![Opener {
                events: events.clone(),
                xrcd,
                cookie,
                written: 0,
            }],
            ending: false,
        }))
    }
}
