//! In a distribution's own root: installed by apt, used by somebody who is not root, and purged.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::distro::{Archive, Distribution, PACKAGING, PROGRAMS, Root};
use crate::harness::case::{Ending, Stop, expect};
use crate::lab::Lab;
use crate::lab::netns::Enter;

use super::named;
use super::runs::{User, said, same};

const ARCHITECTURE: &str = "amd64";
/// Where the packages are in the root.
const PACKAGES: &str = "/opt/ferroce";
/// The user, and where he is at home.
const USER: &str = "1000";
const HOME: &str = "/var/tmp/user";

/// Every file of the root's, but for what apt and dpkg themselves note of having been called.
const LIST: &str = "find / -xdev -mindepth 1 \
    \\( -path /opt -o -path /var/log -o -path /var/cache -o -path /var/lib/apt \
       -o -path '/var/lib/dpkg/*-old' -o -path '/var/lib/dpkg/lock*' \\) -prune \
    -o -printf '%y %p\\n' | LC_ALL=C sort";

/// What the packages bring, as users look for it.
const PAGES: &[&str] = &[
    "1 ferroce",
    "1 ferroce-run",
    "1 ferroce-up",
    "7 ferroce",
    "8 ferroced",
    "1 ferroce-ibta",
    "1 ferroce-ibta-run",
    "7 exs",
    "3 exs_accept",
];

/// Compiles an example of libexs by pkg-config, and copies a file by it.
const COMPILE: &str = r#"set -e
cd "$HOME"
examples=/usr/share/doc/libexs-dev/examples
cc -o exs_copy $examples/exs_copy.c $examples/common.c $(pkg-config --cflags --libs exs)
head --bytes 300000 /dev/urandom >image
ferroce run -- ./exs_copy -l copy & server=$!
tries=0
until ferroce run -- ./exs_copy image 127.0.0.1; do
    kill -0 $server
    tries=$((tries + 1))
    [ $tries -lt 50 ]
done
wait $server
cmp image copy
rm exs_copy image copy
ferroce down
"#;

/// A device by the Python package, which has found its command.
const PYTHON_DEVICE: &str = "
import ferroce
with ferroce.device() as device, ferroce.fault(loss=0.01, seed=7) as fault:
    assert ferroce.command() == '/usr/bin/ferroce', ferroce.command()
    assert device.name == 'ferroce0' and fault.hits == 0
";

/// A root in which a user is at home.
struct Place {
    root: Root,
}

impl Place {
    fn new(archive: &Archive, packages: &Path) -> Result<Place, Stop> {
        let root = Root::unpack(archive, packages)?;
        Ok(Place { root })
    }

    /// As root, whom nobody asks questions.
    fn root(&self, program: &str) -> Command {
        let mut command = self.root.enter();
        command.args(["env", "DEBIAN_FRONTEND=noninteractive", program]);
        command
    }

    /// The start of a command of the user's. Who is not root outside has nobody else inside, and
    /// takes another name there.
    fn user(&self) -> Command {
        let mut command = self.root.enter();
        match rustix::process::geteuid().is_root() {
            true => command
                .args(["setpriv", "--clear-groups"])
                .args([format!("--reuid={USER}"), format!("--regid={USER}")]),
            false => command
                .args(["unshare", "--user"])
                .args([format!("--map-user={USER}"), format!("--map-group={USER}")]),
        };
        command.args([
            "env",
            &format!("HOME={HOME}"),
            &format!("PATH={HOME}/venv/bin:/usr/bin:/bin"),
        ]);
        command
    }

    fn home(&self, lab: &mut Lab) -> Ending {
        let mut make = self.root("install");
        make.args(["-d", "-m", "777", HOME]);
        said(lab, make).map(drop)
    }

    fn files(&self, lab: &mut Lab) -> Result<String, Stop> {
        let mut list = self.root("sh");
        list.args(["-c", LIST]);
        said(lab, list)
    }

    fn apt(&self, lab: &mut Lab, words: &[&str]) -> Ending {
        let mut apt = self.root("apt-get");
        // Whoever has no root of its own has no user for apt to become.
        apt.args(["--yes", "--quiet", "-o", "APT::Sandbox::User=root"]);
        apt.args(words);
        said(lab, apt).map(drop)
    }
}

/// The device alone, in a root that other groups have made.
pub(super) fn short(lab: &mut Lab, packages: &Path, distribution: Distribution) -> Ending {
    let archive = Archive::of(distribution, ARCHITECTURE, &PROGRAMS, &lab.case_dir()?)?;
    let place = Place::new(&archive, packages)?;
    let names = ["ferroce"];
    used(
        lab,
        &place,
        &files(packages, &names)?,
        &names,
        |_, _| Ok(()),
    )
}

