//! Group `exs`, continued: the listings of the thesis that the framework follows, compiled and run
//! as they are printed, but for the misprints of `document.toml`.
//!
//! The thesis is not in this repository. `EXS_THESIS` names a file with its text, in which each
//! listing stands between two lines that begin with
//! ```` ``` ````; without it the case is skipped. Programs of our own have all forms and names of the listings (`tests/exs/blocks`, `tests/exs/figures`) and run always.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::{Mode, in_mode, library_flags, programs, sources};
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::pages::row;

const THESIS: &str = "EXS_THESIS";
const LIMIT: Duration = Duration::from_secs(60);

/// What a listing needs around it to be a program: a server that it connects to, and what it leaves
/// out.
const SERVED: &str = r#"
static void serve(void)
{
	if (fork())
		return;
	if (ok_exs_init(p) < 0 || ok_exs_socket(p) < 0 || ok_exs_bind(p) < 0 || ok_exs_listen(p) < 0)
		exit(EXIT_FAILURE);
	close(open(exs_test_fifo_1, O_WRONLY));
	exit(ok_exs_accept(p) < 0 || exs_read(p->fd, p->recv_buf, 1));
}
static void begin(int argc, char *argv[])
{
	p = calloc(1, sizeof(param));
	p->func = "listing";
	if (setup_options(argc, argv, p))
		exit(EXIT_FAILURE);
	serve();
	close(open(exs_test_fifo_1, O_RDONLY));
}
"#;

pub(super) fn cases() -> Vec<Case> {
    vec![Case::many("exs/document/listings", listings)]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listing: Vec<Listing>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    name: String,
    marker: String,
    form: Form,
    #[serde(default)]
    misprint: Vec<Misprint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Misprint {
    printed: String,
    meant: String,
    why: String,
}

/// What a listing is.
#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Form {
    /// A program that a test of `test_exs_figures` runs.
    Program,
    /// Statements that connect a socket to `info`.
    Connect,
    /// A test file, of which test 1 is run.
    TestFile,
    /// An `ok_` function.
    Helper,
    /// Two processes of `ok_` functions.
    Pingpong,
    /// Declarations that the header has.
    Declarations,
    /// A block of a test function.
    Block,
}

fn read() -> Result<Vec<Listing>> {
    let file: File = toml::from_str(include_str!("document.toml")).context("document.toml")?;
    Ok(file.listing)
}

/// All misprints, as a table.
pub(crate) fn markdown() -> Result<String> {
    let mut table = row(&["listing", "printed", "meant", "why"]) + "|---|---|---|---|\n";
    for listing in read()? {
        for misprint in &listing.misprint {
            let code = |text: &str| format!("`{}`", text.replace('\n', " "));
            table += &row(&[
                &listing.name,
                &code(&misprint.printed),
                &code(&misprint.meant),
                &misprint.why,
            ]);
        }
    }
    Ok(table)
}

impl Listing {
    /// The file that its program is compiled to.
    fn file(&self) -> String {
        self.name.replace([' ', '-', '.'], "_")
    }

    /// Its text: the listing with the marker, and nothing but the misprints changed.
    fn text(&self, thesis: &str) -> Result<String> {
        let blocks = thesis.split("\n```").skip(1).step_by(2);
        let found: Vec<&str> = blocks
            .filter_map(|block| block.split_once('\n').map(|(_, text)| text))
            .filter(|text| text.contains(&self.marker))
            .collect();
        let [text] = found[..] else {
            return Err(anyhow!("{} listings have {:?}", found.len(), self.marker));
        };

        // Traces of how the text was made from pages: markup, a page's number, a last brace that
        // came to stand behind the listing.
        let is_number = |line: &&str| line.trim().parse::<u32>().is_ok();
        let lines = text.lines().filter(|line| !is_number(line));
        let mut text = lines.collect::<Vec<_>>().join("\n").replace("</pre>", "") + "\n";
        if text.matches('{').count() == text.matches('}').count() + 1 {
            text += "}\n";
        }

        for misprint in &self.misprint {
            if !text.contains(&misprint.printed) {
                return Err(anyhow!("{:?} is not printed there", misprint.printed));
            }
            text = text.replace(&misprint.printed, &misprint.meant);
        }

        Ok(text)
    }

