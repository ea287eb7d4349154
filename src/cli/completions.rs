//! `pannier completions`.

use clap::Args;
use clap_complete::Shell;

use super::{command, outcome::Outcome, output};

/// Prints completions for a shell.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier completions bash > ~/.local/share/bash-completion/completions/pannier
  pannier completions zsh  > \"${fpath[1]}/_pannier\"
  pannier completions fish > ~/.config/fish/completions/pannier.fish")]
pub struct Arguments {
    shell: Shell,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "pannier", &mut script);
    output::data(String::from_utf8_lossy(&script).trim_end())
}
