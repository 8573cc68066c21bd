//! A command's bytes: what is read from them, and how much of an answer there is room for. Sizes
//! and addresses in them are a program's word and are checked.

use rustix::io::Errno;
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::addr::Addr;
use super::channel::Caller;

/// A command on its way to be carried out.
pub(super) struct Command<'a> {
    /// The channel.
    pub channel: u64,
    /// The other channel, of `MIGRATE_ID`; 0: none.
    pub from: u64,
    /// What follows the head.
    pub body: &'a [u8],
    /// The value of an option.
    pub option: &'a [u8],
    /// Room for the answer, in bytes.
    pub room: usize,
    /// Who asks.
    pub caller: Caller,
}

pub(super) fn nothing((): ()) -> Vec<u8> {
    Vec::new()
}

pub(super) fn bytes(value: &(impl IntoBytes + Immutable)) -> Vec<u8> {
    value.as_bytes().to_vec()
}

/// As much of an answer as there is room for: libraries grow with their structures.
pub(super) fn cut(answer: &[u8], command: &Command<'_>) -> Vec<u8> {
    answer[..answer.len().min(command.room)].to_vec()
}

/// Milliseconds of a command, of which negative ones are none.
pub(super) fn millis(timeout: impl TryInto<u64>) -> Duration {
    Duration::from_millis(timeout.try_into().unwrap_or(0))
}

pub(super) fn parse<T: FromBytes>(command: &Command<'_>) -> Result<T, Errno> {
    T::read_from_prefix(command.body)
        .map(|(value, _)| value)
        .map_err(|_| Errno::INVAL)
}

/// Reads a structure of which old libraries send only the first `least` bytes; the rest is zeros.
pub(super) fn parse_from<T: FromBytes>(command: &Command<'_>, least: usize) -> Result<T, Errno> {
    if command.body.len() < least {
        return Err(Errno::INVAL);
    }
    let mut whole = vec![0; size_of::<T>()];
    let len = command.body.len().min(whole.len());
    whole[..len].copy_from_slice(&command.body[..len]);
    T::read_from_bytes(&whole).map_err(|_| Errno::INVAL)
}

pub(super) fn room<T>(command: &Command<'_>) -> Result<(), Errno> {
    at_least(command, size_of::<T>())
}

pub(super) fn at_least(command: &Command<'_>, len: usize) -> Result<(), Errno> {
    match command.room >= len {
        true => Ok(()),
        false => Err(Errno::NOSPC),
    }
}

/// An address that says how long it is.
pub(super) fn sized(bytes: &[u8], size: u16) -> Result<Addr, Errno> {
    let addr = Addr::parse(bytes).ok_or(Errno::INVAL)?;
    match size != 0 && addr.size() == size {
        true => Ok(addr),
        false => Err(Errno::INVAL),
    }
}
