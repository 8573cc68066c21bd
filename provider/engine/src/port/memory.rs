//! Memory between the programs of a device.

use ferroce_wire::Octets;

use super::{Incoming, Opened, Refused};

/// What a program of this device has put into the inbox: it has been in memory only, and nothing is around it or could have changed it.
pub(crate) struct Memory;

impl Incoming for Memory {
    #[inline]
    fn open<'a>(&self, frame: Octets<'a>) -> Result<Opened<'a>, Refused> {
        Ok(Opened {
            transport: frame,
            local: None,
        })
    }

    #[inline]
    fn verify(&mut self, _: &Opened<'_>, place: u16) -> Option<u16> {
        Some(place)
    }
}
