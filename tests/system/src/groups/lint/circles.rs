//! Group `lint`, continued: files of a crate that import each other in a circle can only be
//! understood together. None is larger than those that are there.
//!
//! What counts is what a file names of others by `crate::`, `super::` or a module of its own, tests
//! excepted. That a module gives on what its own modules have is no import, and who takes it from
//! there imports the file that has it. Who takes all of a module (`use crate::*`) imports every
//! file that it gives anything on of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Lab;

/// The most files of a circle.
const MOST: usize = 4;
const CRATES: &[&str] = &[
    "cabi",
    "exs",
    "provider/control",
    "provider/daemon",
    "provider/engine",
    "provider/fabric",
    "provider/transport",
    "provider/wire",
    "rdma-core-plugin/provider",
    "rdma-core-plugin/shim",
    "tests/system",
    "tools/ferroce",
    "tools/ibta",
    "tools/sim",
    "tools/xtask",
];

/// The names on the way from the crate to a module.
type Module = Vec<String>;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("lint/circles", circles)]
}

fn circles(_: &mut Lab) -> Ending {
    let mut wrong = Vec::new();
    for name in CRATES {
        let sources = sources(&build::workspace().join(name).join("src"))?;
        for circle in all_circles(&imports(&sources)) {
            if circle.len() > MOST {
                let files: Vec<_> = circle.iter().map(|module| module.join("/")).collect();
                wrong.push(format!(
                    "{name}: {} files import each other in a circle, where {MOST} is the most: {}",
                    files.len(),
                    files.join(", "),
                ));
            }
        }
    }

    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Stop::fail(wrong.join("\n"))),
    }
}

/// The modules of a crate with their text, tests excepted.
fn sources(root: &Path) -> Result<BTreeMap<Module, String>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(root.to_owned(), Module::new())];
    while let Some((folder, module)) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else {
                continue;
            };
            if stem == "tests" || stem.ends_with("_tests") {
                continue;
            }

            let inner = || module.iter().cloned().chain([stem.to_owned()]).collect();
            if path.is_dir() {
                folders.push((path.clone(), inner()));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                let module = match stem {
                    "lib" | "main" | "mod" => module.clone(),
                    _ => inner(),
                };
                found.insert(module, code(&text));
            }
        }
    }

    Ok(found)
}

/// The text up to its tests, without comments and what is in quotation marks.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let text: String = text.split('"').step_by(2).collect();
    // How far a name is seen is no import: `pub(in crate::port)`.
    let mut parts = text.split("pub(in ");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |before, part| {
        before + part.split_once(')').map_or(part, |(_, after)| after)
    })
}

/// Which modules each one names.
fn imports(sources: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let given_on: Given<'_> = sources
        .iter()
        .map(|(module, text)| (module, given_on(sources, module, text)))
        .collect();

    let of = |(module, text): (&Module, &String)| {
        let named = paths(text).into_iter().filter_map(|(public, path)| {
            let path = absolute(sources, module, &path)?;
            let own = path.starts_with(module) && file(sources, &path).len() > module.len();
            (!(public && own)).then_some(path)
        });
        let files = named.flat_map(|path| origins(sources, &given_on, &path));
        // The crate's own file is the list of its modules.
        let others = files.filter(|file| file != module && !file.is_empty());
        (module.clone(), others.collect())
    };

    sources.iter().map(of).collect()
}

/// What each module gives on of others, each by the path where it is.
type Given<'a> = BTreeMap<&'a Module, Vec<Module>>;

fn given_on(sources: &BTreeMap<Module, String>, module: &Module, text: &str) -> Vec<Module> {
    let public = paths(text).into_iter().filter(|(public, _)| *public);
    public
        .filter_map(|(_, path)| absolute(sources, module, &path))
        .collect()
}

/// The files that have what a path leads to, which another may give on.
fn origins(
    sources: &BTreeMap<Module, String>,
    given_on: &Given<'_>,
    path: &[String],
) -> Vec<Module> {
    let first = file(sources, path);
    let Some(item) = path.get(first.len()) else {
        return vec![first];
    };

    let given = &given_on[&first];
    if item == ALL {
        let of = given.iter().map(|path| file(sources, path));
        return of.chain([first.clone()]).collect();
    }

    let by_name = given.iter().find(|path| path.last() == Some(item));
    let among_all = || {
        given.iter().find(|path| {
            path.last().is_some_and(|last| last == ALL)
                && defines(&sources[&file(sources, path)], item)
        })
    };

    match by_name.or_else(among_all) {
        Some(path) => vec![file(sources, path)],
        None => vec![first],
    }
}

/// The end of a path to all that a module has.
const ALL: &str = "*";

/// Whether a text defines something of this name.
fn defines(text: &str, name: &str) -> bool {
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let mut before = "";
    words.any(|word| {
        let kind = std::mem::replace(&mut before, word);
        word == name
            && matches!(
                kind,
                "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" | "fn"
            )
    })
}

/// The longest part of a path that is a file.
fn file(sources: &BTreeMap<Module, String>, path: &[String]) -> Module {
    let longest = (0..=path.len())
        .rev()
        .find(|n| sources.contains_key(&path[..*n]));
    path[..longest.unwrap_or(0)].to_vec()
}