    /// A whole program.
    fn source(&self, text: &str) -> String {
        let frame = "#include \"result.h\"\n";
        match self.form {
            Form::Program | Form::TestFile | Form::Pingpong => text.to_owned(),
            Form::Connect => format!(
                "{frame}{SERVED}int main(int argc, char *argv[])\n{{\nbegin(argc, argv);\nstruct addrinfo *info;\n\
                 if (getaddrinfo(p->addr, p->port, NULL, &info))\nreturn 1;\n{text}\nreturn ret || {} || exs_blocking_close(fd);\n}}\n",
                match text.contains("qhandle") {
                    true => "exs_qdequeue(qhandle, &(exs_event_t){0}, 1, NULL) != 1",
                    false => "0",
                }
            ),
            Form::Helper => format!(
                "{frame}#define ok_exs_connect printed\n{text}\n#undef ok_exs_connect\n{SERVED}\
                 int main(int argc, char *argv[])\n{{\nbegin(argc, argv);\n\
                 if (ok_exs_init(p) < 0 || ok_exs_socket(p) < 0 || !queue_of(p) != !p->mode || printed(p) != EXIT_SUCCESS)\nreturn 1;\n\
                 if (p->mode)\ntake_event(p, EXS_EVT_CONNECT, p->fd, 0);\nreturn ok_exs_close(p) < 0;\n}}\n"
            ),
            Form::Declarations => format!(
                "#include <exs.h>\n#include <stddef.h>\n#define exs_xfvec printed_xfvec\n#define exs_xferfile printed_xferfile\n\
                 #define exs_pathvec printed_pathvec\n{text}\n#undef exs_xfvec\n#undef exs_xferfile\n#undef exs_pathvec\nint main(void)\n{{\n{}return 0;\n}}\n",
                match text.contains("union") {
                    true =>
                        "_Static_assert(sizeof(struct printed_xferfile) == sizeof(struct exs_xferfile), \"size\");\n\
                             _Static_assert(offsetof(struct printed_xferfile, exs_xfv) == offsetof(struct exs_xferfile, exs_xfv), \"exs_xfv\");\n",
                    false =>
                        "_Static_assert(sizeof(struct printed_pathvec) == sizeof(struct exs_pathvec), \"size\");\n\
                              _Static_assert(offsetof(struct printed_pathvec, exs_path) == offsetof(struct exs_pathvec, exs_path), \"exs_path\");\n",
                }
            ),
            Form::Block => format!(
                "{frame}void *test_send(void *test_void_ptr)\n{{\nsetup_fault_catcher(p, getpid());\nparam *p = test_void_ptr;\n\
                 int test = p->test_number;\n{text}\nreturn NULL;\n}}\nint main(int argc, char *argv[])\n{{\n\
                 return execute(argc, argv, test_send, SEND_TESTS);\n}}\n"
            ),
        }
    }

    /// Compiles it, into `dir`. What newer compilers refuse is refused.
    fn compile(&self, text: &str, dir: &Path) -> Result<PathBuf, Stop> {
        let (source, program) = (dir.join(self.file() + ".c"), dir.join(self.file()));
        fs::write(&source, self.source(text)).context("the listing")?;
        let mut command = Command::new("cc");
        command
            .args(["-std=gnu11", "-D_GNU_SOURCE", "-pthread", "-w"])
            .args(
                [
                    "implicit-function-declaration",
                    "incompatible-pointer-types",
                    "int-conversion",
                ]
                .map(|what| format!("-Werror={what}")),
            )
            .arg("-I")
            .arg(sources())
            .args(library_flags()?.compile);

        if self.form == Form::Program {
            command
                .arg("-include")
                .arg(sources().join("figures/where.h"));
        }

        command.arg("-o").arg(&program).arg(&source);
        if self.form != Form::Program && self.form != Form::Declarations {
            command.arg(programs()?.join("framework.a"));
        }

        command.args(library_flags()?.link);
        let finished = process::run(command, dir, &self.file(), LIMIT)?;
        match finished.success() {
            true => Ok(program),
            false => Err(Stop::with("does not compile", &[&finished])),
        }
    }

