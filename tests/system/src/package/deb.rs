//! Packages for Debian and its kin, by dpkg's own tools: what a package depends on is what
//! dpkg-shlibdeps reads in its files, and the symbols of libexs are dpkg-gensymbols'.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::command::{done, output_of};
use super::files::{File, Layout, Part};
use super::list::{self, PACKAGES, Package};
use super::{Work, debug, maintainer, python, readable, write};
use crate::build;
use crate::install;
use crate::portable;

/// The version, with a revision of the package itself.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-1");
/// Debian's name of the architecture that is built for.
const ARCHITECTURE: &str = "amd64";
/// The source package, of which there is none.
const SOURCE: &str = "ferroce";
/// The C library's package.
const LIBC: &str = "libc6";
/// What lintian takes for an error, and why it is none here.
const OVERRIDES: &str = "\
# The project has no mailing address: who publishes packages sets DEBFULLNAME and DEBEMAIL.
bogus-mail-host *
# CDI's YAML is read by a translation of libyaml into Rust, which Debian has not.
embedded-library libyaml *
";

/// Makes all of them, each with its debug symbols.
pub(super) fn make(work: &Work<'_>) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    for package in PACKAGES {
        let tree = Tree::new(work, package)?;
        made.push(tree.package()?);
        made.extend(tree.symbols()?);
    }
    Ok(made)
}

/// A package's file system.
struct Tree<'a> {
    work: &'a Work<'a>,
    package: &'a Package,
    files: Vec<&'a File>,
    root: PathBuf,
}

