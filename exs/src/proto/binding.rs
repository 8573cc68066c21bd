//! Giving what arrives to the receives that are posted, and opening those to the peer.

use super::message::{Header, Kind};
use super::receiver::{Item, Reading, Source};
use super::{ADVERT_LEAST, ADVERTS, ASIDE, Action, Expose, Machine, Posted, Violation};

impl Machine {
    /// `start`: where in the slot the payload begins.
    pub(super) fn data(&mut self, slot: u32, header: &Header, start: u64) -> Result<(), Violation> {
        if self.rx.fin {
            return Err(Violation("data after the end"));
        }
        if header.length > self.limits.payload || (header.length == 0 && !self.limits.messages) {
            return Err(Violation("data of a wrong size"));
        }

        self.rx.void();
        self.rx.large = false;
        self.rx.items.push_back(Item::Data {
            slot,
            start,
            left: header.length,
            end: header.end,
        });

        Ok(())
    }

    pub(super) fn source(&mut self, header: &Header) -> Result<(), Violation> {
        if self.rx.fin {
            return Err(Violation("data after the end"));
        }
        if header.length == 0 || header.address.checked_add(header.length).is_none() {
            return Err(Violation("an offer of no memory"));
        }

        // Each was a control message, whose slot is free again: only this bounds what a peer can
        // make us remember.
        if self.rx.sources.len() > usize::from(self.limits.own_control) {
            return Err(Violation("too many offers"));
        }

        self.rx.void();
        self.rx.large = true;
        let number = self.rx.first_source + self.rx.sources.len() as u64;
        self.rx.sources.push_back(Source {
            bound: false,
            parts: 0,
        });

        self.rx.items.push_back(Item::Source {
            number,
            address: header.address,
            key: header.key,
            left: header.length,
            end: header.end,
        });

        Ok(())
    }

    pub(super) fn written(&mut self, header: &Header) -> Result<(), Violation> {
        self.rx.large = true;
        let index = self
            .rx
            .open()
            .ok_or(Violation("a write without a receive"))?;
        let op = &mut self.rx.ops[index];
        if !op.advertised || header.length > op.length - op.bound {
            return Err(Violation("a write that was not asked for"));
        }
        op.bound += header.length;
        op.truncated |= header.truncated;
        op.end |= header.end;
        op.finished = header.consumed;
        Ok(())
    }

    /// Gives what has arrived to the receives that are posted.
    pub(super) fn bind(&mut self) {
        if self.rx.reading != Reading::Open {
            self.discard();
            return;
        }
        while !self.rx.items.is_empty() {
            if self.rx.discarding {
                self.drop_front();
                continue;
            }
            let Some(index) = self.rx.open() else { return };
            if !self.bind_front(index) {
                return;
            }
        }
    }

    /// Moves bytes of the oldest item into a receive; false if that must wait.
    fn bind_front(&mut self, index: usize) -> bool {
        let messages = self.limits.messages;
        let number = self.rx.first + index as u64;
        let room = self.rx.ops[index].length - self.rx.ops[index].bound;
        let offset = self.rx.ops[index].bound;
        let (left, end) = match self.rx.items.front() {
            Some(Item::Data { left, end, .. } | Item::Source { left, end, .. }) => (*left, *end),
            None => return false,
        };

        if room == 0 && left > 0 {
            // Only a message comes here: a stream's receive is finished when it is full.
            let op = &mut self.rx.ops[index];
            op.finished = true;
            op.truncated = true;
            self.rx.discarding = true;
            return true;
        }

        let length = match self.rx.items.front_mut() {
            Some(Item::Data {
                slot, start, left, ..
            }) => {
                let length = room.min(*left);
                if length > 0 {
                    self.actions.push_back(Action::Copy {
                        op: number,
                        offset,
                        slot: *slot,
                        start: *start,
                        length,
                    });
                }
                *start += length;
                *left -= length;
                length
            }
            Some(Item::Source {
                number: source,
                address,
                key,
                left,
                ..
            }) => {
                let exposable = self.rx.ops[index].exposable;
                if !self.flow.may_rdma(&self.limits) || (!exposable && self.aside) {
                    return false;
                }

                let most = if exposable { self.limits.piece } else { ASIDE };
                let length = room.min(*left).min(most);
                self.flow.rdma_posts += 1;
                self.aside |= !exposable;
                self.posted.push_back(Posted::Read {
                    op: number,
                    source: *source,
                    aside: (!exposable).then_some((offset, length)),
                });

                self.actions.push_back(Action::Read {
                    op: number,
                    offset,
                    length,
                    address: *address,
                    key: *key,
                });

                *address += length;
                *left -= length;
                let index = (*source - self.rx.first_source) as usize;
                self.rx.sources[index].parts += 1;
                self.rx.ops[index_of(number, self.rx.first)].parts += 1;
                length
            }
            None => return false,
        };

        let exhausted = length == left;
        if exhausted {
            self.pop_front();
        } else if matches!(self.rx.items.front(), Some(Item::Source { .. })) {
            self.taken_in_part(length);
        }

        let next_is_data = matches!(self.rx.items.front(), Some(Item::Data { .. }));
        let op = &mut self.rx.ops[index];
        op.bound += length;
        if messages {
            op.end = exhausted && end;
            op.finished = op.end || (op.fill && op.bound == op.length);
        } else {
            // Like any stream: what is there, as far as it fits. A large transfer starts in a
            // buffer of its own.
            op.finished = op.bound == op.length || (exhausted && !op.fill && !next_is_data);
        }

        true
    }

