//! What the pages on trust say is so: each sentence is followed by the test that holds it, in
//! brackets, or by *untested*, and the tests are there. Read are all of `docs/threat-model.md`
//! below its first heading of a section, "What is promised" in `SECURITY.md`, and "Strangers" in
//! `docs/conformance/management.md`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use clap::CommandFactory;

use ferroce_system::build::workspace;
use ferroce_system::groups;

const UNTESTED: &str = "*untested*";

/// What can be cited.
struct Tree {
    cases: Vec<String>,
    /// Tests of `cargo test` and of the C programs, with the number of those that have the name.
    tests: HashMap<String, usize>,
    /// Files, by their paths from the workspace on; and whether there are tests in them.
    files: Vec<(String, bool)>,
}

impl Tree {
    fn read() -> Tree {
        let mut tree = Tree {
            cases: groups::names(),
            tests: HashMap::new(),
            files: Vec::new(),
        };
        tree.visit(workspace());
        tree
    }

    fn visit(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                self.visit(&path);
                continue;
            }
            let tests = match path.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => rust_tests(&fs::read_to_string(&path).unwrap()),
                Some("c") => c_tests(&fs::read_to_string(&path).unwrap()),
                _ => Vec::new(),
            };
            let place = path.strip_prefix(workspace()).unwrap().to_string_lossy();
            self.files.push((place.into_owned(), !tests.is_empty()));
            for test in tests {
                *self.tests.entry(test).or_default() += 1;
            }
        }
    }

    /// Whether a word is of something that tests, or why it is of nothing at all.
    fn resolve(&self, word: &str, is_target: bool) -> Result<bool, String> {
        let missing = |what: &str| Err(format!("there is no {what} `{word}`"));
        if is_target {
            let place = format!("tests/fuzz/targets/{word}.rs");
            return match self.files.iter().any(|(file, _)| *file == place) {
                true => Ok(true),
                false => missing("target"),
            };
        }
        if let Some(rest) = word.strip_prefix("cargo xtask ") {
            let name = rest.split(' ').next().unwrap_or_default();
            return match crate::Cli::command().find_subcommand(name) {
                Some(_) => Ok(true),
                None => missing("command"),
            };
        }
        let group = word.split('/').next().unwrap_or_default();
        let of_group = |name: &String| name.split('/').next() == Some(group);
        if self.cases.iter().any(of_group) {
            let last = word.rsplit('…').next().unwrap_or_default();
            if !last.contains(char::is_alphabetic) {
                return Err(format!("`{word}` may mean anything"));
            }
            return match self.cases.iter().any(|name| names(word, name)) {
                true => Ok(true),
                false => missing("case"),
            };
        }
        if word.contains(['/', '.']) {
            let below = |file: &str| {
                let rest = file.strip_prefix(word);
                let inside = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                inside || file.ends_with(&format!("/{word}"))
            };
            let mut found = self.files.iter().filter(|(file, _)| below(file)).peekable();
            return match found.peek() {
                Some(_) => Ok(found.any(|(_, tests)| *tests)),
                None => missing("file"),
            };
        }
        let found = match word.strip_suffix('…') {
            None => self.tests.get(word).copied().unwrap_or(0),
            Some(begin) => {
                let begun = self
                    .tests
                    .iter()
                    .filter(|(name, _)| name.starts_with(begin));
                begun.map(|(_, number)| number).sum()
            }
        };
        match found {
            0 => missing("test"),
            1 => Ok(true),
            many if word.ends_with('…') => Err(format!("`{word}` may mean {many} tests")),
            _ => Ok(true),
        }
    }

    /// Judges what stands in brackets: all that it names is there, and something of it tests.
    fn judge(&self, bracket: &str) -> Result<(), String> {
        let (mut tests, mut is_target) = (false, false);
        for (n, part) in bracket.split('`').enumerate() {
            if n % 2 == 1 {
                tests |= self.resolve(part, is_target)?;
            } else if part.contains("target") {
                is_target = true;
            } else if part.contains(';') {
                is_target = false;
            }
        }
        match tests {
            true => Ok(()),
            false => Err(format!("[{bracket}] names no test")),
        }
    }

    /// Judges a sentence: it ends in brackets or in *untested*.
    fn weigh(&self, sentence: &str) -> Result<(), String> {
        let mut open = None;
        for (at, letter, in_code) in letters(sentence) {
            match (letter, open) {
                ('[', None) if !in_code => open = Some(at + 1),
                (']', Some(from)) if !in_code => {
                    if !sentence[at + 1..].starts_with('(') {
                        self.judge(&sentence[from..at])?;
                    }
                    open = None;
                }
                _ => {}
            }
        }
        let end = sentence.trim_end_matches('.').trim_end();
        match end.ends_with(']') || end.ends_with(UNTESTED) {
            true => Ok(()),
            false => Err("neither a test nor *untested*".to_owned()),
        }
    }

    /// Judges sentences, all of them.
    fn weigh_all(&self, page: &str, sentences: &[String]) {
        let wrong: Vec<String> = sentences
            .iter()
            .filter_map(|sentence| Some((sentence, self.weigh(sentence).err()?)))
            .map(|(sentence, why)| format!("{why}: {sentence}"))
            .collect();
        assert!(wrong.is_empty(), "{page}:\n{}", wrong.join("\n"));
    }
}

