//! What a consumer queues, and how much of it.

use crate::{PostError, Qp, QpState, QpType, SendRequest, Sge, send_queue};

impl Qp {
    /// Queues a send request. In ERR it is taken and flushed by the next
    /// [`transmit`](Self::transmit).
    ///
    /// # Errors
    /// Nothing was queued; see [`PostError`].
    pub fn post_send(&mut self, req: &SendRequest<'_>) -> Result<(), PostError> {
        self.accepts_sends()?;
        if self.sq.len() >= self.config.cap.max_send_wr as usize {
            return Err(PostError::QueueFull);
        }
        let len = send_queue::check(req, &self.config)?;
        self.sq.push(req, len);
        Ok(())
    }

    /// Whether the state takes send requests.
    ///
    /// # Errors
    /// [`PostError::BadState`].
    pub fn accepts_sends(&self) -> Result<(), PostError> {
        match self.attr.qp_state {
            QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err => Ok(()),
            state => Err(PostError::BadState(state)),
        }
    }

    /// Send requests that the queue still takes.
    pub fn send_room(&self) -> u32 {
        self.config
            .cap
            .max_send_wr
            .saturating_sub(self.sq.len() as u32)
    }

    /// Receive requests that the queue still takes.
    pub fn receive_room(&self) -> u32 {
        self.config
            .cap
            .max_recv_wr
            .saturating_sub(self.rq.len() as u32)
    }

    /// Send requests that were ever queued, modulo 2^32.
    pub fn sends_posted(&self) -> u32 {
        self.sq.end() as u32
    }

    /// Receive requests that were ever queued, modulo 2^32.
    pub fn receives_posted(&self) -> u32 {
        self.rq.end() as u32
    }

    /// Queues a receive request; allowed from INIT on. In ERR it is taken and flushed by the next
    /// [`transmit`](Self::transmit).
    ///
    /// # Errors
    /// Nothing was queued; see [`PostError`].
    pub fn post_recv(&mut self, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        self.accepts_receive(sges)?;
        if self.rq.len() >= self.config.cap.max_recv_wr as usize {
            return Err(PostError::QueueFull);
        }
        self.rq.push(wr_id, sges);
        Ok(())
    }

    /// Whether such a receive request can be queued, if there is room.
    ///
    /// # Errors
    /// What is against it, see [`PostError`].
    pub fn accepts_receive(&self, sges: &[Sge]) -> Result<(), PostError> {
        if self.config.srq || self.config.qp_type == QpType::XrcSend {
            return Err(PostError::HasSrq);
        }
        if self.attr.qp_state == QpState::Reset {
            return Err(PostError::BadState(QpState::Reset));
        }
        if sges.len() > self.config.cap.max_recv_sge as usize {
            return Err(PostError::TooManySges);
        }
        Ok(())
    }
}
