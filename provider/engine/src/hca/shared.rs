//! What the lanes of a process have in common: the tables of what the program made.

use std::sync::Arc;

use super::Hca;
use crate::locks;
use crate::memory::keys::KeyTable;
use crate::verbs::ah_table::AhTable;
use crate::verbs::places::Places;
use crate::verbs::qp::Qp;
use crate::verbs::table::Table;

/// What all lanes of a process share.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    pub(super) qps: Arc<locks::Table<Table<Qp>, { locks::QUEUE_PAIRS }>>,
    pub(super) ahs: Arc<locks::Table<AhTable, { locks::KEYS }>>,
    pub(super) keys: Arc<locks::Table<KeyTable, { locks::KEYS }>>,
    pub(super) places: Arc<Places>,
}

impl Hca {
    /// What it shares with its lanes.
    pub(super) fn tables(&self) -> Tables {
        Tables {
            qps: self.qps.clone(),
            ahs: self.ahs.clone(),
            keys: self.keys.clone(),
            places: self.places.clone(),
        }
    }
}
