//! What editors, shells and `man` read: the schema of the file, completions and the manual page, each made of the
//! definitions that the gateway itself uses.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Cli;
use crate::config::schema;

/// Prints the JSON Schema of `gateway.toml`.
pub fn schema() -> ExitCode {
    print(format!("{:#}\n", schema::schema()).as_bytes())
}

/// Prints the script that completes the command line in `shell`.
pub fn completion(shell: Shell) -> ExitCode {
    print(&completion_of(shell))
}

/// Prints the manual page.
pub fn manpage() -> ExitCode {
    match manpage_text() {
        Ok(page) => print(&page),
        Err(error) => failed(&error),
    }
}

/// Returns the script that completes the command line in `shell`.
fn completion_of(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tollgate", &mut script);
    script
}

/// Returns the manual page: one for all commands, each with a section of its own.
fn manpage_text() -> io::Result<Vec<u8>> {
    let mut whole = Cli::command();
    whole.build();
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(whole.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    for command in commands(&whole) {
        let mut section = Vec::new();
        let man = clap_mangen::Man::new(command.clone());
        man.render_synopsis_section(&mut section)?;
        man.render_description_section(&mut section)?;
        man.render_options_section(&mut section)?;
        let section = String::from_utf8_lossy(&section).replace(".SH ", ".SS ");
        let name = command.get_bin_name().unwrap_or_default();
        writeln!(page, ".SH \"{name}\"\n{section}")?;
    }
    Ok(page)
}

/// Returns all commands below `command`, each followed by those below it; not `help`, which only repeats the others.
fn commands(command: &clap::Command) -> Vec<&clap::Command> {
    let below = command.get_subcommands();
    let below = below.filter(|command| command.get_name() != "help");
    below
        .flat_map(|command| [vec![command], commands(command)].concat())
        .collect()
}

fn print(text: &[u8]) -> ExitCode {
    match io::stdout().write_all(text) {
        // A reader that has seen enough may close the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => failed(&error),
        _ => ExitCode::SUCCESS,
    }
}

fn failed(error: &io::Error) -> ExitCode {
    eprintln!("tollgate: {error}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        let whole = Cli::command();
        let names = commands(&whole).into_iter().map(clap::Command::get_name);
        names.map(str::to_owned).collect()
    }

    #[test]
    fn every_command_is_completed_in_every_shell() {
        assert!(names().len() > 5, "the commands are found");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(completion_of(shell)).expect("text");
            for name in names() {
                assert!(script.contains(&name), "{shell}: {name}");
            }
        }
    }

    #[test]
    fn every_command_has_a_section_of_the_manual_page() {
        let page = String::from_utf8(manpage_text().expect("a page")).expect("text");
        for name in names() {
            let heading = format!(" {name}\"\n");
            assert!(page.contains(&heading), "{name}");
        }
    }
}
