//! Options that take effect when a program starts. The job keeps what they did: its manifest describes the saved folders,
//! and the program has its environment and its terminal. So a restart takes none of them.

use crate::settings::SaveFolder;
use crate::terminal::TerminalKind;
use clap::ValueHint;
use standfast_engine::Assistance;

/// Options that take effect when a program starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
pub struct LaunchOptions {
    /// Save this directory with every checkpoint, whether its files are open or not, and restore it as a whole: a
    /// restart removes what was added since. For a database that runs in the job, for example. 'auto' saves the files
    /// that the job was seen to write where it works, and moves away files that it created since. Can be given more
    /// than once
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub save_folder: Vec<SaveFolder>,
    /// For programs with libstandfast: report writes to memory excluded as read-only, and fill dead memory with a
    /// pattern at each restart
    #[arg(long)]
    pub check_exclusions: bool,
    /// For programs with libstandfast: exclude the allocator's free memory from all checkpoints. A thread of the
    /// library releases it before each one
    #[arg(long)]
    pub free_memory: bool,
    /// Terminal of the program: 'shared' with this command; 'proxied': its own, with job control, which survives a
    /// crash and can be detached from; 'auto': proxied for an interactive shell, else shared
    #[arg(long, value_name = "KIND", default_value_t)]
    pub terminal: TerminalKind,
}

impl LaunchOptions {
    /// Returns the tasks of the program's libstandfast, if it has one.
    pub(crate) fn assistance(&self) -> Assistance {
        Assistance { check_exclusions: self.check_exclusions, free_memory: self.free_memory }
    }
}
