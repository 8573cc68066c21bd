//! A process that keeps namespaces alive: it says when it is inside and ends when this program
//! does, so nothing is left behind.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// What a holder says when all is set up.
pub(crate) const INSIDE: &str = "inside";

/// The process.
pub(crate) struct Holder(Child);

impl Holder {
    /// Starts a command that prints [`INSIDE`] and then waits for the end of its input.
    ///
    /// # Errors
    ///
    /// What the command had to say, if it ended instead.
    pub(crate) fn start(mut command: Command) -> Result<Holder> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context(program.clone())?;

        let mut word = String::new();
        if let Some(out) = child.stdout.as_mut() {
            BufReader::new(out)
                .read_line(&mut word)
                .context(program.clone())?;
        }

        if word.trim() != INSIDE {
            let output = child.wait_with_output().context(program)?;
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }

        Ok(Holder(child))
    }

    /// Gives it a line of input and waits for the line that it answers.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        let (Some(input), Some(out)) = (self.0.stdin.as_mut(), self.0.stdout.as_mut()) else {
            bail!("its input is closed");
        };
        writeln!(input, "{line}")?;
        let mut answer = String::new();
        BufReader::new(out).read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
