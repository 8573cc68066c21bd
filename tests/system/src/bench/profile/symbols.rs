//! Which function, in which source file, an address of the product is of, functions that the
//! compiler has put into others included: binutils' `addr2line` reads that from the line tables
//! that a release build has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{Seek, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::samples::Sample;
use crate::package::command::output_of;

/// A function and its source file.
pub(super) type Place = (String, String);

/// What has been found so far, by object and address.
#[derive(Default)]
pub(super) struct Symbols(HashMap<String, HashMap<u64, Vec<Place>>>);

impl Symbols {
    /// The function at an address, then what it was put into.
    pub(super) fn places(&self, object: &str, address: u64) -> &[Place] {
        let known = self.0.get(object);
        let places = known.and_then(|places| places.get(&address));
        places.map_or(&[], Vec::as_slice)
    }

    /// Finds what is not known yet of where the samples are, in what we have built.
    pub(super) fn look_up(&mut self, samples: &[&Sample]) -> Result<()> {
        let mut wanted: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for frame in samples.iter().filter_map(|sample| sample.frames.first()) {
            let object = frame.object.as_str();
            let is_ours = object.contains("ferroce") || object.contains("libexs");
            if is_ours && self.places(object, frame.address).is_empty() {
                wanted.entry(object).or_default().insert(frame.address);
            }
        }
        for (object, addresses) in wanted {
            self.ask(object, &addresses)
                .with_context(|| format!("addresses of {object}"))?;
        }
        Ok(())
    }

    fn ask(&mut self, object: &str, addresses: &BTreeSet<u64>) -> Result<()> {
        let segments = segments(&output_of(Command::new("readelf").arg("-lW").arg(object))?);
        let mut input: File = tempfile::tempfile()?;
        let mut asked = HashMap::new();
        for address in addresses {
            let place = place(&segments, *address);
            asked.insert(place, *address);
            writeln!(input, "{place:#x}")?;
        }
        input.rewind()?;
        let mut command = Command::new("addr2line");
        command.args(["-a", "-i", "-f", "-C", "-e", object]);
        let text = output_of(command.stdin(Stdio::from(input)))?;

        let known = self.0.entry(object.to_owned()).or_default();
        let mut lines = text.lines();
        let mut address = 0;
        while let Some(line) = lines.next() {
            if let Some(digits) = line.strip_prefix("0x") {
                let asked = asked.get(&u64::from_str_radix(digits, 16)?);
                address = *asked.context("an answer to no question")?;
                continue;
            }
            let file = lines.next().unwrap_or_default();
            let places = known.entry(address).or_default();
            places.push((line.to_owned(), file.to_owned()));
        }
        Ok(())
    }
}

/// Where a part of a file is in memory: its begin and length in the file, and its address.
type Segment = [u64; 3];

/// The segments that are loaded, as `readelf -l` prints them: type, offset, address, physical
/// address, size in the file.
fn segments(text: &str) -> Vec<Segment> {
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let rows = text.lines().map(|line| line.split_whitespace());
    rows.filter_map(|mut words| {
        if words.next()? != "LOAD" {
            return None;
        }
        let [offset, address, _, size] = [(); 4].map(|()| words.next().and_then(number));
        Some([offset?, size?, address?])
    })
    .collect()
}

/// The address that a place in the file is loaded at.
fn place(segments: &[Segment], offset: u64) -> u64 {
    let inside = |[begin, length, _]: &&Segment| (*begin..begin + length).contains(&offset);
    let segment = segments.iter().find(inside);
    segment.map_or(offset, |[begin, _, address]| offset - begin + address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_as_readelf_prints_them() {
        let text = "
  Type           Offset   VirtAddr           PhysAddr           FileSiz  MemSiz   Flg Align
  PHDR           0x000040 0x0000000000000040 0x0000000000000040 0x000268 0x000268 R   0x8
  LOAD           0x000000 0x0000000000000000 0x0000000000000000 0x078930 0x078930 R   0x1000
  LOAD           0x078930 0x0000000000079930 0x0000000000079930 0x181860 0x181860 R E 0x1000
";
        let segments = segments(text);
        assert_eq!(segments.len(), 2);
        assert_eq!(place(&segments, 0x123), 0x123);
        assert_eq!(place(&segments, 0x88453), 0x89453);
    }
}
