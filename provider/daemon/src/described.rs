//! Programs that give the node another description: see [`description`](crate::description).

use crate::daemon::Daemon;
use crate::sysfs::{NODE_DESC, device_directory};

impl Daemon {
    /// Lets programs write the description from now on, if the kernel says when they do.
    pub(crate) fn take_descriptions(&mut self) {
        let adapter = &mut self.adapter;
        let directory = device_directory(&adapter.info.name);
        let directory = self.place.dir().path().join(directory);
        if let Err(error) = adapter.description.watch(&directory, &adapter.poller) {
            tracing::warn!(%error, "the node description cannot be written");
        }
    }

    /// Somebody may have written the description.
    pub(crate) fn description_written(&mut self) {
        if !self.adapter.description.take() {
            return;
        }

        let path = device_directory(&self.adapter.info.name).join(NODE_DESC);
        let written = match self.place.contents(&path) {
            Ok(bytes) => self.adapter.description.written(&bytes),
            Err(error) => {
                tracing::warn!(%error, "what was written as node description is not known");
                None
            }
        };
        if let Some(text) = written {
            tracing::info!(text, "the node has another description");
            if let Some(fabric) = &mut self.adapter.ib.fabric {
                fabric.set_description(&text);
            }
            self.adapter.description.change(text);
        }

        // Also what says nothing new has left its mark in the file.
        self.place.forget(&path);
        self.show();
    }
}
