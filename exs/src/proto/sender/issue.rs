//! What goes out next: as a message, written into an advertised buffer, or offered to be read.

use super::super::message::{Header, Kind};
use super::super::{Action, EAGER_SLOTS, Expose, Machine, Posted, SOURCES};
use super::Advert;

impl Machine {
    /// Issues what credits, adverts and posts allow.
    pub(in super::super) fn push_sends(&mut self) {
        while !self.tx.all_issued() && self.push_piece() {}
    }

    /// Issues one piece of the oldest send that has any left; false if that must wait.
    fn push_piece(&mut self) -> bool {
        let number = self.tx.next;
        let Some(op) = self.tx.op(number) else {
            return false;
        };

        let (left, offset, end, exposable) =
            (op.length - op.issued, op.issued, op.end, op.exposable);
        if self.tx.skipping {
            // The application is not told: as with any SOCK_SEQPACKET, the receiver is, by
            // MSG_TRUNC.
            self.moved(number, left);
            self.issue(number, left, 0);
            return true;
        }

        if left == 0 && !(self.limits.messages && end) {
            self.issue(number, 0, 0);
            return true;
        }

        let payload = self.limits.payload;
        let advert = self.tx.adverts.front().copied();
        match advert {
            Some(advert) if exposable && (left > payload || advert.filled > 0) => {
                self.push_write(number, offset, left, end, advert)
            }
            None if exposable && left > payload * EAGER_SLOTS => {
                self.push_source(number, offset, left, end)
            }
            _ => self.push_data(number, offset, left.min(payload), left, end),
        }
    }

    /// Books `length` bytes of an operation as issued, in `parts` posts.
    fn issue(&mut self, number: u64, length: u64, parts: u32) {
        let tx = &mut self.tx;
        if let Some(op) = tx.op(number) {
            op.issued += length;
            op.parts += parts;
            if op.issued == op.length {
                op.last_out = true;
                if op.end {
                    tx.skipping = false;
                }
                tx.next += 1;
            }
        }
    }

    fn moved(&mut self, number: u64, length: u64) {
        if let Some(op) = self.tx.op(number) {
            op.moved += length;
        }
    }

    fn push_write(
        &mut self,
        number: u64,
        offset: u64,
        left: u64,
        end: bool,
        advert: Advert,
    ) -> bool {
        if !self.may_control() || !self.flow.may_rdma(&self.limits) {
            return false;
        }

        let room = advert.length - advert.filled;
        let length = left.min(room).min(self.limits.piece);
        let last = length == left;
        let full = length == room;
        let truncated = self.limits.messages && full && room < left && !advert.fill;
        let consumed = if self.limits.messages {
            truncated || (last && end) || (full && advert.fill)
        } else {
            full || (last && !advert.fill)
        };

        let mut header = Header {
            end: last && end,
            consumed,
            truncated,
            length,
            ..Header::new(Kind::Written)
        };

        let immediate = (self.limits.immediates && length > 0).then(|| {
            self.flow.noticed(&mut header);
            header.immediate()
        });

        if length > 0 {
            self.flow.rdma_posts += 1;
            self.tx.writes += 1;
            self.posted.push_back(Posted::Write(number));
            self.actions.push_back(Action::Write {
                op: number,
                offset,
                length,
                address: advert.address + advert.filled,
                key: advert.key,
                immediate,
            });
        }

        if immediate.is_none() {
            self.control(header, None);
        }

        if consumed {
            self.tx.adverts.pop_front();
        } else if let Some(front) = self.tx.adverts.front_mut() {
            front.filled += length;
        }

        self.tx.skipping = truncated;
        self.moved(number, length);
        self.issue(number, length, u32::from(length > 0));
        true
    }

    fn push_source(&mut self, number: u64, offset: u64, left: u64, end: bool) -> bool {
        // While enough is under way, the next advert is worth waiting for: an offer would make
        // those on their way void.
        let under_way = self.tx.sources.len() + self.tx.writes;
        if under_way >= SOURCES || !self.may_control() {
            return false;
        }

        let header = Header {
            end,
            length: left,
            address: offset,
            ..Header::new(Kind::Source)
        };

        self.tx.items = self.tx.items.wrapping_add(1);
        self.tx.sources.push_back(number);
        self.control(header, Some(Expose::Source(number)));
        self.issue(number, left, 1);
        true
    }

    fn push_data(&mut self, number: u64, offset: u64, length: u64, left: u64, end: bool) -> bool {
        if !self.flow.may_data(&self.limits) {
            return false;
        }

        self.tx.adverts.clear();
        self.tx.items = self.tx.items.wrapping_add(1);
        let mut header = Header {
            end: end && length == left,
            length,
            ..Header::new(Kind::Data)
        };
        self.flow.data_sent(&mut header);
        self.posted.push_back(Posted::Data(number));
        self.actions.push_back(Action::Send {
            header,
            expose: None,
            payload: Some((number, offset)),
            immediate: self.limits.immediates.then(|| header.immediate()),
        });

        self.moved(number, length);
        self.issue(number, length, 1);
        true
    }
}