    /// Bytes of a source have been given away, and others are left. Who closes does not wait for
    /// the end of that for ever, and has to see that it goes on; nobody else asks.
    fn taken_in_part(&mut self, length: u64) {
        if self.rx.fin || self.tx.stopped {
            self.rx.untold += length;
        }
    }

    /// The oldest item has been given away.
    fn pop_front(&mut self) {
        match self.rx.items.pop_front() {
            Some(Item::Data { slot, .. }) => {
                self.flow.data_freed();
                self.actions.push_back(Action::Repost { slot });
            }
            Some(Item::Source { number, .. }) => {
                // ReadDone tells of it.
                self.rx.untold = 0;
                let index = (number - self.rx.first_source) as usize;
                if let Some(source) = self.rx.sources.get_mut(index) {
                    source.bound = true;
                }
            }
            None => {}
        }
    }

    /// Drops the oldest item, of a message that was too large for its receive.
    fn drop_front(&mut self) {
        if let Some(Item::Data { end, .. } | Item::Source { end, .. }) = self.rx.items.front() {
            self.rx.discarding = !*end;
        }
        self.pop_front();
    }

    /// Drops all items: this end takes no more. Offers are not acknowledged; Stop says that they
    /// are refused.
    fn discard(&mut self) {
        while let Some(item) = self.rx.items.pop_front() {
            if let Item::Data { slot, .. } = item {
                self.flow.data_freed();
                self.actions.push_back(Action::Repost { slot });
            }
        }
    }

    pub(super) fn push_acknowledgements(&mut self) {
        while self
            .rx
            .sources
            .front()
            .is_some_and(|source| source.bound && source.parts == 0)
            && self.may_control()
        {
            self.rx.sources.pop_front();
            self.rx.first_source += 1;
            self.control(Header::new(Kind::ReadDone), None);
        }
        self.push_stop_ack();
    }

    /// Opens posted buffers to the peer, in order and as long as nothing is before them.
    pub(super) fn push_adverts(&mut self) {
        if !self.rx.items.is_empty()
            || !self.rx.large
            || self.rx.fin
            || self.rx.discarding
            || self.rx.reading != Reading::Open
        {
            return;
        }

        let Some(open) = self.rx.open() else { return };
        for index in open..self.rx.ops.len().min(open + ADVERTS) {
            let number = self.rx.first + index as u64;
            let op = &self.rx.ops[index];
            if op.advertised {
                continue;
            }

            let rest = op.length - op.bound;
            if !op.exposable || rest < ADVERT_LEAST || !self.may_control() {
                return;
            }

            let header = Header {
                fill: op.fill,
                length: rest,
                address: op.bound,
                items: self.rx.seen,
                ..Header::new(Kind::Advert)
            };

            self.rx.ops[index].advertised = true;
            self.control(header, Some(Expose::Sink(number)));
        }
    }
}
fn index_of(number: u64, first: u64) -> usize {
    (number - first) as usize
}