/// The path from the crate on; `None` if it leads elsewhere.
fn absolute(
    sources: &BTreeMap<Module, String>,
    module: &Module,
    path: &[String],
) -> Option<Module> {
    let mut from = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (from, rest) = (Module::new(), &path[1..]),
        "self" | "super" => {
            while let Some("self" | "super") = rest.first().map(String::as_str) {
                if rest[0] == "super" {
                    from.pop();
                }
                rest = &rest[1..];
            }
        }
        first => {
            let child: Module = module.iter().cloned().chain([first.to_owned()]).collect();
            if !sources.contains_key(&child) {
                return None;
            }
        }
    }

    from.extend(rest.iter().cloned());
    Some(from)
}

/// All paths that are named in a text, and whether they are given on.
fn paths(text: &str) -> Vec<(bool, Module)> {
    let mut found = Vec::new();
    for statement in text.split_inclusive([';', '{', '}']) {
        let begins = |word: &str| statement.trim_start().starts_with(word);
        if begins("use ") || begins("pub") && statement.contains(" use ") {
            continue;
        }
        for word in statement.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let path: Module = word.split("::").map(str::to_owned).collect();
            // A word alone says how far a name is seen: `pub(super)`.
            if path.len() > 1 && matches!(path[0].as_str(), "crate" | "self" | "super") {
                found.push((false, path));
            }
        }
    }

    for part in text.split(';') {
        let Some((before, tree)) = part.split_once("use ") else {
            continue;
        };
        let line = before.rsplit('\n').next().unwrap_or("");
        if line.trim().is_empty() || line.trim_start().starts_with("pub") {
            let public = line.contains("pub");
            found.extend(leaves(tree).into_iter().map(|path| (public, path)));
        }
    }

    found
}

/// The paths of a tree of imports.
fn leaves(tree: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let mut prefixes = vec![Module::new()];
    let mut path = Module::new();
    let mut word = String::new();
    for c in tree.chars().chain([',']) {
        match c {
            ':' | '{' | ',' | '}' => {
                let name = word.split(" as ").next().unwrap_or("").trim().to_owned();
                path.extend(Some(name).filter(|name| !name.is_empty()));
                word.clear();
                if c == '{' {
                    prefixes.push(path.clone());
                } else if c != ':' {
                    let prefix = prefixes.last().cloned().unwrap_or_default();
                    if path.len() > prefix.len() {
                        found.push(path);
                    }
                    if c == '}' {
                        prefixes.pop();
                    }
                    path = prefixes.last().cloned().unwrap_or_default();
                }
            }
            c => word.push(c),
        }
    }

    found
}

/// The sets of modules of which each leads to each.
fn all_circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|from| {
            let mut seen = BTreeSet::new();
            let mut next: Vec<&Module> = imports[from].iter().collect();
            while let Some(module) = next.pop() {
                if seen.insert(module) {
                    next.extend(&imports[module]);
                }
            }
            (from, seen)
        })
        .collect();

    let circle = |from: &Module| -> BTreeSet<Module> {
        let back = |to: &&&Module| reach[**to].contains(from);
        reach[from]
            .iter()
            .filter(back)
            .map(|to| (*to).clone())
            .collect()
    };

    let all: BTreeSet<_> = reach.keys().map(|from| circle(from)).collect();
    all.into_iter().filter(|circle| circle.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let module = |name: &str| -> Module {
            let names = name.split('/').filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        };
        let sources = files
            .iter()
            .map(|(name, text)| (module(name), code(text)))
            .collect();
        let names = |circle: BTreeSet<Module>| circle.iter().map(|m| m.join("/")).collect();
        all_circles(&imports(&sources))
            .into_iter()
            .map(names)
            .collect()
    }

    #[test]
    fn circles_are_found_and_nothing_else() {
        let files = [
            ("", "pub use a::A;"),
            ("a", "use crate::{\n    b::{self, B},\n    d,\n};"),
            (
                "b",
                "pub(crate) use c::C;\n// use crate::d::D;\nfn f() { super::a::g() }",
            ),
            ("b/c", "pub struct C;"),
            (
                "d",
                "use crate::b::C;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}",
            ),
        ];

        // d takes C from b, but it is c's; what b gives on of c's it does not import.
        assert_eq!(of(&files), [["a", "b"]]);
    }

    #[test]
    fn who_takes_all_takes_it_from_every_file_that_has_any() {
        let files = [
            ("", "pub use a::*;\npub use b::{self, B};"),
            ("a", "pub struct A;\nfn f() { crate::c::f() }"),
            ("b", "pub struct B;\nuse crate::d;"),
            ("c", "use crate::A;"),
            ("d", "use crate::*;"),
        ];
        assert_eq!(of(&files), [["a", "c"], ["b", "d"]]);
        let hidden = [
            ("", "pub use a::*;"),
            ("a", "use crate::b;"),
            ("b", "use crate::*;"),
        ];
        assert_eq!(of(&hidden), [["a", "b"]]);
    }

    #[test]
    fn two_circles_that_share_a_file_are_one() {
        let files = [
            ("", ""),
            ("a", "use super::b;"),
            ("b", "use crate::a;\nuse crate::c;"),
            ("c", "const C: u8 = crate::b::B;"),
        ];
        assert_eq!(of(&files), [["a", "b", "c"]]);
    }
}
