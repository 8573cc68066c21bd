//! What belongs to the product, file by file, and where each is: the one table that
//! `cargo xtask install` and every kind of package go by.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ferroce_cabi::pabi;

use crate::build;

/// What Valgrind need not say of programs over ferroce, in the workspace.
pub const SUPPRESSIONS: &str = "rdma-core-plugin/valgrind.supp";
/// The overview of the manual; the other pages are made of the programs' command lines.
const OVERVIEW: &str = "tools/ferroce/man/ferroce.7";
/// The program that is of the conformance suite and of none of the others.
const SUITE: &str = "ferroce-ibta";

/// The parts that are packaged apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The device.
    Ferroce,
    /// The conformance suite.
    Ibta,
    /// The Extended Sockets library, for programs that run.
    Exs,
    /// The same for programs that are compiled.
    ExsDevelopment,
    /// What Python has of the device.
    Python,
}

/// The kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Programs,
    /// What is loaded by its path, not by a name.
    Plugins,
    /// The same for programs of musl.
    MuslPlugins,
    Libraries,
    Headers,
    PkgConfig,
    Data,
    Examples,
    /// The package, of Python's kind.
    Python,
    /// What pip and pytest read of it.
    PythonMetadata,
    Manual(char),
    Bash,
    Zsh,
    Fish,
}

/// What is in a file.
#[derive(Debug)]
pub(crate) enum Content {
    /// The same as in this one.
    Copy(PathBuf),
    /// It is a link to this name beside it.
    Link(String),
    /// The same as in this one, with the words of [`Layout::filled`] put in.
    Template(PathBuf),
}

/// A file of the product.
#[derive(Debug)]
pub(crate) struct File {
    pub part: Part,
    pub place: Place,
    pub name: String,
    pub content: Content,
}

impl File {
    fn copy(part: Part, place: Place, name: &str, from: PathBuf) -> File {
        File {
            part,
            place,
            name: name.to_owned(),
            content: Content::Copy(from),
        }
    }

    fn link(part: Part, place: Place, name: impl Into<String>, to: &str) -> File {
        File {
            part,
            place,
            name: name.into(),
            content: Content::Link(to.to_owned()),
        }
    }

    /// Its mode, whatever that of the file that it is copied from is.
    pub(crate) fn mode(&self) -> u32 {
        match self.place {
            Place::Programs => 0o755,
            _ => 0o644,
        }
    }

    /// The file that it is copied from, if that is a program or library.
    pub(crate) fn binary(&self) -> Option<&Path> {
        match (&self.content, self.place) {
            (
                Content::Copy(from),
                Place::Programs | Place::Plugins | Place::MuslPlugins | Place::Libraries,
            ) => Some(from),
            _ => None,
        }
    }
}

/// Where the places are below a prefix.
#[derive(Debug)]
pub(crate) struct Layout {
    lib: &'static str,
    zsh: &'static str,
    examples: &'static str,
    /// What Python looks for packages in, or has to be told to.
    python: &'static str,
    /// What pkg-config takes for the prefix.
    prefix: String,
}

impl Layout {
    /// Below a prefix of its own; `prefix`: as pkg-config is told it.
    pub(crate) fn plain(prefix: impl Into<String>) -> Layout {
        Layout {
            lib: "lib",
            zsh: "share/zsh/site-functions",
            examples: "share/doc/exs/examples",
            python: "share/ferroce/python",
            prefix: prefix.into(),
        }
    }

    /// In a wheel, whose root is where Python looks.
    pub(crate) fn wheel() -> Layout {
        Layout {
            python: "",
            ..Layout::plain("/")
        }
    }

    /// Below /usr, as Debian has it.
    pub(crate) fn debian() -> Layout {
        Layout {
            lib: "lib/x86_64-linux-gnu",
            zsh: "share/zsh/vendor-completions",
            examples: "share/doc/libexs-dev/examples",
            python: "lib/python3/dist-packages",
            prefix: "/usr".to_owned(),
        }
    }

