//! Group `lint`, continued: what the documents point at is there.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::gate::tracked;
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Lab;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("lint/links", links)]
}

/// Every link of a document to a file of the repository, or to a heading, finds it. Addresses
/// elsewhere are not looked at.
fn links(lab: &mut Lab) -> Ending {
    let mut pages = Pages::default();
    let mut dead = Vec::new();
    for name in tracked(lab, "*.md")? {
        let file = build::workspace().join(&name);
        for link in pages.page(&file)?.links.clone() {
            if let Some(why) = pages.is_dead(&file, &link)? {
                dead.push(format!("{name}: {link}: {why}"));
            }
        }
    }

    if dead.is_empty() {
        return Ok(());
    }

    Err(Stop::fail(format!(
        "{} dead links\n{}",
        dead.len(),
        dead.join("\n")
    )))
}

/// What is asked of a document.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: Vec<String>,
}

#[derive(Default)]
struct Pages {
    read: HashMap<PathBuf, Page>,
}

impl Pages {
    fn page(&mut self, file: &Path) -> Result<&Page> {
        if !self.read.contains_key(file) {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            self.read.insert(file.to_path_buf(), Page::of(&text));
        }
        Ok(&self.read[file])
    }

    /// Why a link of a document leads nowhere, if so.
    fn is_dead(&mut self, from: &Path, link: &str) -> Result<Option<&'static str>> {
        if link.contains("://") || link.starts_with("mailto:") {
            return Ok(None);
        }

        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = match path {
            "" => from.to_path_buf(),
            path => from.parent().unwrap_or(Path::new("")).join(path),
        };
        if !target.exists() {
            return Ok(Some("no such file"));
        }

        let has_anchors = target.extension().is_some_and(|kind| kind == "md");
        if anchor.is_empty() || !has_anchors {
            return Ok(None);
        }

        let found = self.page(&target)?.anchors.iter().any(|a| a == anchor);
        Ok((!found).then_some("no such heading"))
    }
}

impl Page {
    fn of(text: &str) -> Page {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.anchors
                        .extend(heading.take().map(|text| anchor(&text)));
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }

        page
    }
}

/// How a heading is called in links, on the sites that show the documents.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter if letter.is_alphanumeric() => Some(letter),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_headings_are_found() {
        let text = "# The `shim`: how, why\n[a](b.md#c) ![d](e.png)\n\n| x |\n|---|\n| [f](#g) |\n\n```\n[not](this)\n```\n";
        let page = Page::of(text);
        assert_eq!(page.links, ["b.md#c", "e.png", "#g"]);
        assert_eq!(page.anchors, ["the-shim-how-why"]);
    }

    #[test]
    fn dead_links_are_told() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.md");
        fs::write(&file, "# Here\n").unwrap();
        let mut pages = Pages::default();
        let mut of = |link: &str| pages.is_dead(&file, link).unwrap();
        assert_eq!(of("https://example.org/x"), None);
        assert_eq!(of("a.md#here"), None);
        assert_eq!(of("#here"), None);
        assert_eq!(of("#there"), Some("no such heading"));
        assert_eq!(of("b.md"), Some("no such file"));
    }
}