impl<'a> Tree<'a> {
    fn new(work: &'a Work<'a>, package: &'a Package) -> Result<Tree<'a>> {
        let files = work.files.iter().filter(|file| file.part == package.part);
        Ok(Tree {
            work,
            package,
            files: files.collect(),
            root: work.fresh(&format!("deb/{}", package.deb))?,
        })
    }

    fn package(&self) -> Result<PathBuf> {
        let layout = Layout::debian();
        for file in &self.files {
            install::put_all(std::slice::from_ref(*file), &layout, &self.root.join("usr"))?;
        }
        self.compress_pages()?;
        self.documents()?;

        let mut control = self.control()?;
        match self.package.part {
            Part::Exs => self.library()?,
            Part::Python => python::scripts(self.package.deb, &self.root.join("DEBIAN"))?,
            _ => {}
        }
        control += &format!("Installed-Size: {}\n", kilobytes(&self.root)?);
        control += &self.words();
        build(self.work, &self.root, &control, self.package.deb, 6)
    }

    /// As Debian's policy wants them.
    fn compress_pages(&self) -> Result<()> {
        let manual = self.root.join("usr/share/man");
        let mut pages = Vec::new();
        if manual.exists() {
            for section in fs::read_dir(&manual)? {
                for page in fs::read_dir(section?.path())? {
                    pages.push(page?.path());
                }
            }
        }
        self.work.gzip(&pages)
    }

    /// Licence and changes, and what lintian is told.
    fn documents(&self) -> Result<()> {
        let name = self.package.deb;
        let documents = self.root.join("usr/share/doc").join(name);
        let workspace = build::workspace();
        let licence = fs::read_to_string(workspace.join("LICENSE-MIT")).context("LICENSE-MIT")?;
        write(&documents.join("copyright"), &copyright(&licence))?;

        let changes = documents.join("changelog");
        fs::create_dir_all(&documents)?;
        let text = fs::read_to_string(workspace.join("CHANGELOG.md")).context("CHANGELOG.md")?;
        write(&changes, &text)?;
        let debian = documents.join("changelog.Debian");
        write(&debian, &changelog(self.work)?)?;
        self.work.gzip(&[changes, debian])?;
        write(
            &self.root.join("usr/share/lintian/overrides").join(name),
            OVERRIDES,
        )
    }

    /// The fields that say what the package is and what it needs.
    fn control(&self) -> Result<String> {
        let package = self.package;
        let mut depends = self.libraries()?;
        depends.extend(package.with.iter().map(|&part| {
            let other = list::of(part).deb;
            format!("{other} (= {VERSION})")
        }));
        depends.extend(package.depends.deb.iter().map(|&other| other.to_owned()));

        let mut control = head(package.deb, package.section);
        let lists = [
            ("Depends", depends.join(", ")),
            ("Recommends", package.recommends.deb.join(", ")),
            ("Suggests", package.suggests.deb.join(", ")),
        ];
        for (field, others) in lists.iter().filter(|(_, others)| !others.is_empty()) {
            control += &format!("{field}: {others}\n");
        }
        if package.beside_others {
            control += "Multi-Arch: same\n";
        }
        Ok(control)
    }

    /// What the programs and libraries are linked with, as packages.
    fn libraries(&self) -> Result<Vec<String>> {
        let binaries: Vec<&Path> = self.files.iter().filter_map(|file| file.binary()).collect();
        if binaries.is_empty() {
            return Ok(Vec::new());
        }

        let mut shlibdeps = Command::new("dpkg-shlibdeps");
        shlibdeps
            .args(["-O", "--warnings=0"])
            .args(&binaries)
            .current_dir(self.sources()?);
        let said = output_of(&mut shlibdeps)?;
        let depends = said
            .lines()
            .find_map(|line| line.strip_prefix("shlibs:Depends="));
        let depends = depends.context("dpkg-shlibdeps names no package")?;

        // It goes by the glibc of this machine, which has symbols in other libraries, and weak ones
        // that may be missing. What the dynamic linker will ask for is in the files.
        let mut newest = (2, 5);
        for binary in binaries {
            newest = newest.max(portable::newest_glibc(binary)?);
        }
        let libc = format!("{LIBC} (>= {}.{})", newest.0, newest.1);
        let named = |package: &&str| package.split(' ').next() != Some(LIBC);
        let others = depends.split(", ").filter(named).map(str::to_owned);
        Ok(std::iter::once(libc).chain(others).collect())
    }

    /// What dpkg tells programs that are linked with a library, and the dynamic linker of it.
    fn library(&self) -> Result<()> {
        let control = self.root.join("DEBIAN");
        fs::create_dir_all(&control)?;
        let name = self.package.deb;
        let symbols = control.join("symbols");
        let mut gensymbols = Command::new("dpkg-gensymbols");
        gensymbols
            .arg(format!("-p{name}"))
            .arg(format!("-v{}", env!("CARGO_PKG_VERSION")))
            .arg(format!("-P{}", self.root.display()))
            .arg(format!("-O{}", symbols.display()))
            .current_dir(self.sources()?);
        done(&mut gensymbols)?;

        let (soname, number) = build::EXS_SONAME.split_once(".so.").unwrap_or_default();
        write(
            &control.join("shlibs"),
            &format!("{soname} {number} {name}\n"),
        )?;
        write(&control.join("triggers"), "activate-noawait ldconfig\n")
    }

    /// What dpkg's tools expect of where a package is made.
    fn sources(&self) -> Result<PathBuf> {
        let dir = self.work.fresh("deb/sources")?;
        let mut control = format!("Source: {SOURCE}\n");
        for package in PACKAGES {
            control += &format!("\nPackage: {}\nArchitecture: any\n", package.deb);
        }
        write(&dir.join("debian/control"), &control)?;
        write(&dir.join("debian/changelog"), &changelog(self.work)?)?;
        Ok(dir)
    }

    /// The description, as it is formatted in control files.
    fn words(&self) -> String {
        let paragraphs = self.package.description.iter().map(|text| wrapped(text));
        let paragraphs: Vec<String> = paragraphs.collect();
        format!(
            "Description: {}\n{}",
            self.package.summary,
            paragraphs.join(" .\n")
        )
    }

    /// The package of what was taken off the programs and libraries, if there are any.
    fn symbols(&self) -> Result<Option<PathBuf>> {
        let mut symbols = self.work.symbols.of(self.package.part).peekable();
        if symbols.peek().is_none() {
            return Ok(None);
        }

        let name = format!("{}-dbgsym", self.package.deb);
        let root = self.work.fresh(&format!("deb/{name}"))?;
        let mut ids = Vec::new();
        for symbol in symbols {
            let file = root.join(debug::PLACE).join(symbol.name());
            fs::create_dir_all(file.parent().unwrap_or(&root))?;
            fs::copy(&symbol.file, &file).with_context(|| format!("{}", file.display()))?;
            done(Command::new("chmod").arg("644").arg(&file))?;
            ids.push(symbol.build_id.as_str());
        }
        let documents = root.join("usr/share/doc");
        fs::create_dir_all(&documents)?;
        symlink(self.package.deb, documents.join(&name))?;

        let mut control = head(&name, "debug");
        control += &format!("Depends: {} (= {VERSION})\n", self.package.deb);
        if self.package.beside_others {
            control += "Multi-Arch: same\n";
        }
        control += "Auto-Built-Package: debug-symbols\n";
        control += &format!("Build-Ids: {}\n", ids.join(" "));
        control += &format!("Installed-Size: {}\n", kilobytes(&root)?);
        control += &format!("Description: debug symbols for {}\n", self.package.deb);
        // Compressed already, section by section.
        build(self.work, &root, &control, &name, 1).map(Some)
    }
}

/// The fields that every package has.
fn head(name: &str, section: &str) -> String {
    let (person, address) = maintainer();
    let source = match name {
        SOURCE => String::new(),
        _ => format!("Source: {SOURCE}\n"),
    };
    format!(
        "Package: {name}\n{source}Version: {VERSION}\nArchitecture: {ARCHITECTURE}\n\
         Maintainer: {person} <{address}>\nSection: {section}\nPriority: optional\n"
    )
}

/// Packs a tree, as small as `level` makes it.
fn build(work: &Work<'_>, root: &Path, control: &str, name: &str, level: u8) -> Result<PathBuf> {
    let sums = work
        .command("sh")
        .arg("-c")
        .arg(SUMS)
        .current_dir(root)
        .output()?;
    write(
        &root.join("DEBIAN/md5sums"),
        &String::from_utf8_lossy(&sums.stdout),
    )?;
    write(&root.join("DEBIAN/control"), control)?;
    readable(root)?;

    let package = work
        .out
        .join(format!("{name}_{VERSION}_{ARCHITECTURE}.deb"));
    let mut pack = work.command("dpkg-deb");
    // What Debian 11 can unpack, too.
    pack.args(["--root-owner-group", "-Zxz"])
        .arg(format!("-z{level}"))
        .arg("--build")
        .arg(root)
        .arg(&package);
    done(&mut pack)?;
    Ok(package)
}

/// Of the files alone, in an order that stays.
const SUMS: &str = "find usr -type f -print0 | sort -z | xargs -0 --no-run-if-empty md5sum";

/// How much is unpacked, by files, as dpkg counts it.
fn kilobytes(root: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        sum += match kind.is_dir() {
            true if entry.file_name() == "DEBIAN" => 0,
            true => 1 + kilobytes(&entry.path())?,
            false if kind.is_file() => entry.metadata()?.len().div_ceil(1024),
            false => 1,
        };
    }
    Ok(sum)
}

