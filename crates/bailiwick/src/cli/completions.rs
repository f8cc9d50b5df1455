//! `bailiwick completions`: what shells and `man` need to know about the command line.

use std::io::Write;

use anyhow::Context;
use clap::CommandFactory;

use super::Cli;

/// Write a shell's completions, or the manual page, to standard output.
#[derive(clap::Args)]
#[command(after_help = "Try:\n  bailiwick completions bash > /etc/bash_completion.d/bailiwick\n  \
    bailiwick completions man > /usr/local/share/man/man1/bailiwick.1")]
pub struct Args {
    #[arg(value_enum)]
    form: Form,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Form {
    Bash,
    Zsh,
    Fish,
    /// The manual page.
    Man,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let mut command = Cli::command();
    let shell = match args.form {
        Form::Bash => clap_complete::Shell::Bash,
        Form::Zsh => clap_complete::Shell::Zsh,
        Form::Fish => clap_complete::Shell::Fish,
        Form::Man => return manual(command),
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "bailiwick", &mut text);
    std::io::stdout().write_all(&text).context("standard output")
}

/// One page: the program, then each subcommand.
fn manual(mut command: clap::Command) -> anyhow::Result<()> {
    command.build();
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.clone());
    page.render(&mut text)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        writeln!(text, ".SH \"BAILIWICK {}\"", sub.get_name().to_uppercase())?;
        let page = clap_mangen::Man::new(sub.clone());
        page.render_description_section(&mut text)?;
        page.render_options_section(&mut text)?;
    }
    std::io::stdout().write_all(&text).context("standard output")
}
