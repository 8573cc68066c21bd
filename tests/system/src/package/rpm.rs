//! Packages for Fedora, RHEL, SUSE and their kin, by rpmbuild, which reads in the files what they
//! are linked with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::command::done;
use super::files::{File, Layout, Part};
use super::list::{self, PACKAGES, Package};
use super::{Work, debug, readable, write};
use crate::build;
use crate::install;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const ARCHITECTURE: &str = "x86_64";

/// What rpmbuild would do to the files beyond packing them: nothing.
const AS_IT_IS: &str = "\
%global debug_package %{nil}
%global __os_install_post %{nil}
%global _build_id_links none
%global __provides_exclude_from ^/usr/lib64/ferroce/.*$
";

/// Makes all of them, with their debug symbols.
pub(super) fn make(work: &Work<'_>) -> Result<Vec<PathBuf>> {
    let top = work.fresh("rpm")?;
    let root = top.join("tree");
    let mut spec = format!(
        "{AS_IT_IS}\nName: ferroce\nVersion: {VERSION}\nRelease: 1\nLicense: MIT OR Apache-2.0\n"
    );
    let mut sections = String::new();
    for package in PACKAGES.iter().filter(|package| !package.rpm.is_empty()) {
        spec += &head(package, work);
        sections += &listed(package, work, &root)?;
    }
    spec += &format!(
        "\n%install\ncp -a {}/. %{{buildroot}}\n{sections}",
        root.display()
    );

    readable(&root)?;
    let file = top.join("ferroce.spec");
    write(&file, &spec)?;
    let made = top.join("made");
    let mut rpmbuild = work.command("rpmbuild");
    rpmbuild.args(["-bb", "--quiet", "--target", ARCHITECTURE]);
    for (name, value) in [
        ("_topdir", top.as_path()),
        ("_rpmdir", made.as_path()),
        ("_dbpath", &top.join("db")),
        ("_tmppath", &top.join("tmp")),
        (
            "_build_name_fmt",
            Path::new("%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"),
        ),
        // What rpm has known since glibc 2.17.
        ("_binary_payload", Path::new("w3.xzdio")),
        ("_buildhost", Path::new("ferroce")),
        ("use_source_date_epoch_as_buildtime", Path::new("1")),
        ("clamp_mtime_to_source_date_epoch", Path::new("1")),
    ] {
        rpmbuild
            .arg("--define")
            .arg(format!("{name} {}", value.display()));
    }
    done(rpmbuild.arg(&file))?;

    let mut packages = Vec::new();
    for entry in fs::read_dir(&made).with_context(|| format!("{}", made.display()))? {
        let entry = entry?;
        let package = work.out.join(entry.file_name());
        fs::copy(entry.path(), &package).with_context(|| format!("{}", package.display()))?;
        packages.push(package);
    }
    packages.sort();
    Ok(packages)
}

/// How its sections are introduced: the first package is the one that the file is named after.
fn section(word: &str, package: &Package) -> String {
    match package.part {
        Part::Ferroce => format!("%{word}"),
        _ => format!("%{word} -n {}", package.rpm),
    }
}

/// What the package is and what it needs.
fn head(package: &Package, work: &Work<'_>) -> String {
    let mut text = match package.part {
        Part::Ferroce => String::new(),
        _ => format!("\n{}\n", section("package", package)),
    };
    text += &format!("Summary: {}\n", package.summary);
    for &part in package.with {
        text += &format!(
            "Requires: {}%{{?_isa}} = %{{version}}-%{{release}}\n",
            list::of(part).rpm
        );
    }
    for (field, others) in [
        ("Requires", package.depends.rpm),
        ("Recommends", package.recommends.rpm),
        ("Suggests", package.suggests.rpm),
    ] {
        text.extend(others.iter().map(|other| format!("{field}: {other}\n")));
    }
    text += &format!(
        "\n{}\n{}\n",
        section("description", package),
        package.description.join("\n\n")
    );

    if work.symbols.of(package.part).next().is_some() {
        let rpm = package.rpm;
        text += &format!(
            "\n%package -n {rpm}-debuginfo\nSummary: Debug symbols of {rpm}\nAutoReqProv: no\n\
             \n%description -n {rpm}-debuginfo\nWhat debuggers know of the package {rpm} by.\n"
        );
    }
    text
}

/// Puts the package's files into the tree; answers the sections that list them.
fn listed(package: &Package, work: &Work<'_>, root: &Path) -> Result<String> {
    let layout = Layout::rpm();
    let files: Vec<&File> = work
        .files
        .iter()
        .filter(|file| file.part == package.part)
        .collect();
    let mut text = format!("\n{}\n%defattr(-,root,root)\n", section("files", package));
    let mut pages = Vec::new();
    for file in files {
        let path = install::put_all(std::slice::from_ref(file), &layout, &root.join("usr"))?;
        for path in path {
            let place = Path::new("/").join(path.strip_prefix(root)?);
            // rpm's own directories; ours go with the package.
            if let Some(ours) = place.parent().filter(|dir| dir.ends_with("ferroce")) {
                let line = format!("%dir {}\n", ours.display());
                text += if text.contains(&line) { "" } else { &line };
            }
            let page = place.starts_with("/usr/share/man");
            text += &format!("{}{}\n", place.display(), if page { ".gz" } else { "" });
            pages.extend(page.then_some(path));
        }
    }
    work.gzip(&pages)?;

    let licences = root.join("usr/share/licenses").join(package.rpm);
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let licence = fs::read_to_string(build::workspace().join(name)).context(name)?;
        write(&licences.join(name), &licence)?;
    }
    text += &format!("%license /usr/share/licenses/{}\n", package.rpm);
    if package.part == Part::Exs {
        for when in ["post", "postun"] {
            text += &format!("\n%{when} -n {} -p /sbin/ldconfig\n", package.rpm);
        }
    }

    let mut symbols = work.symbols.of(package.part).peekable();
    if symbols.peek().is_some() {
        text += &format!(
            "\n%files -n {}-debuginfo\n%defattr(-,root,root)\n",
            package.rpm
        );
    }
    for symbol in symbols {
        let file = root.join(debug::PLACE).join(symbol.name());
        fs::create_dir_all(file.parent().unwrap_or(root))?;
        fs::copy(&symbol.file, &file).with_context(|| format!("{}", file.display()))?;
        text += &format!("%attr(644,root,root) /{}/{}\n", debug::PLACE, symbol.name());
    }
    Ok(text)
}
