//! The command line of `ferroce cdi`.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

const GENERATE_EXAMPLES: &str = "\
EXAMPLES:
  sudo ferroce up; sudo ferroce cdi generate --output /etc/cdi/ferroce.json
  sudo podman run --device ferroce.dev/rdma=all IMAGE ib_write_bw
  ferroce cdi generate --format yaml";

/// Where runtimes look unless they are configured otherwise.
const DIRECTORIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// `ferroce cdi`.
#[derive(Debug, Subcommand)]
pub(crate) enum Cdi {
    /// Write the specification of the device for podman, Docker 25, containerd and CRI-O
    ///
    /// Containers that are started with `--device ferroce.dev/rdma=all` then see the device that is
    /// up in this runtime directory, images unchanged: the specification has the runtime mount the
    /// directory and ferroce's libraries and set three variables. Programs of glibc and, where its
    /// libraries are installed, of musl find theirs.
    ///
    /// The specification names this very installation and runtime directory: write it again when
    /// one of them has moved. The daemon must be up when a container starts.
    #[command(after_long_help = GENERATE_EXAMPLES)]
    Generate(Generate),
    /// List the devices that specifications offer to containers
    List(List),
}

/// `ferroce cdi generate`.
#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// The file, whose name must end in .json or .yaml; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,

    /// In what form [default: what the file's name says, else json]
    #[arg(long, value_name = "FORM")]
    pub format: Option<Form>,
}

/// `ferroce cdi list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Where to look; may be repeated [default: /etc/cdi and /var/run/cdi]
    #[arg(long, value_name = "DIR")]
    spec_dir: Vec<PathBuf>,
}

impl List {
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        match self.spec_dir.is_empty() {
            true => DIRECTORIES.map(PathBuf::from).to_vec(),
            false => self.spec_dir.clone(),
        }
    }
}

/// How a specification is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Json,
    Yaml,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
        })
    }
}
