//! A host without memory, for what is only about time or numbers.

use ferroce_transport::{
    Access, Completion, Flush, Host, MemoryError, PathSignal, QpEvent, RecvWqe, Sge, WindowBind,
};
use ferroce_wire::Octets;

/// Agrees to everything and does nothing.
#[derive(Debug, Default)]
pub struct Nothing {
    /// Send completions.
    pub completions: u64,
}

impl Host for Nothing {
    fn check_remote(&mut self, _: u32, _: u64, _: u64, _: Access) -> Result<(), MemoryError> {
        Ok(())
    }
    fn write_remote(&mut self, _: u32, _: u64, _: Octets<'_>) -> Result<(), MemoryError> {
        Ok(())
    }
    fn compare_swap(&mut self, _: u32, _: u64, _: u64, _: u64) -> Result<u64, MemoryError> {
        Ok(0)
    }
    fn fetch_add(&mut self, _: u32, _: u64, _: u64) -> Result<u64, MemoryError> {
        Ok(0)
    }
    fn write_word(&mut self, _: u32, _: u64, _: [u8; 8]) -> Result<(), MemoryError> {
        Ok(())
    }
    fn flush_remote(&mut self, _: &Flush) -> Result<(), MemoryError> {
        Ok(())
    }
    fn invalidate_remote(&mut self, _: u32) -> Result<(), MemoryError> {
        Ok(())
    }
    fn invalidate_local(&mut self, _: u32) -> Result<(), MemoryError> {
        Ok(())
    }
    fn bind_window(&mut self, _: &WindowBind) -> Result<(), MemoryError> {
        Ok(())
    }
    fn select_srq(&mut self, _: u32) -> Result<(), MemoryError> {
        Ok(())
    }
    fn check_local(&mut self, _: &[Sge], _: Access) -> Result<(), MemoryError> {
        Ok(())
    }
    fn scatter(&mut self, _: &[Sge], _: u32, _: Octets<'_>) -> Result<(), MemoryError> {
        Ok(())
    }
    fn scatter_received(&mut self, _: &[Sge], _: u32, _: Octets<'_>) -> Result<(), MemoryError> {
        Ok(())
    }
    fn take_srq(&mut self) -> Option<RecvWqe> {
        None
    }
    fn complete_send(&mut self, _: Completion) {
        self.completions += 1;
    }
    fn complete_recv(&mut self, _: Completion) {}
    fn event(&mut self, _: QpEvent) {}
    fn path_signal(&mut self, _: PathSignal) {}
}