/// Debian's own list of changes, which has nothing to tell beside ours.
fn changelog(work: &Work<'_>) -> Result<String> {
    let (person, address) = maintainer();
    let mut date = work.command("date");
    date.args([
        "--utc",
        "--rfc-email",
        "--date",
        &format!("@{}", work.epoch),
    ]);
    let date = output_of(&mut date)?;
    Ok(format!(
        "{SOURCE} ({VERSION}) unstable; urgency=medium\n\n  * As its makers package it; what has \
         changed is in changelog.gz.\n\n -- {person} <{address}>  {}\n",
        date.trim()
    ))
}

/// The licences, as Debian's machines read them.
fn copyright(mit: &str) -> String {
    let mut lines = mit
        .lines()
        .skip_while(|line| !line.starts_with("Copyright"));
    let holder = lines.next().unwrap_or_default();
    let holder = holder.trim_start_matches("Copyright (c) ");
    let mit: Vec<&str> = lines.skip_while(|line| line.is_empty()).collect();
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: ferroce\n\nFiles: *\nCopyright: {holder}\nLicense: Expat or Apache-2.0\n\n\
         License: Expat\n{}\nLicense: Apache-2.0\n On Debian systems the text of the Apache \
         License, version 2.0, is in\n /usr/share/common-licenses/Apache-2.0.\n",
        indented(&mit)
    )
}

fn indented(lines: &[&str]) -> String {
    let line = |line: &&str| match line.is_empty() {
        true => " .\n".to_owned(),
        false => format!(" {line}\n"),
    };
    lines.iter().map(line).collect()
}

/// A paragraph in lines of less than 80 columns.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() > 76 {
            lines += &format!("{line}\n");
            line.clear();
        }
        line += &format!(" {word}");
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_wrapped_and_licences_indented() {
        let text = wrapped(&"word ".repeat(40));
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.starts_with(" w")));
        assert!(text.lines().all(|line| line.len() < 80));
        assert_eq!(indented(&["a", "", "b"]), " a\n .\n b\n");
    }

    #[test]
    fn the_licence_names_who_holds_it() {
        let licence = fs::read_to_string(build::workspace().join("LICENSE-MIT")).unwrap();
        let text = copyright(&licence);
        assert!(
            text.contains("\nCopyright: 2026 The ferroce developers\n"),
            "{text}"
        );
        assert!(text.contains("\n Permission is hereby granted"), "{text}");
    }
}
