//! The tables of a port: GUIDs, P_Keys, lanes of service levels, arbitration between lanes.

use super::request::{Refusal, Request};
use super::types::{Output, PortEvent};
use super::{Node, Port};
use ferroce_wire::smp::{Data, GuidInfo, PKeyBlock, SlToVl, VlArbitration, capability, status};

/// Blocks of GUIDInfo that GUIDCap could ask for.
const GUID_BLOCKS: u32 = 32;

impl Node {
    pub(super) fn guid_info(
        &mut self,
        request: &Request,
        data: &mut Data,
        out: &mut impl Output,
    ) -> Result<(), Refusal> {
        let number = self.key_port(request.port);
        let port = self.port_mut(number).expect("exists");
        let wanted = GuidInfo::parse(data).0;

        // GUIDCap is a byte, so there could be 32 blocks. What exceeds it is ignored on write and
        // reads as zero.
        let none: &mut [u64] = &mut [];
        let block = match block_of(&mut port.guids, request.modifier, 8) {
            Err(_) if request.modifier < GUID_BLOCKS => none,
            block => block?,
        };

        let mut changed = false;
        if request.is_set {
            // The first GUID of all is the port's own, and stays (C14-27).
            let fixed = usize::from(request.modifier == 0);
            for (entry, wanted) in block.iter_mut().zip(wanted).skip(fixed) {
                changed |= *entry != wanted;
                *entry = wanted;
            }
        }

        GuidInfo(padded(block)).emit(data);
        if changed {
            out.event(number, PortEvent::GidChange);
        }

        Ok(())
    }

    /// The modifier has the block below and, of a switch, the port above. External ports of a
    /// switch have tables as long as PartitionEnforcementCap says.
    pub(super) fn p_key_table(
        &mut self,
        request: &Request,
        data: &mut Data,
        out: &mut impl Output,
    ) -> Result<(), Refusal> {
        let number = if self.is_switch() {
            u8::try_from(request.modifier >> 16).map_err(|_| status::INVALID_VALUE)?
        } else {
            request.port
        };
        let port = self.port_mut(number).ok_or(status::INVALID_VALUE)?;
        let wanted = PKeyBlock::parse(data).0;
        let block = block_of(&mut port.p_keys, request.modifier & 0xffff, 32)?;
        let mut changed = false;
        if request.is_set {
            for (entry, wanted) in block.iter_mut().zip(wanted) {
                changed |= *entry != wanted;
                *entry = wanted;
            }
        }

        PKeyBlock(padded(block)).emit(data);
        if changed {
            out.event(number, PortEvent::PkeyChange);
        }

        Ok(())
    }

    /// Of a switch the modifier names the port by which packets leave, and above it the one by
    /// which they come in.
    pub(super) fn sl_to_vl(&mut self, request: &Request, data: &mut Data) -> Result<(), Refusal> {
        let (input, output) = if self.is_switch() {
            let [high, low, input, output] = request.modifier.to_be_bytes();
            if (high, low) != (0, 0) {
                return Err(status::INVALID_VALUE);
            }
            (input, output)
        } else {
            self.has_lanes(request.port)?;
            (0, request.port)
        };

        let port = self.port_mut(output).ok_or(status::INVALID_VALUE)?;
        let table = port
            .sl_to_vl
            .get_mut(usize::from(input))
            .ok_or(status::INVALID_VALUE)?;
        if request.is_set {
            *table = SlToVl::parse(data);
        }

        table.emit(data);
        Ok(())
    }

    /// The modifier has the port below (of a switch) and above it which half of which table: 1 and
    /// 2 low, 3 and 4 high priority.
    pub(super) fn vl_arbitration(
        &mut self,
        request: &Request,
        data: &mut Data,
    ) -> Result<(), Refusal> {
        let number = if self.is_switch() {
            u8::try_from(request.modifier & 0xffff).map_err(|_| status::INVALID_VALUE)?
        } else {
            self.has_lanes(request.port)?;
            request.port
        };
        let port = self.port_mut(number).ok_or(status::INVALID_VALUE)?;
        let (table, half) = match request.modifier >> 16 {
            half @ 1..=2 => (0, half - 1),
            half @ 3..=4 => (1, half - 3),
            _ => return Err(status::INVALID_VALUE),
        };
        let cap = arbitration_cap(port, table);
        let start = 32 * half as usize;
        if start >= cap {
            return Err(status::INVALID_VALUE);
        }

        let end = cap.min(start + 32);
        let entries = &mut port.arbitration[table][start..end];
        if request.is_set {
            let wanted = VlArbitration::parse(data).0;
            // Lane 15 is not arbitrated.
            if wanted[..entries.len()].iter().any(|entry| entry.vl == 15) {
                return Err(status::INVALID_VALUE);
            }
            entries.copy_from_slice(&wanted[..end - start]);
        }

        VlArbitration(padded(entries)).emit(data);
        Ok(())
    }

    /// A port of an adapter with one data lane has none of the attributes about lanes, as its
    /// CapabilityMask says (C14-31).
    fn has_lanes(&self, port: u8) -> Result<(), Refusal> {
        let mask = self
            .port(port)
            .map_or(0, |port| port.info().capability_mask);
        match mask & capability::IS_SL_MAPPING_SUPPORTED {
            0 => Err(status::UNSUPPORTED_ATTRIBUTE),
            _ => Ok(()),
        }
    }
}

fn arbitration_cap(port: &Port, table: usize) -> usize {
    let info = port.info();
    usize::from(if table == 0 {
        info.vl_arbitration_low_cap
    } else {
        info.vl_arbitration_high_cap
    })
    .min(64)
}

/// The entries of block `number`, of which each has `size`; fewer in the last.
pub(super) fn block_of<T>(table: &mut [T], number: u32, size: usize) -> Result<&mut [T], Refusal> {
    table
        .chunks_mut(size)
        .nth(number as usize)
        .ok_or(status::INVALID_VALUE)
}

/// The entries, and nothing where there are none.
pub(super) fn padded<T: Copy + Default, const N: usize>(entries: &[T]) -> [T; N] {
    let mut block = [T::default(); N];
    block[..entries.len()].copy_from_slice(entries);
    block
}
