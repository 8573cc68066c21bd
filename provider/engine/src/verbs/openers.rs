//! Who has a queue pair open: contexts `C`, which have opened its XRC domain as `X`.

use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) struct Opener<C, X> {
    pub(crate) context: Arc<C>,
    /// XRC target: the domain as this opener has it.
    pub(crate) xrcd: Option<Arc<X>>,
    pub(crate) cookie: u64,
    /// Events written for it.
    pub(crate) events: u32,
}

/// The openers of a queue pair.
pub(crate) struct Openers<C, X>(pub(crate) Mutex<List<C, X>>);

pub(crate) struct List<C, X> {
    pub(crate) openers: Vec<Opener<C, X>>,
    /// The last one is leaving, and nobody can join any more.
    pub(crate) ending: bool,
}

impl<C, X> Openers<C, X> {
    pub(crate) fn new(context: &Arc<C>, xrcd: Option<Arc<X>>, cookie: u64) -> Self {
        Openers(Mutex::new(List {
            openers: vec![Opener {
                context: context.clone(),
                xrcd,
                cookie,
                events: 0,
            }],
            ending: false,
        }))
    }
}