/// `robust/…/x` in a page means every case whose name has the parts in this order.
fn names(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    let found = pattern.split('…').enumerate().all(|(n, part)| {
        let found = rest.find(part);
        let found = found.filter(|at| n > 0 || *at == 0);
        rest = found.map_or("", |at| &rest[at + part.len()..]);
        found.is_some()
    });
    found && (pattern.contains('…') || rest.is_empty())
}

/// Functions behind `#[test]`.
fn rust_tests(text: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim_start) {
        let function = line.strip_prefix("async ").unwrap_or(line);
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test]") {
            marked = true;
        } else if let Some(rest) = function.strip_prefix("fn ") {
            if std::mem::take(&mut marked) {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                tests.push(name.to_owned());
            }
        } else if !line.starts_with('#') && !line.starts_with("//") {
            marked = false;
        }
    }
    tests
}

/// Functions that a program has in its table.
fn c_tests(text: &str) -> Vec<String> {
    let functions = text
        .lines()
        .filter_map(|line| line.strip_prefix("static void "))
        .filter_map(|line| Some(line.split_once("(void)")?.0));
    let listed = |name: &&str| {
        [format!("T({name})"), format!(" {name}, ")]
            .iter()
            .any(|entry| text.contains(entry))
    };
    functions.filter(listed).map(str::to_owned).collect()
}

/// The letters of a text, and whether each is within backquotes.
fn letters(text: &str) -> impl Iterator<Item = (usize, char, bool)> {
    text.char_indices().scan(false, |in_code, (at, letter)| {
        *in_code ^= letter == '`';
        Some((at, letter, *in_code))
    })
}

/// The sentences of a text: a full stop outside of backquotes and brackets, and white space, come
/// between two.
fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut from, mut depth) = (0, 0);
    for (at, letter, in_code) in letters(text) {
        match letter {
            '[' if !in_code => depth += 1,
            ']' if !in_code => depth -= 1,
            '.' if !in_code && depth == 0 => {
                let rest = &text[at + 1..];
                if rest.starts_with(' ') || rest.is_empty() {
                    found.push(text[from..=at].trim().to_owned());
                    from = at + 1;
                }
            }
            _ => {}
        }
    }
    found.push(text[from..].trim().to_owned());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// The paragraphs, items and rows of a page below headings of sections that are wanted. Rows are
/// cut into cells, without the first one if there are more than two: it says what the row is about.
fn blocks(page: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut blocks: Vec<String> = vec![String::new()];
    let (mut inside, mut code) = (false, false);
    let mut lines = page.lines().map(str::trim_end).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            code = !code;
        } else if let Some(heading) = line.strip_prefix("## ") {
            inside = wanted(heading);
            blocks.push(String::new());
        } else if code || !inside {
        } else if let Some(row) = line.strip_prefix('|') {
            let is_head = lines.peek().is_some_and(|next| next.starts_with("|-"));
            if is_head || line.starts_with("|-") {
                continue;
            }
            let cells: Vec<&str> = row
                .trim_end_matches('|')
                .split(" | ")
                .map(str::trim)
                .collect();
            match cells.len() {
                2 => blocks.push(format!("{} [{}]", cells[0], cells[1])),
                _ => blocks.extend(cells[1..].iter().map(|cell| (*cell).to_owned())),
            }
            blocks.push(String::new());
        } else if line.is_empty() {
            blocks.push(String::new());
        } else if let Some(item) = line.strip_prefix("- ") {
            blocks.push(item.to_owned());
        } else if let Some(block) = blocks.last_mut() {
            block.push(' ');
            block.push_str(line.trim_start());
        }
    }
    blocks.retain(|block| !block.trim().is_empty());
    blocks
}

