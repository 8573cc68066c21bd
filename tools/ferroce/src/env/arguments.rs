//! The command line of `ferroce env`.

use clap::Args;

/// Below its help.
pub(crate) const EXAMPLES: &str = "\
EXAMPLES:
  eval \"$(ferroce env)\"; ibv_devinfo
  eval \"$(ferroce env --unset)\"
  ferroce env --fish | source; ibv_devinfo
  eval \"`ferroce env --csh`\"
                       In fish, and in csh or tcsh.
  ferroce env --github >> \"$GITHUB_ENV\"
                       The steps that follow see the device.
  ferroce env --dotenv > .env
                       For direnv (`dotenv`) and others who read such files.";

/// `ferroce env`.
#[derive(Debug, Args)]
pub(crate) struct Env {
    /// Print what undoes it; LD_PRELOAD and RDMAV_DRIVERS keep what else they hold, and the daemon
    /// stays
    #[arg(long, conflicts_with_all = ["github", "dotenv"])]
    pub unset: bool,

    /// Print what fish evaluates: `ferroce env --fish | source`
    #[arg(long, group = "form")]
    fish: bool,

    /// Print what csh and tcsh evaluate: eval "`ferroce env --csh`"
    #[arg(long, group = "form")]
    csh: bool,

    /// Print a JSON object of the variables; with --unset `null` is what is no longer set
    #[arg(long, group = "form")]
    json: bool,

    /// Print NAME=VALUE lines, for the file that $GITHUB_ENV names
    #[arg(long, group = "form")]
    github: bool,

    /// Print NAME='VALUE' lines, for a .env file
    #[arg(long, group = "form")]
    dotenv: bool,
}

/// In what form variables are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For sh, bash and zsh to evaluate.
    Shell,
    Fish,
    Csh,
    Json,
    Github,
    Dotenv,
}

impl Env {
    pub(crate) fn form(&self) -> Form {
        let asked = [
            (self.fish, Form::Fish),
            (self.csh, Form::Csh),
            (self.json, Form::Json),
            (self.github, Form::Github),
            (self.dotenv, Form::Dotenv),
        ];
        let form = asked.into_iter().find(|(asked, _)| *asked);
        form.map_or(Form::Shell, |(_, form)| form)
    }
}
