//! Paths put together without allocating.

use std::ffi::CStr;

/// A path put together on the stack.
pub(crate) struct PathBuffer {
    bytes: [u8; 512],
    len: usize,
}

impl PathBuffer {
    /// An empty path.
    pub(crate) fn new() -> Self {
        PathBuffer {
            bytes: [0; 512],
            len: 0,
        }
    }

    /// Appends; a path that grows too long stays too long.
    pub(crate) fn push(&mut self, part: &[u8]) {
        // One byte stays zero as the end.
        if let Some(room) = self
            .bytes
            .get_mut(self.len..self.len.saturating_add(part.len()))
            && self.len + part.len() < 512
        {
            room.copy_from_slice(part);
            self.len += part.len();
        } else {
            self.len = usize::MAX;
        }
    }

    /// Appends a decimal number.
    pub(crate) fn push_number(&mut self, mut value: u32) {
        let mut digits = [0; 10];
        let mut n = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
            n += 1;
            if value == 0 {
                break;
            }
        }
        if let Some(written) = digits.get(10 - n..) {
            self.push(written);
        }
    }

    /// The path, if it fitted.
    pub(crate) fn as_cstr(&self) -> Option<&CStr> {
        if self.len >= self.bytes.len() {
            return None;
        }
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together_and_overflow_is_seen() {
        let mut path = PathBuffer::new();
        path.push(b"/a/");
        path.push_number(0);
        path.push(b"/");
        path.push_number(4_294_967_295);
        assert_eq!(path.as_cstr(), Some(c"/a/0/4294967295"));
        path.push(&[b'x'; 600]);
        assert_eq!(path.as_cstr(), None);
        path.push(b"y");
        assert_eq!(path.as_cstr(), None);

        let mut full = PathBuffer::new();
        full.push(&[b'x'; 511]);
        assert_eq!(full.as_cstr().unwrap().to_bytes().len(), 511);
        full.push(b"y");
        assert_eq!(full.as_cstr(), None);
    }
}
