//! Manual pages and shell completions of ferroce's programs, made of the definitions of their
//! command lines, so that neither can say anything else than `--help` does.
//!
//! A program that is told to by a word that its help does not show calls [`write()`]; whoever
//! installs or packages it calls the program. Nothing that is made here is kept in the sources.

mod help;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// A shell that there are completions for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum For {
    /// GNU's, with or without the package bash-completion
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

impl For {
    const ALL: [For; 3] = [For::Bash, For::Zsh, For::Fish];

    fn shell(self) -> Shell {
        match self {
            For::Bash => Shell::Bash,
            For::Zsh => Shell::Zsh,
            For::Fish => Shell::Fish,
        }
    }

    /// Where the completions of a program are, below what [`write()`] writes to.
    fn file(self, program: &str) -> String {
        match self {
            For::Bash => format!("bash/{program}"),
            For::Zsh => format!("zsh/_{program}"),
            For::Fish => format!("fish/{program}.fish"),
        }
    }
}

/// Writes all there is of a program below a directory: `man/NAME.SECTION` for it and each of its
/// subcommands, `bash/NAME`, `zsh/_NAME` and `fish/NAME.fish`.
///
/// # Errors
///
/// What the file system has to say.
pub fn write(command: Command, section: u8, dir: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    for shell in For::ALL {
        let path = dir.join(shell.file(&name));
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        completions(command.clone(), shell, &mut File::create(path)?)?;
    }

    let pages = dir.join("man");
    fs::create_dir_all(&pages)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    page(&command, section, &pages)
}

/// Writes the completions of a program for a shell.
///
/// # Errors
///
/// What the writer has to say.
pub fn completions(mut command: Command, shell: For, to: &mut dyn Write) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell.shell(), &mut command, name, &mut text);
    to.write_all(&text)
}

/// The page of a command, and of those below it.
fn page(command: &Command, section: u8, dir: &Path) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone())
        .section(section.to_string())
        .source(format!("ferroce {version}"))
        .manual("ferroce");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command
        .get_arguments()
        .any(|argument| !argument.is_hide_set())
    {
        man.render_options_section(&mut text)?;
    }

    let shown = || command.get_subcommands().filter(|one| !one.is_hide_set());
    if shown().next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(after) = command.get_after_long_help() {
        text.extend(help::sections(&after.to_string()).into_bytes());
    }
    text.extend(help::see_also(command, section).into_bytes());
    fs::write(dir.join(man.get_filename()), text)?;

    for below in shown() {
        page(below, section, dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn command() -> Command {
        let up = Command::new("up")
            .about("Start it")
            .arg(Arg::new("addr").long("addr").help("An address"));
        Command::new("thing")
            .about("A thing")
            .after_long_help("EXIT STATUS:\n  0 if all went well.")
            .subcommand(up)
            .subcommand(Command::new("inner").hide(true))
    }

    #[test]
    fn every_command_that_is_shown_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        write(command(), 8, dir.path()).unwrap();
        let mut pages: Vec<_> = fs::read_dir(dir.path().join("man"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        pages.sort();
        assert_eq!(pages, ["thing-up.8", "thing.8"]);

        let main = fs::read_to_string(dir.path().join("man/thing.8")).unwrap();
        assert!(main.contains("thing\\-up(8)"), "{main}");
        assert!(main.contains(".SH \"EXIT STATUS\""), "{main}");
        let up = fs::read_to_string(dir.path().join("man/thing-up.8")).unwrap();
        assert!(
            up.contains("An address") && up.contains("thing\\-up \\- Start it"),
            "{up}"
        );
    }

    #[test]
    fn each_shell_is_told_of_the_subcommands() {
        let dir = tempfile::tempdir().unwrap();
        write(command(), 1, dir.path()).unwrap();
        for file in ["bash/thing", "zsh/_thing", "fish/thing.fish"] {
            let text = fs::read_to_string(dir.path().join(file)).unwrap();
            assert!(
                text.contains("up") && text.contains("addr"),
                "{file}: {text}"
            );
        }
    }
}