    /// Runs it in a mode, if it is a program by itself.
    fn run(&self, program: &Path, host: &Host, port: u16, mode: Mode, dir: &Path) -> Ending {
        let mut command = in_mode(host.run(program), mode, &host.address, port);
        command.env("EXS_TEST_LOG", dir.join("log"));
        if matches!(self.form, Form::TestFile | Form::Block) {
            command.arg("1");
        }

        let name = format!("{}-{}", self.file(), mode.name());
        let finished = process::run(command, dir, &name, LIMIT)?;
        let passes = match self.form {
            Form::TestFile => has_result(&finished, "EPERM", mode),
            Form::Block => has_result(&finished, "ENOTCONN", mode),
            _ => true,
        };

        match finished.success() && passes {
            true => Ok(()),
            false => Err(Stop::with(
                "does not do what it is printed for",
                &[&finished],
            )),
        }
    }
}

/// One result, of test 1, which passed.
fn has_result(finished: &Finished, value: &str, mode: Mode) -> bool {
    let results = finished.out.lines().filter(|line| !line.starts_with('#'));
    let fields: Vec<Vec<&str>> = results.map(|line| line.split(" : ").collect()).collect();
    matches!(&fields[..], [one] if one[..2] == ["1", value] && one[3..5] == [mode.name(), "PASS"])
}

fn listings(lab: &mut Lab) -> Parts {
    let Some(path) = env::var_os(THESIS).filter(|path| !path.is_empty()) else {
        let why = format!("{THESIS} names no text of the thesis: its listings are not compiled");
        return Err(Stop::Skip(why));
    };
    let thesis = fs::read_to_string(&path).with_context(|| path.to_string_lossy().into_owned())?;
    let dir = lab.case_dir()?;
    let mut endings = Vec::new();
    for listing in read()? {
        let compiled = listing
            .text(&thesis)
            .map_err(Stop::from)
            .and_then(|text| listing.compile(&text, &dir));
        let runs = compiled.and_then(|program| match listing.form {
            Form::Program | Form::Declarations => Ok(()),
            _ => Mode::ALL.into_iter().try_for_each(|mode| {
                let port = lab.port() + 100;
                let host = lab.site(Place::OneDaemon)?.client();
                listing.run(&program, host, port, mode, &dir)
            }),
        });
        endings.push((listing.name.clone(), runs));
    }

    for mode in Mode::ALL {
        endings.push((
            format!("run by test_exs_figures, {}", mode.name()),
            figures(lab, &dir, mode),
        ));
    }

    Ok(endings)
}

/// The programs among them, run by the tests that run our own, whose place they take.
fn figures(lab: &mut Lab, dir: &Path, mode: Mode) -> Ending {
    let runner = dir.join("test_exs_figures");
    fs::copy(programs()?.join("test_exs_figures"), &runner).context("test_exs_figures")?;
    let port = lab.port() + 100;
    let host = lab.site(Place::OneDaemon)?.client();
    let mut command = in_mode(host.run(&runner), mode, &host.address, port);
    command.env("EXS_TEST_LOG", dir.join("log"));
    let finished = process::run(command, dir, &format!("figures-{}", mode.name()), LIMIT)?;
    match finished.success() && finished.out.contains(": 6 passed, 0 failed") {
        true => Ok(()),
        false => Err(Stop::with("a listing fails", &[&finished])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "before\n```\n#include <x.h>\nint wrong;</pre>\n   21\n```\nbetween\n```\nother\n```\n";

    #[test]
    fn a_listing_is_found_by_its_marker_and_mended() {
        let mut listing = Listing {
            name: "figure 1-1".to_owned(),
            marker: "wrong".to_owned(),
            form: Form::Program,
            misprint: vec![Misprint {
                printed: "wrong".to_owned(),
                meant: "right".to_owned(),
                why: String::new(),
            }],
        };

        assert_eq!(listing.text(TEXT).unwrap(), "#include <x.h>\nint right;\n");
        assert_eq!(listing.file(), "figure_1_1");
        listing.misprint[0].printed = "missing".to_owned();
        assert!(listing.text(TEXT).is_err());
        listing.marker = "between".to_owned();
        assert!(listing.text(TEXT).is_err());
    }

    #[test]
    fn all_listings_are_named_once() {
        let listings = read().unwrap();
        let names: std::collections::BTreeSet<String> =
            listings.iter().map(Listing::file).collect();
        assert_eq!(names.len(), listings.len());
        assert!(markdown().unwrap().contains("`filefd`"));
    }
}
