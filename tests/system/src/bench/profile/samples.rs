//! What perf has sampled.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::package::command::output_of;

/// Where a thread was.
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) thread: u32,
    /// In seconds.
    pub(super) time: f64,
    /// From the innermost frame outwards. In a program only the first can be believed, as most are
    /// built without frame pointers.
    pub(super) frames: Vec<Frame>,
}

pub(super) struct Frame {
    /// In a file: from its beginning.
    pub(super) address: u64,
    pub(super) symbol: String,
    /// The file, or what perf calls it: `[kernel.kallsyms]`, `[vdso]`.
    pub(super) object: String,
}

impl Frame {
    /// Whether it is the kernel's.
    pub(super) fn is_kernel(&self) -> bool {
        self.object.starts_with("[kernel") || self.object.starts_with("[guest.kernel")
    }
}

/// The samples of a recording.
pub(super) fn read(file: &Path) -> Result<Vec<Sample>> {
    let mut perf = Command::new("perf");
    perf.args(["script", "-F", "comm,tid,time,ip,sym,dso", "-i"]);
    Ok(parse(&output_of(perf.arg(file))?))
}

/// Takes apart what `perf script` prints: of each sample a line with thread and time, then its
/// frames.
fn parse(text: &str) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for line in text.lines() {
        if let Some(frame) = frame(line) {
            if let Some(sample) = samples.last_mut() {
                sample.frames.push(frame);
            }
        } else if let Some(sample) = head(line) {
            samples.push(sample);
        }
    }
    samples.retain(|sample| !sample.frames.is_empty());
    samples
}

/// `ib_write_bw  1234  5678.901234:`; a thread's name may have blanks.
fn head(line: &str) -> Option<Sample> {
    let (rest, time) = line.trim_end().strip_suffix(':')?.rsplit_once(' ')?;
    let (name, thread) = rest.trim_end().rsplit_once(' ')?;
    Some(Sample {
        name: name.trim().to_owned(),
        thread: thread.parse().ok()?,
        time: time.parse().ok()?,
        frames: Vec::new(),
    })
}

/// `        12ab34 name of a function (/path/of/file)`.
fn frame(line: &str) -> Option<Frame> {
    let (address, rest) = line.strip_prefix('\t')?.trim_start().split_once(' ')?;
    let (symbol, object) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    Some(Frame {
        address: u64::from_str_radix(address, 16).ok()?,
        symbol: symbol.to_owned(),
        object: object.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_as_perf_prints_them() {
        let text = "\
ib_write_bw   123  5678.901234: \n\
\tffffffff8124915a copy_to_iter ([kernel.kallsyms])\n\
\tffffffff8124915b __x64_sys_recvmsg ([kernel.kallsyms])\n\
\n\
a thread's      7     1.5:\n\
\t           88453 <a::B as c::D>::e (f) (/lib/x y.so)\n\
\n\
empty     8     2.5:\n\
\n";
        let samples = parse(text);
        assert_eq!(samples.len(), 2, "one without frames tells nothing");
        assert_eq!((samples[0].thread, samples[0].time), (123, 5_678.901_234));
        assert_eq!(samples[0].frames[1].symbol, "__x64_sys_recvmsg");
        assert!(samples[0].frames[0].is_kernel());
        let frame = &samples[1].frames[0];
        assert_eq!(samples[1].name, "a thread's");
        assert_eq!((frame.address, &*frame.object), (0x88453, "/lib/x y.so"));
        assert_eq!(frame.symbol, "<a::B as c::D>::e (f)");
        assert!(!frame.is_kernel());
    }
}
