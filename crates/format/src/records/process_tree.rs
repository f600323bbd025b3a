//! Records of the relations between processes.

use minicbor::{Decode, Encode};

/// The place of a process in the tree of its job.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ProcessTree {
    /// Position of its parent in [`super::JobState::processes`]; `None` for the main process, and for processes whose
    /// parent has ended.
    #[n(0)]
    pub parent: Option<u32>,
    /// Id of its process group, as the program sees it; 0 for the group in which the job was started, if the job does
    /// not lead it.
    #[n(1)]
    pub process_group: i32,
    /// Its session; 0 for the session in which the job was started.
    #[n(2)]
    pub session: i32,
    /// Its exit status as in `waitpid(2)`, if it is a zombie. For a zombie only its id and name are recorded besides.
    #[n(3)]
    pub wait_status: Option<i32>,
    /// The signal by which job control stopped it.
    #[n(4)]
    pub stopped_by: Option<u8>,
    /// Whether it shares the descriptor table with its parent.
    #[n(5)]
    pub shares_descriptors: bool,
    /// The signal that its parent gets when it ends, if it has a parent; 0 for none.
    #[n(6)]
    pub exit_signal: u8,
    /// Its position among the children of its parent, oldest first.
    #[n(7)]
    pub birth: u32,
    /// A state change that its parent has not waited for yet.
    #[n(8)]
    pub unreported: Option<Unreported>,
    /// Whether it has no controlling terminal although its session has one (`TIOCNOTTY`).
    #[n(9)]
    pub without_terminal: bool,
}

/// A state change of a living child that wait(2) reports once.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Unreported {
    /// Job control stopped it.
    #[n(0)]
    Stopped,
    /// It was continued.
    #[n(1)]
    Continued,
}
