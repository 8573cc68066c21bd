//! The attributes that only switches have: SwitchInfo and the blocks of the forwarding tables.

use super::Node;
use super::request::{Refusal, Request};
use super::switch::{NONE, Switch};
use super::tables::block_of;
use ferroce_wire::smp::{Data, LinearBlock, MulticastBlock, SwitchInfo, status};

/// Ports that an entry of a MulticastForwardingTable block has.
const POSITION: usize = 16;

impl Node {
    pub(super) fn switch_info(
        &mut self,
        request: &Request,
        data: &mut Data,
    ) -> Result<(), Refusal> {
        let switch = self.tables()?;
        request.without_modifier()?;
        if request.is_set {
            switch
                .set_info(&SwitchInfo::parse(data))
                .ok_or(status::INVALID_VALUE)?;
        }
        switch.info.emit(data);
        Ok(())
    }

    pub(super) fn linear_forwarding(
        &mut self,
        request: &Request,
        data: &mut Data,
    ) -> Result<(), Refusal> {
        let switch = self.tables()?;
        let block = block_of(&mut switch.linear, request.modifier, 64)?;
        if request.is_set {
            block.copy_from_slice(&LinearBlock::parse(data).0[..block.len()]);
        }
        let mut entries = [NONE; 64];
        entries[..block.len()].copy_from_slice(block);
        LinearBlock(entries).emit(data);
        Ok(())
    }

    /// The modifier has the block below and in its upper four bits which sixteen ports.
    pub(super) fn multicast_forwarding(
        &mut self,
        request: &Request,
        data: &mut Data,
    ) -> Result<(), Refusal> {
        let switch = self.tables()?;
        let position = (request.modifier >> 28) as usize;
        if position * POSITION > usize::from(switch.ports) {
            return Err(status::INVALID_VALUE);
        }

        let block = block_of(&mut switch.multicast, request.modifier & 0x0fff_ffff, 32)?;
        if request.is_set {
            for (set, mask) in block.iter_mut().zip(MulticastBlock::parse(data).0) {
                set.set_sixteen(position, mask);
            }
        }

        let mut masks = [0; 32];
        for (mask, set) in masks.iter_mut().zip(block) {
            *mask = set.sixteen(position);
        }
        MulticastBlock(masks).emit(data);
        Ok(())
    }

    fn tables(&mut self) -> Result<&mut Switch, Refusal> {
        self.switch.as_mut().ok_or(status::UNSUPPORTED_ATTRIBUTE)
    }
}
