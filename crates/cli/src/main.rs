//! The `standfast` command: reads the command line, calls the facade, and writes the answer. It makes no decisions
//! about jobs.
#![forbid(unsafe_code)]

mod answers;
mod arguments;
mod batch;
mod group;
mod homes;
mod leave;
mod output;
mod page;
mod part;
mod program;
mod progress_bar;
mod refusals;
mod reporter;
mod settings;
mod slurm;
mod supervise;
mod tables;
mod watching;
mod whole;

use arguments::Command;
use reporter::{Reporter, say};
use std::process::ExitCode;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| say(&format!("internal error, please report it: {panic}"))));
    let line: Vec<_> = std::env::args_os().collect();
    let arguments = match settings::arguments(&line) {
        Ok(arguments) => arguments,
        Err(error) => {
            say(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    let reporter = Reporter::new(arguments.volume);
    let outcome = match arguments.command {
        Command::Run(run) => supervise::run(run, reporter),
        Command::Attach(attach) => supervise::attach(attach),
        Command::Restart(restart) => supervise::restart(restart, reporter),
        Command::Group(question) => group::answer(question),
        Command::Part(part) => part::answer(part),
        Command::Batch(batch) => answers::print_script(&batch, &line),
        question => answers::answer(question),
    };
    outcome.unwrap_or_else(|error| {
        say(&error.to_string());
        ExitCode::FAILURE
    })
}
