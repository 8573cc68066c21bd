//! Memory of the session: regions, windows, and what its program reads and writes.

use ferroce_ibta::protocol::{self, Reply};

use super::Session;
use crate::agent::library::{Verb, VerbsError};
use crate::agent::named::unknown;
use crate::agent::objects::Mw;
use crate::agent::region::Region;

/// The largest region, in bytes.
const MAX_REGION: u32 = 1 << 30;

impl Session {
    /// Registers memory, in the protection domain of a shared receive queue where one is named.
    pub(super) fn register(&mut self, len: u32, access: u32, srq: Option<u32>) -> Verb<Reply> {
        if len > MAX_REGION {
            return Err(VerbsError {
                call: "ibv_reg_mr",
                errno: libc::ENOMEM,
            });
        }

        let objects = &mut self.objects;
        let pd = match srq {
            Some(srq) => &objects.srq(srq, "ibv_reg_mr")?.pd,
            None => &objects.pd,
        };

        let region = Region::new(pd, len as usize, access as i32)?;
        let reply = protocol::Region {
            addr: region.address(),
            len,
            lkey: region.lkey(),
            rkey: region.rkey(),
        };

        objects.regions.push(region);
        Ok(Reply::Region(reply))
    }

    pub(super) fn write_memory(&self, addr: u64, data: &[u8]) -> Verb<Reply> {
        let call = "writing memory";
        let region = self.objects.region(addr, data.len() as u64, call)?;
        let offset = (addr - region.address()) as usize;
        region.write(offset, data).ok_or_else(|| unknown(call))?;
        Ok(Reply::Done)
    }

    pub(super) fn read_memory(&self, addr: u64, len: u32) -> Verb<Reply> {
        let call = "reading memory";
        let region = self.objects.region(addr, len.into(), call)?;
        let offset = (addr - region.address()) as usize;
        let data = region.read(offset, len as usize);
        Ok(Reply::Bytes {
            data: data.ok_or_else(|| unknown(call))?,
        })
    }

    pub(super) fn allocate_window(&mut self, kind: u8) -> Verb<Reply> {
        let objects = &mut self.objects;
        let made = Mw::new(&objects.pd, kind.into())?;
        let rkey = made.rkey();
        let window = objects.handle();
        objects.windows.insert(window, (made, kind));
        Ok(Reply::Window { window, rkey })
    }
}
