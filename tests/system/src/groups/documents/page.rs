//! A document as its reader types it: the blocks between fences, taken apart where an empty line
//! stands, and the commands within sentences.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// What commands of ours begin with, where they stand in a sentence.
const OURS: [&str; 5] = ["ferroce ", "ferroce-ibta ", "cargo ", "eval ", "./"];
/// The language of what is typed into a shell.
pub(super) const SHELL: &str = "sh";

/// What a document has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub blocks: Vec<Block>,
    /// Commands within sentences, each once.
    pub inline: Vec<String>,
}

/// What is typed at once, or the whole of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// What stands behind the fence: `sh`, `yaml`; empty for figures.
    pub language: String,
    pub text: String,
}

impl Page {
    pub(super) fn read(file: &Path) -> Result<Page> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Ok(Page::of(&text))
    }

    fn of(text: &str) -> Page {
        let mut page = Page::default();
        let mut block: Option<Block> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    let (language, text) = (language.into_string(), String::new());
                    block = Some(Block { language, text });
                }
                Event::End(TagEnd::CodeBlock) => page.take(block.take()),
                Event::Text(text) => {
                    if let Some(block) = &mut block {
                        block.text.push_str(&text);
                    }
                }
                Event::Code(text) if OURS.iter().any(|ours| text.starts_with(ours)) => {
                    let text = text.into_string();
                    if !page.inline.contains(&text) {
                        page.inline.push(text);
                    }
                }
                _ => {}
            }
        }

        page
    }

    fn take(&mut self, block: Option<Block>) {
        let Some(block) = block else { return };
        if block.language != SHELL {
            self.blocks
                .extend((!block.language.is_empty()).then_some(block));
            return;
        }

        let paragraphs = block
            .text
            .split("\n\n")
            .filter(|text| !text.trim().is_empty());
        self.blocks.extend(paragraphs.map(|text| Block {
            language: block.language.clone(),
            text: text.trim_end().to_owned() + "\n",
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_apart_and_commands_found() {
        let text = "`cargo xtask x`, `ferroce`, `ferroce up` and `ferroce up`\n```sh\n# one\na &\nb\n\nc\n```\n\
             ```\nfigure\n```\n```yaml\nd:\n\n  e\n```\n";
        let page = Page::of(text);
        assert_eq!(page.inline, ["cargo xtask x", "ferroce up"]);
        let texts: Vec<_> = page
            .blocks
            .iter()
            .map(|block| block.text.as_str())
            .collect();
        assert_eq!(texts, ["# one\na &\nb\n", "c\n", "d:\n\n  e\n"]);
        assert_eq!(page.blocks[2].language, "yaml");
    }
}
