//! What a life of a job was given when it started, so that a collection can distinguish it from what the program opened.

use crate::ProcessIdentity;
use crate::files::FileId;
use crate::tree::Roots;
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::{self, DescriptorInformation};
use standfast_linux::system_v::{SystemVKind, SystemVObject};

/// Objects by kind and id.
pub(crate) type KnownObjects = Vec<(SystemVKind, i32)>;

/// Returns all objects in our IPC namespace, for a job that is about to begin.
pub(crate) fn known_here() -> Option<KnownObjects> {
    SystemVObject::all().ok().map(|all| all.iter().map(|object| (object.kind, object.id)).collect())
}

/// What a life of the job was given when it started, by device and inode. A collection thus distinguishes it from what
/// the program has opened itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Inheritance {
    /// The standard streams; `None` for one that was closed.
    pub(crate) streams: [Option<FileId>; 3],
    /// Other descriptors, by number.
    pub(crate) others: Vec<(i32, FileId)>,
    /// System V objects that existed before; `None` if that is unknown.
    pub(crate) system_v: Option<KnownObjects>,
}

impl Inheritance {
    /// Returns what a child of this process inherits. Our own descriptors are closed on exec, so they do not count.
    pub(crate) fn of_children() -> Self {
        let own = Pid::own();
        let numbers = proc::numbers(own, "fd").unwrap_or_default();
        let inherited = Self::of(own, numbers.into_iter().filter(|number| is_inherited(*number)));
        Self { system_v: known_here(), ..inherited }
    }

    /// Returns the best guess for a running program that another process has started. Its standard streams are those
    /// that it has now. Of the rest, only a pipe whose other end is outside can have been given to it.
    pub(crate) fn of_orphan(pid: Pid) -> Self {
        let ends = pipe_ends(pid);
        // The program holds only one end of a pipe to one of its children.
        let main = ProcessIdentity::of(pid).unwrap_or(ProcessIdentity { pid, start_time: 0 });
        let members = Roots { main, reaper: None }.members();
        let of_job: Vec<PipeEnd> = members.iter().flat_map(|member| pipe_ends(member.pid)).collect();
        let foreign = |number: i32, inode: u64| {
            ends.iter().any(|end| end.number == number)
                && !(of_job.iter().any(|end| end.inode == inode && end.reads)
                    && of_job.iter().any(|end| end.inode == inode && end.writes))
        };
        let mut inheritance = Self::of(pid, ends.iter().map(|end| end.number));
        inheritance.others.retain(|(number, file)| foreign(*number, file.inode));
        for (number, stream) in (0..).zip(&mut inheritance.streams) {
            let is_pipe = ends.iter().any(|end| end.number == number);
            *stream = stream.filter(|file| !is_pipe || foreign(number, file.inode));
        }
        inheritance
    }

    /// Returns the standard streams of a process, and the given other descriptors.
    fn of(pid: Pid, numbers: impl Iterator<Item = i32>) -> Self {
        let identity = |number: i32| {
            let file = std::fs::metadata(format!("/proc/{pid}/fd/{number}")).ok()?;
            Some(FileId::of(&file))
        };
        let others = numbers.filter(|number| *number > 2);
        Self {
            streams: [0, 1, 2].map(identity),
            others: others.filter_map(|number| Some((number, identity(number)?))).collect(),
            system_v: None,
        }
    }
}

/// One end of an unnamed pipe.
struct PipeEnd {
    number: i32,
    inode: u64,
    reads: bool,
    writes: bool,
}

fn pipe_ends(pid: Pid) -> Vec<PipeEnd> {
    const O_ACCMODE: u32 = abi::O_ACCMODE as u32;
    const O_WRONLY: u32 = abi::O_WRONLY as u32;
    let end = |number: i32| {
        let target = proc::link(pid, &format!("fd/{number}")).ok()?;
        let inode = target.strip_prefix(b"pipe:[")?.strip_suffix(b"]")?;
        let access = DescriptorInformation::of(pid, number).ok()?.flags & O_ACCMODE;
        let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
        Some(PipeEnd { number, inode, reads: access != O_WRONLY, writes: access != 0 })
    };
    proc::numbers(pid, "fd").unwrap_or_default().into_iter().filter_map(end).collect()
}

/// Reports whether a descriptor of this process survives an exec.
pub(crate) fn is_inherited(number: i32) -> bool {
    const O_CLOEXEC: u32 = abi::O_CLOEXEC as u32;
    let information = DescriptorInformation::of(Pid::own(), number);
    information.is_ok_and(|information| information.flags & O_CLOEXEC == 0)
}