/// All packages, and what they bring.
pub(super) fn whole(lab: &mut Lab, packages: &Path, distribution: Distribution) -> Ending {
    let archive = Archive::of(distribution, ARCHITECTURE, &PACKAGING, &lab.case_dir()?)?;
    let place = Place::new(&archive, packages)?;
    let names = [
        "ferroce",
        "ferroce-ibta",
        "libexs1",
        "libexs-dev",
        "python3-ferroce",
        "ferroce-dbgsym",
    ];
    used(
        lab,
        &place,
        &files(packages, &names)?,
        &names,
        |lab, user| {
            for page in PAGES {
                let words: Vec<&str> = ["-w"].into_iter().chain(page.split(' ')).collect();
                user.said(lab, "man", &words)?;
            }
            user.said(lab, "sh", &["-c", COMPILE])?;
            user.said(lab, "ferroce-ibta", &["run", "--sim", "C09_060_09"])?;
            user.said(lab, "python3", &["-c", PYTHON_DEVICE])?;
            Ok(())
        },
    )
}

/// The wheel, in an environment of the distribution's Python.
pub(super) fn wheel(lab: &mut Lab, packages: &Path, distribution: Distribution) -> Ending {
    let archive = Archive::of(distribution, ARCHITECTURE, &PACKAGING, &lab.case_dir()?)?;
    let place = Place::new(&archive, packages)?;
    place.home(lab)?;
    let user = User {
        command: &|| place.user(),
        ferroce: "ferroce",
    };
    let venv = format!("{HOME}/venv");
    user.said(lab, "python3", &["-m", "venv", &venv])?;
    let before = place.files(lab)?;

    let since = Instant::now();
    let wheel = inside(&named(packages, "ferroce-", ".whl")?[0]);
    let quiet = ["-m", "pip", "--no-cache-dir", "--disable-pip-version-check"];
    let python = format!("{venv}/bin/python");
    let pip = |words: &[&'_ str]| -> Vec<String> {
        quiet
            .iter()
            .chain(words)
            .map(|&word| word.to_owned())
            .collect()
    };
    let install = pip(&["install", "--no-index", &wheel]);
    user.said(lab, &python, &words(&install))?;
    user.table(lab, since)?;
    let uninstall = pip(&["uninstall", "--yes", "ferroce"]);
    user.said(lab, &python, &words(&uninstall))?;
    same(
        &without_bytecode(&before),
        &without_bytecode(&place.files(lab)?),
    )
}

fn words(strings: &[String]) -> Vec<&str> {
    strings.iter().map(String::as_str).collect()
}

/// What Python keeps of pip, once that has run.
fn without_bytecode(list: &str) -> String {
    let kept = list.lines().filter(|line| !line.contains("__pycache__"));
    kept.map(|line| format!("{line}\n")).collect()
}

/// Installed, used and purged.
fn used(
    lab: &mut Lab,
    place: &Place,
    files: &[String],
    names: &[&str],
    more: impl FnOnce(&mut Lab, &User<'_>) -> Ending,
) -> Ending {
    place.home(lab)?;
    let before = place.files(lab)?;

    let since = Instant::now();
    let install: Vec<&str> = ["install"].into_iter().chain(words(files)).collect();
    place.apt(lab, &install)?;
    let user = User {
        command: &|| place.user(),
        ferroce: "ferroce",
    };
    user.table(lab, since)?;
    completed(lab, &user)?;
    more(lab, &user)?;

    let purge: Vec<&str> = ["purge"].iter().chain(names).copied().collect();
    place.apt(lab, &purge)?;
    same(&before, &place.files(lab)?)
}

/// bash is told of the subcommands.
fn completed(lab: &mut Lab, user: &User<'_>) -> Ending {
    const COMPLETE: &str = r#". /usr/share/bash-completion/completions/ferroce
COMP_WORDS=(ferroce doc) COMP_CWORD=1
_ferroce ferroce doc ferroce
echo "${COMPREPLY[@]}""#;
    let said = user.said(lab, "bash", &["-c", COMPLETE])?;
    expect(said.trim() == "doctor", || {
        format!("`ferroce doc` is completed to {said:?}")
    })
}

/// The files of packages, as they are called in the root.
fn files(packages: &Path, names: &[&str]) -> Result<Vec<String>, Stop> {
    let file = |name: &&str| Ok(inside(&named(packages, &format!("{name}_"), ".deb")?[0]));
    names.iter().map(file).collect()
}

fn inside(file: &Path) -> String {
    format!(
        "{PACKAGES}/{}",
        file.file_name().unwrap_or_default().to_string_lossy()
    )
}
