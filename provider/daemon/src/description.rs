//! What the device is called in management: `node_desc` shows it, and takes another.
//!
//! A program writes into the image's file. The shim has it append, as a program that reads the file
//! first, then goes back and writes something shorter (rdma-ndd does) would leave the end of the
//! old text there. So what follows the text that was shown is what was written; without the shim it
//! is the whole file.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

use crate::poller::{Poller, Token};
use crate::sysfs::NODE_DESC;

/// Bytes of a node description; whatever is written beyond is not looked at.
const LEN: usize = 64;

/// What the device is called.
#[derive(Debug)]
pub(crate) struct Description {
    text: String,
    /// What says that the file has been written; without it nobody may write.
    watch: Option<OwnedFd>,
}

impl Description {
    /// That of a device of this name, until somebody knows better: with the host's name before it.
    pub(crate) fn of(device: &str) -> Self {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        // The last of the bytes is zero.
        let text = cut(&format!("{host} {device}"), LEN - 1).to_owned();
        Self { text, watch: None }
    }

    /// It itself.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether programs may write another.
    pub(crate) fn is_writable(&self) -> bool {
        self.watch.is_some()
    }

    /// Has the kernel say when the file in this directory is written: from now on programs may.
    pub(crate) fn watch(&mut self, directory: &Path, poller: &Poller) -> io::Result<()> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&watch, directory, WatchFlags::CLOSE_WRITE)?;
        poller.add(&watch, Token::Description)?;
        self.watch = Some(watch);
        Ok(())
    }

    /// What somebody has written into the file, which has these contents.
    pub(crate) fn written(&self, contents: &[u8]) -> Option<String> {
        written(&self.text, contents)
    }

    /// The node has another one.
    pub(crate) fn change(&mut self, text: String) {
        self.text = text;
    }

    /// Whether the file was written since the last time.
    pub(crate) fn take(&self) -> bool {
        let Some(watch) = &self.watch else {
            return false;
        };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(watch, &mut buffer);
        let mut any = false;
        while let Ok(event) = events.next() {
            any |= (event.file_name()).is_some_and(|name| name.to_bytes() == NODE_DESC.as_bytes());
        }
        any
    }
}

/// What was written into a file that had `shown` and a newline; `None`: nothing.
fn written(shown: &str, contents: &[u8]) -> Option<String> {
    let before = contents.strip_prefix(shown.as_bytes());
    let text = before
        .and_then(|rest| rest.strip_prefix(b"\n"))
        .unwrap_or(contents);
    let text = text.split(|byte| *byte == 0).next().unwrap_or(text);
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = String::from_utf8_lossy(&text[..text.len().min(LEN)]);
    let text = cut(&text, LEN);
    (!text.is_empty()).then(|| text.to_owned())
}

/// The beginning of a text that is at most so many bytes long.
fn cut(text: &str, most: usize) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| *end <= most).last();
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_told_from_what_was_there() {
        let of = |contents: &str| written("host ferroce0", contents.as_bytes());
        // Appended, by who ends a line and who does not.
        for contents in ["host ferroce0\nhost", "host ferroce0\nhost\n", "host\n"] {
            assert_eq!(of(contents).as_deref(), Some("host"));
        }
        assert_eq!(of("host ferroce0\n"), None);
        assert_eq!(of(""), None);
        assert_eq!(of("\n"), None);
        assert_eq!(of("a\0b").as_deref(), Some("a"));
        assert_eq!(of(&"x".repeat(99)), Some("x".repeat(64)));
        assert_eq!(of(&"ä".repeat(99)), Some("ä".repeat(32)));
        assert!(written("a", &[0xff; 64]).is_some_and(|text| text.len() <= 64));
    }
}