    /// Below /usr, as Fedora, RHEL and SUSE have it.
    pub(crate) fn rpm() -> Layout {
        Layout {
            lib: "lib64",
            zsh: "share/zsh/site-functions",
            examples: "share/doc/libexs-devel/examples",
            // Python's own directory has its version there.
            python: "share/ferroce/python",
            prefix: "/usr".to_owned(),
        }
    }

    /// The directory of a file, below the prefix.
    pub(crate) fn directory(&self, file: &File) -> PathBuf {
        let lib = Path::new(self.lib);
        match file.place {
            Place::Programs => "bin".into(),
            Place::Plugins => lib.join("ferroce"),
            Place::MuslPlugins => lib.join("ferroce").join(MUSL),
            Place::Libraries => lib.into(),
            Place::Headers => "include".into(),
            Place::PkgConfig => lib.join("pkgconfig"),
            Place::Data => "share/ferroce".into(),
            Place::Examples => self.examples.into(),
            Place::Python => Path::new(self.python).join("ferroce"),
            Place::PythonMetadata => Path::new(self.python).join(METADATA),
            Place::Manual(section) => format!("share/man/man{section}").into(),
            Place::Bash => "share/bash-completion/completions".into(),
            Place::Zsh => self.zsh.into(),
            Place::Fish => "share/fish/vendor_completions.d".into(),
        }
    }

    /// A template's text with what depends on the layout.
    pub(crate) fn filled(&self, template: &str) -> String {
        template
            .replace("@PREFIX@", &self.prefix)
            .replace("@LIB@", self.lib)
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
    }
}

/// The programs and libraries that are built in `from`.
pub(crate) fn product(from: &Path) -> Vec<File> {
    let part = |name: &str| match name {
        SUITE => Part::Ibta,
        _ => Part::Ferroce,
    };
    let programs = build::PROGRAMS
        .iter()
        .map(|name| File::copy(part(name), Place::Programs, name, from.join(name)));
    let libraries = build::LIBRARIES
        .iter()
        .map(|(built, name)| File::copy(Part::Ferroce, Place::Plugins, name, from.join(built)));
    let for_containers = GLIBC_LIB.map(|name| File::link(Part::Ferroce, Place::Plugins, name, "."));
    programs
        .chain(libraries)
        .chain(drivers(Place::Plugins))
        .chain(for_containers)
        .collect()
}

/// The names by which every libibverbs finds the provider.
fn drivers(place: Place) -> impl Iterator<Item = File> {
    pabi::numbers().map(move |number| {
        let name = pabi::driver_file("libferroce", number);
        File::link(Part::Ferroce, place, name, build::DRIVER)
    })
}

/// What glibc puts in the place of `$LIB` in a path, distribution by distribution. Links of these
/// names let one path in `LD_PRELOAD`, `…/$LIB/libferroce-shim.so`, lead the dynamic linker of
/// either C library to its own libraries: a container may have any.
const GLIBC_LIB: [&str; 4] = ["lib", "lib64", "x86_64-linux-gnu", "aarch64-linux-gnu"];
/// Where the libraries for musl are, below those for glibc.
pub const MUSL: &str = "musl";
/// What musl, which expands nothing, makes of `$LIB`. Without a file there its dynamic linker goes
/// on.
const MUSL_LIB: &str = "$LIB";

/// The libraries for musl that `cargo xtask portable` has put below `from`.
pub(crate) fn musl(from: &Path) -> Vec<File> {
    let from = from.join("lib/ferroce");
    let libraries = build::LIBRARIES
        .iter()
        .map(|(_, name)| File::copy(Part::Ferroce, Place::MuslPlugins, name, from.join(name)));
    let way = File::link(Part::Ferroce, Place::Plugins, MUSL_LIB, MUSL);
    libraries
        .chain(drivers(Place::MuslPlugins))
        .chain([way])
        .collect()
}

/// The directory of a Python package's metadata.
const METADATA: &str = concat!("ferroce-", env!("CARGO_PKG_VERSION"), ".dist-info");

