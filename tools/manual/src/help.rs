//! What a program's help says after its options, as sections of a manual page.
//!
//! In the help a section is a heading in capitals with a colon, then lines with two spaces before
//! them: a term and what it is, two spaces apart, or sentences. Lines further to the right go on
//! with what is above them.

use clap::Command;
use roff::{Roff, bold, roman};

/// A section whose lines are typed as they stand.
const TYPED: &str = "EXAMPLES";

/// The sections.
pub(crate) fn sections(help: &str) -> String {
    let mut roff = Roff::new();
    let mut typed = false;
    for line in help.lines() {
        if let Some(heading) = heading(line) {
            if typed {
                roff.control("EE", []);
            }
            roff.control("SH", [heading]);
            typed = heading == TYPED;
            if typed {
                roff.control("EX", []);
            }
        } else if typed {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        } else {
            item(&mut roff, line);
        }
    }

    if typed {
        roff.control("EE", []);
    }
    roff.render()
}

/// The page of the command above, and the overview.
pub(crate) fn see_also(command: &Command, section: u8) -> String {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut others = Vec::new();
    if let Some((above, _)) = name.rsplit_once('-').filter(|_| {
        command
            .get_bin_name()
            .is_some_and(|line| line.contains(' '))
    }) {
        others.extend([bold(above), roman(format!("({section}), "))]);
    }
    others.extend([bold("ferroce"), roman("(7)")]);

    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text(others);
    roff.render()
}

fn heading(line: &str) -> Option<&str> {
    let heading = line.strip_suffix(':')?;
    let capitals = |c: char| c.is_ascii_uppercase() || c == ' ';
    (!heading.is_empty() && !heading.starts_with(' ') && heading.chars().all(capitals))
        .then_some(heading)
}

/// A line of a list or of a paragraph.
fn item(roff: &mut Roff, line: &str) {
    let text = line.trim_start();
    let starts = line.len() - text.len() <= 2;
    match text.split_once("  ").filter(|_| starts) {
        Some((term, what)) => {
            roff.control("TP", []);
            roff.text([bold(term)]);
            roff.text([roman(what.trim_start())]);
        }
        None if text.is_empty() => {
            roff.control("PP", []);
        }
        // Terms that have no room beside them have what they are below.
        None if starts && text.starts_with('$') => {
            roff.control("TP", []);
            roff.text([bold(text)]);
        }
        None => {
            roff.text([roman(text)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "\
FILES:
  DIR/log          The log;
                   it grows.
  $HOME/a, /etc/b
                   Settings.

EXIT STATUS:
  0 if all went well,
  1 if not.

EXAMPLES:
  thing -v & thing
       Both.";

    #[test]
    fn terms_sentences_and_examples_are_told_apart() {
        let text = sections(HELP);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(at(".TP\n\\fBDIR/log\\fR\nThe log;\nit grows.") > at(".SH FILES"));
        at(".TP\n\\fB$HOME/a, /etc/b\\fR\nSettings.");
        at(".SH \"EXIT STATUS\"\n0 if all went well,\n1 if not.");
        at(".EX\nthing \\-v & thing\n     Both.\n");
        assert!(text.trim_end().ends_with(".EE"), "{text}");
    }
}
