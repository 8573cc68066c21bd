//! How the targets' inputs are put together.

use ferroce_cabi::ucma_frame::{self, Request};
use zerocopy::IntoBytes;

/// A step of those targets that cut their input up themselves: what, of what, so many bytes.
pub(crate) fn step(what: u8, which: u8, bytes: &[u8]) -> Vec<u8> {
    let [low, high] = u16::try_from(bytes.len()).unwrap().to_le_bytes();
    [&[what, which, low, high], bytes].concat()
}

/// The same with one byte of length.
pub(crate) fn short_step(what: u8, which: u8, bytes: &[u8]) -> Vec<u8> {
    [&[what, which, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// A frame, as a step of the targets of frames.
pub(crate) fn frame(head: Request, command: &[u8], option: &[u8]) -> Vec<u8> {
    let head = Request {
        version: ucma_frame::VERSION,
        command_len: command.len() as u32,
        option_len: option.len() as u32,
        ..head
    };
    step(0, 0, &[head.as_bytes(), command, option].concat())
}

/// Bytes of which the crate `arbitrary` makes what is wanted, value by value.
#[derive(Clone, Default)]
pub(crate) struct Wanted(Vec<u8>);

impl Wanted {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A variant of an enum with so many.
    pub(crate) fn variant(self, which: u32, of: u32) -> Self {
        let word = ((u64::from(which) << 32).div_ceil(u64::from(of))) as u32;
        self.number(word.to_le_bytes())
    }

    /// A number, lowest byte first; also an array of bytes.
    pub(crate) fn number<const N: usize>(mut self, bytes: [u8; N]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// A byte.
    pub(crate) fn byte(self, byte: u8) -> Self {
        self.number([byte])
    }

    /// A truth value; also what stands before the value of an option.
    pub(crate) fn flag(self, on: bool) -> Self {
        self.byte(on.into())
    }

    /// A vector of bytes.
    pub(crate) fn vector(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes.iter().flat_map(|byte| [1, *byte]));
        self.byte(0)
    }

    /// Bytes to the end.
    pub(crate) fn rest(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// The input. Targets end before they take the last step to be one.
    pub(crate) fn done(mut self) -> Vec<u8> {
        self.0.extend([0; 2]);
        self.0
    }
}