/// The Python package.
fn python() -> Result<Vec<File>> {
    let sources = build::workspace().join("tools/python");
    let mut files = vec![
        File {
            part: Part::Python,
            place: Place::PythonMetadata,
            name: "METADATA".to_owned(),
            content: Content::Template(sources.join("METADATA.in")),
        },
        File::copy(
            Part::Python,
            Place::PythonMetadata,
            "entry_points.txt",
            sources.join("entry_points.txt"),
        ),
    ];
    for (name, path) in listed(&sources.join("ferroce"))? {
        // Not what Python has compiled there.
        if path.is_file() {
            files.push(File::copy(Part::Python, Place::Python, &name, path));
        }
    }
    Ok(files)
}

/// What is no program or library and belongs to them all the same.
pub(crate) fn data() -> Result<Vec<File>> {
    let workspace = build::workspace();
    let overview = workspace.join(OVERVIEW);
    let mut files = vec![
        File::copy(
            Part::Ferroce,
            Place::Data,
            "valgrind.supp",
            workspace.join(SUPPRESSIONS),
        ),
        File::copy(Part::Ferroce, Place::Manual('7'), "ferroce.7", overview),
    ];
    files.extend(python()?);
    Ok(files)
}

/// The EXS library that is built in `from`, and what belongs to it.
pub(crate) fn exs(from: &Path) -> Result<Vec<File>> {
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    let sources = build::workspace().join("exs");
    let real = format!("libexs.so.{VERSION}");
    let development = Part::ExsDevelopment;
    let header = sources.join("include/exs.h");
    let library = from.join(build::EXS_SONAME);
    let mut files = vec![
        // The links: as the dynamic linker asks for it, and as the compiler does.
        File::link(Part::Exs, Place::Libraries, build::EXS_SONAME, &real),
        File::copy(Part::Exs, Place::Libraries, &real, library),
        File::link(
            development,
            Place::Libraries,
            "libexs.so",
            build::EXS_SONAME,
        ),
        File::copy(development, Place::Headers, "exs.h", header),
        File {
            part: development,
            place: Place::PkgConfig,
            name: "exs.pc".to_owned(),
            content: Content::Template(sources.join("exs.pc.in")),
        },
    ];

    for (name, path) in listed(&sources.join("man"))? {
        files.push(File::copy(
            development,
            page_place(&name, &path)?,
            &name,
            path,
        ));
    }
    for (name, path) in listed(&sources.join("examples"))? {
        files.push(File::copy(development, Place::Examples, &name, path));
    }
    Ok(files)
}

/// What the programs have written of themselves below `from`: pages and completions.
pub(crate) fn manual(from: &Path) -> Result<Vec<File>> {
    let part = |name: &str| match name.trim_start_matches('_').starts_with(SUITE) {
        true => Part::Ibta,
        false => Part::Ferroce,
    };
    let mut files = Vec::new();
    for (name, path) in listed(&from.join("man"))? {
        files.push(File::copy(
            part(&name),
            page_place(&name, &path)?,
            &name,
            path,
        ));
    }
    for (shell, place) in [
        ("bash", Place::Bash),
        ("zsh", Place::Zsh),
        ("fish", Place::Fish),
    ] {
        for (name, path) in listed(&from.join(shell))? {
            files.push(File::copy(part(&name), place, &name, path));
        }
    }
    Ok(files)
}

fn page_place(name: &str, path: &Path) -> Result<Place> {
    let section = name
        .rsplit_once('.')
        .and_then(|(_, section)| section.chars().next());
    let section = section.with_context(|| format!("{}: no section", path.display()))?;
    Ok(Place::Manual(section))
}

/// The files of a directory, by name.
fn listed(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("{}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().into_string();
        let name = name.map_err(|name| anyhow::anyhow!("{name:?} is not UTF-8"))?;
        files.push((name, entry.path()));
    }
    files.sort();
    Ok(files)
}
