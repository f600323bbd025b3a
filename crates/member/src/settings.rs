//! Settings on which a job's processes agree before they begin.

use crate::encode_every::EncodeEvery;
use crate::error::MemberError;
use crate::regions::RegionTracking;
use standfast_core::Checksum;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::transfer::Costs;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The default cost of sending, if it was not measured.
pub(crate) const COSTS: Costs = Costs { latency_nanoseconds: 5_000, page_nanoseconds: 2_000 };

/// The settings of one process. All but `memory` and `node` must be the same in all processes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The job: the same again when it is relaunched, and never another job's.
    pub job: JobId,
    /// The memory file system of this node, usually `/dev/shm`.
    pub memory: PathBuf,
    /// The name of the node: processes with the same name lose their memory together.
    pub node: String,
    /// The code.
    pub scheme: Scheme,
    /// Most members of a group.
    pub group_members: usize,
    /// How changes are found.
    pub tracking: RegionTracking,
    /// The cost of sending, as far as it is known.
    pub costs: Costs,
    /// Whether differences travel in word form if that pays.
    pub compress: bool,
    /// A directory that all nodes see, for when more is lost than the code tolerates; `None` for memory alone.
    pub directory: Option<PathBuf>,
    /// Interval at which epochs are copied to it in the background; 0 for none. If such an epoch is not encoded, the next
    /// encoded one is copied.
    pub directory_every: u64,
    /// Which epochs are encoded; the others are local.
    pub encode_every: EncodeEvery,
    /// File in which the first process reports the progress of the launch ([`LaunchProgress`](crate::LaunchProgress));
    /// `None` for no reports.
    pub launch_progress: Option<PathBuf>,
}

/// Returns the job with this name.
pub fn job_named(name: &[u8]) -> JobId {
    JobId::from_bytes(Checksum::of(name).to_bytes())
}

/// Returns what distinguishes this memory file system from that of every other node, and from an earlier one of this
/// node. Processes with the same identity lose their memory together.
///
/// # Errors
/// If the file system does not exist.
pub fn memory_identity(memory: &Path) -> Result<String, MemberError> {
    let metadata = fs::metadata(memory).map_err(MemberError::file(memory))?;
    let boot = Path::new("/proc/sys/kernel/random/boot_id");
    let boot = fs::read_to_string(boot).map_err(MemberError::file(boot))?;
    Ok(format!("{} {} {}", boot.trim(), metadata.dev(), metadata.ino()))
}

impl Settings {
    /// Returns the default settings: parity over groups of eight.
    pub fn new(job: JobId, memory: PathBuf, node: String) -> Self {
        Self {
            job,
            memory,
            node,
            scheme: Scheme::Parity,
            group_members: 8,
            tracking: RegionTracking::Auto,
            costs: COSTS,
            compress: true,
            directory: None,
            directory_every: 0,
            encode_every: EncodeEvery::default(),
            launch_progress: None,
        }
    }

    /// Describes in words what must be the same in all processes.
    pub(crate) fn terms(&self) -> String {
        let (version, scheme, members) = (env!("CARGO_PKG_VERSION"), self.scheme, self.group_members);
        let directory = match &self.directory {
            Some(path) => format!("every {} epochs to {}", self.directory_every, path.display()),
            None => "no directory".into(),
        };
        let encoded = self.encode_every;
        format!("version {version}, {scheme:?}, groups of {members}, 1 epoch in {encoded} encoded, {directory}")
    }
}