fn read(page: &str) -> String {
    fs::read_to_string(workspace().join(page)).unwrap()
}

fn sentences_of(page: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let blocks = blocks(&read(page), wanted);
    blocks.iter().flat_map(|block| sentences(block)).collect()
}

#[test]
fn every_sentence_of_the_threat_model_has_a_test_or_says_that_it_has_none() {
    let page = "docs/threat-model.md";
    let sentences = sentences_of(page, |_| true);
    assert!(sentences.len() > 40, "{sentences:#?}");
    Tree::read().weigh_all(page, &sentences);
}

#[test]
fn so_has_every_promise() {
    let page = "SECURITY.md";
    let sentences = sentences_of(page, |heading| heading == "What is promised");
    assert!(sentences.len() > 4, "{sentences:#?}");
    Tree::read().weigh_all(page, &sentences);
}

#[test]
fn what_strangers_cannot_do_is_tested() {
    let page = "docs/conformance/management.md";
    let rows: Vec<String> = blocks(&read(page), |heading| heading == "Strangers")
        .into_iter()
        .filter(|block| block.ends_with(']'))
        .collect();
    assert!(rows.len() > 4, "{rows:#?}");
    Tree::read().weigh_all(page, &rows);
}

#[test]
fn what_has_no_test_is_found() {
    let tree = Tree {
        cases: vec![
            "robust/one-daemon/noise".to_owned(),
            "robust/chaos".to_owned(),
        ],
        tests: [("it_holds".to_owned(), 1), ("it_is".to_owned(), 1)].into(),
        files: vec![
            ("tests/fuzz/targets/cm.rs".to_owned(), false),
            ("docs/page.md".to_owned(), false),
            ("a/tests.rs".to_owned(), true),
        ],
    };
    for good in [
        "It holds [`it_holds`].",
        "It holds; *untested*.",
        "Both do [`it_h…`], and [`robust/…/noise`; target `cm`; `it_holds`]",
        "It holds [`cargo xtask chaos`]",
        "It holds [`tests.rs`]",
        "It holds [`robust/chaos`, see `docs/page.md`]",
        "What [the page](docs/page.md) says holds [`robust/chaos`]",
    ] {
        assert_eq!(tree.weigh(good), Ok(()), "{good}");
    }
    for bad in [
        "It holds.",
        "It holds [`it_holds`], and more does.",
        "It holds [by hand].",
        "It holds [`robust/…`].",
        "It holds [`robust/…/`].",
        "It holds [`robust/one-daemon`].",
        "It holds [`robust/…/nothing`].",
        "It holds [`it_…`].",
        "It holds [`it_does_not`].",
        "It holds [`it_holds`, `it_does_not`].",
        "It holds [target `it_holds`].",
        "It holds [`cm`].",
        "It holds [`docs/page.md`].",
        "It holds [`cargo xtask chess`].",
        "It holds [`robust/nothing`], and more does; *untested*.",
        "See [the page](docs/page.md)",
    ] {
        assert!(tree.weigh(bad).is_err(), "{bad}");
    }
}

#[test]
fn pages_are_cut_into_sentences() {
    let page = "# Title\n\nNo claim.\n\n## One\n\nFirst, of 1.5 [`a. b`]. Second\ngoes on.\n- third. Fourth\n\
        ```\ncode.\n```\n## Two\n\n| a | b | c |\n|---|---|---|\n| who | is; so | does. More |\n";
    let cut = |wanted: &str| -> Vec<String> {
        let blocks = blocks(page, |heading| heading == wanted);
        blocks.iter().flat_map(|block| sentences(block)).collect()
    };
    assert_eq!(
        cut("One"),
        [
            "First, of 1.5 [`a. b`].",
            "Second goes on.",
            "third.",
            "Fourth"
        ]
    );
    assert_eq!(cut("Two"), ["is; so", "does.", "More"]);
}

#[test]
fn tests_are_told_from_other_functions() {
    let text = "#[test]\nfn one() {\n    fn inner() {}\n}\nfn two() {}\n    #[test]\n    // Why.\n    fn three(a in b) {}\n#[tokio::test]\nasync fn four() {}\nasync fn five() {}\n";
    assert_eq!(rust_tests(text), ["one", "three", "four"]);
    let text = "static void one(void)\nstatic void helper(void)\nstatic void two(void) { x(); }\nT(one), {\"2\", two, 0}";
    assert_eq!(c_tests(text), ["one", "two"]);
}
