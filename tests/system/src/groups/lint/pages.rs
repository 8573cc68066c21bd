//! Group `lint`, continued: pages of the architecture stay short enough to be read, and tables are
//! those that programs go by.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Lab;
use crate::pages as tables;

/// The most words of a page, its figure included.
const MOST: usize = 800;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("lint/pages", pages),
        Case::new("lint/tables", |_| match &*tables::stale()? {
            [] => Ok(()),
            stale => Err(Stop::fail(stale.join("\n"))),
        }),
    ]
}

/// Each page of the architecture has a figure, and no more words than somebody reads at a time.
fn pages(_: &mut Lab) -> Ending {
    let docs = build::workspace().join("docs");
    let mut files = vec![docs.join("architecture.md")];
    files.extend(pages_in(&docs.join("architecture"))?);
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        wrong.extend(faults(&text).map(|fault| format!("{}: {fault}", file.display())));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Stop::fail(wrong.join("\n"))),
    }
}

fn pages_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let files: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    anyhow::ensure!(!files.is_empty(), "{}: no page", folder.display());
    Ok(files)
}

/// What is wrong with a page.
fn faults(text: &str) -> impl Iterator<Item = String> {
    let words = text.split_whitespace().count();
    let long = (words > MOST).then(|| format!("{words} words, where {MOST} is the most"));
    let bare = (!text.contains("\n```")).then(|| "there is no figure".to_owned());
    long.into_iter().chain(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pages_and_bare_ones_are_told() {
        let figure = "\n```\na -> b\n```\n";
        let page = |words: usize| "word ".repeat(words) + figure;
        let of = |text: &str| faults(text).collect::<Vec<_>>();
        // The figure has five words of its own.
        assert!(of(&page(MOST - 5)).is_empty());
        assert_eq!(of(&page(MOST - 4)), ["801 words, where 800 is the most"]);
        assert_eq!(of("a few words"), ["there is no figure"]);
    }
}
