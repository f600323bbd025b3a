//! `group run`: launches a job of many processes, and ends as its last launch did.

use crate::arguments::GroupRun;
use crate::leave::leave;
use crate::program;
use crate::voice::say;
use standfast::{Ending, GroupEnding, GroupRequest};
use std::process::ExitCode;

pub(crate) fn run(run: GroupRun) -> anyhow::Result<ExitCode> {
    let launcher = &run.command[0];
    if let Err(missing) = program::find(launcher, std::env::var_os("PATH")) {
        say(&missing.message(launcher));
        return Ok(ExitCode::from(missing.exit_status()));
    }
    let request = GroupRequest { directory: run.directory, tries: run.tries, command: run.command };
    match standfast::run_group(&request, &mut |notice| say(&notice.to_string()))? {
        GroupEnding::Done => Ok(ExitCode::SUCCESS),
        GroupEnding::Failed(status) => leave(Ending::Exited { status }),
        GroupEnding::Killed(signal) => leave(Ending::Killed { signal }),
    }
}
