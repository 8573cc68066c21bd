//! Credits and posts: how many messages may go out, and what to tell the peer about slots that are
//! free again.

use super::message::Header;
use super::{Limits, Violation};

/// Counts, all of them of this connection's whole life and modulo 2^16 where the wire has them so.
#[derive(Debug)]
pub(super) struct Flow {
    data_sent: u16,
    data_credited: u16,
    control_sent: u16,
    control_credited: u16,
    data_held: u16,
    data_freed: u16,
    data_announced: u16,
    control_freed: u16,
    control_announced: u16,
    own_data: u16,
    pub data_posts: usize,
    pub control_posts: usize,
    pub rdma_posts: usize,
}

impl Flow {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            data_sent: 0,
            data_credited: 0,
            control_sent: 0,
            control_credited: 0,
            data_held: 0,
            data_freed: 0,
            data_announced: 0,
            control_freed: 0,
            control_announced: 0,
            own_data: limits.own_data,
            data_posts: 0,
            control_posts: 0,
            rdma_posts: 0,
        }
    }

    fn data_out(&self) -> u16 {
        self.data_sent.wrapping_sub(self.data_credited)
    }

    fn control_out(&self) -> u16 {
        self.control_sent.wrapping_sub(self.control_credited)
    }

    pub(super) fn may_data(&self, limits: &Limits) -> bool {
        self.data_out() < limits.peer_data && self.data_posts < limits.data_posts
    }

    /// How many data messages may go out.
    pub(super) fn data_room(&self, limits: &Limits) -> u64 {
        let credit = usize::from(limits.peer_data.saturating_sub(self.data_out()));
        credit.min(limits.data_posts.saturating_sub(self.data_posts)) as u64
    }

    /// Room for a control message other than Credit.
    pub(super) fn may_control(&self, limits: &Limits) -> bool {
        self.control_out() + 1 < limits.peer_control
            && self.control_posts + 1 < limits.control_posts
    }

    pub(super) fn may_rdma(&self, limits: &Limits) -> bool {
        self.rdma_posts < limits.rdma_posts
    }

    /// Whether a Credit message is due, and may go.
    pub(super) fn must_tell(&self, limits: &Limits) -> bool {
        let due = self.data_freed.wrapping_sub(self.data_announced) >= limits.own_data / 2
            || self.control_freed.wrapping_sub(self.control_announced) >= limits.own_control / 2;
        due && self.control_out() < limits.peer_control && self.control_posts < limits.control_posts
    }

    pub(super) fn data_sent(&mut self, header: &mut Header) {
        self.data_sent = self.data_sent.wrapping_add(1);
        self.data_posts += 1;
        self.tell(header);
    }

    pub(super) fn control_sent(&mut self, header: &mut Header) {
        self.control_posts += 1;
        self.noticed(header);
    }

    /// A control message goes out as the immediate data of an RDMA WRITE: it takes a slot of the
    /// peer's and no post of its own.
    pub(super) fn noticed(&mut self, header: &mut Header) {
        self.control_sent = self.control_sent.wrapping_add(1);
        self.tell(header);
    }

    fn tell(&mut self, header: &mut Header) {
        self.data_announced = self.data_freed;
        self.control_announced = self.control_freed;
        header.data_credit = self.data_freed;
        header.control_credit = self.control_freed;
    }

    /// A message that came as immediate data, with its credits as any message has them.
    pub(super) fn widened(&self, header: Header) -> Header {
        Header {
            data_credit: Header::widened(header.data_credit, self.data_credited),
            control_credit: Header::widened(header.control_credit, self.control_credited),
            ..header
        }
    }

    /// Takes the credits of a message.
    pub(super) fn credited(&mut self, header: &Header) -> Result<(), Violation> {
        let data = header.data_credit.wrapping_sub(self.data_credited);
        let control = header.control_credit.wrapping_sub(self.control_credited);
        if data > self.data_out() || control > self.control_out() {
            return Err(Violation("credit for more than was sent"));
        }
        self.data_credited = header.data_credit;
        self.control_credited = header.control_credit;
        Ok(())
    }

    pub(super) fn data_arrived(&mut self) -> Result<(), Violation> {
        if self.full() {
            return Err(Violation("data without credit"));
        }
        self.data_held += 1;
        Ok(())
    }

    /// Whether all slots for data are taken.
    pub(super) fn full(&self) -> bool {
        self.data_held >= self.own_data
    }

    pub(super) fn data_freed(&mut self) {
        self.data_held -= 1;
        self.data_freed = self.data_freed.wrapping_add(1);
    }

    /// A control message arrived; its slot is free again at once.
    pub(super) fn control_arrived(&mut self) {
        self.control_freed = self.control_freed.wrapping_add(1);
    }
}
