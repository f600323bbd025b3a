//! Records of what processes are to each other.

use minicbor::{Decode, Encode};

/// The place of a process in the tree of its job.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ProcessTree {
    /// Its parent's position in [`super::JobState::processes`]; `None` for the main process, and for those whose parent has
    /// ended.
    #[n(0)]
    pub parent: Option<u32>,
    /// Its process group, by the id that the program sees; 0 for the one that the job was started in and does not lead.
    #[n(1)]
    pub process_group: i32,
    /// Its session; 0 for the one that the job was started in.
    #[n(2)]
    pub session: i32,
    /// How it ended, as `waitpid(2)` has it, if it is a zombie: then nothing else of it is recorded but its id and name.
    #[n(3)]
    pub wait_status: Option<i32>,
    /// The signal with which job control has stopped it.
    #[n(4)]
    pub stopped_by: Option<u8>,
    /// Whether it shares the table of descriptors with its parent.
    #[n(5)]
    pub shares_descriptors: bool,
    /// The signal that tells its parent of its end, if it has a parent; 0 for none.
    #[n(6)]
    pub exit_signal: u8,
    /// Its place among the children of its parent, oldest first.
    #[n(7)]
    pub birth: u32,
    /// What its parent has not asked for yet, and would be told by a wait.
    #[n(8)]
    pub unreported: Option<Unreported>,
    /// Whether it has no controlling terminal though its session has one (`TIOCNOTTY`).
    #[n(9)]
    pub without_terminal: bool,
}

/// What a wait(2) for a living child may tell, once.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Unreported {
    /// That job control has stopped it.
    #[n(0)]
    Stopped,
    /// That it has been continued.
    #[n(1)]
    Continued,
}
