//! Features of this kernel and system, probed once into one value that `doctor` prints.

use crate::pages::PageScan;
use crate::spawn::{HeldProgram, InheritedSignals};
use crate::sys::{process, userfault};
use crate::{ClockOffsets, DescriptorPassage, Furnishing, KernelVersion, NamespaceInit, NamespaceKind, Pid, SoftDirty};
use std::io;

/// How the namespaces of a restarted job show to the job and its user.
const SEEN_IN_USER_NAMESPACE: &str = "a restarted program sees files of other users as nobody's, cannot use set-uid programs, and sees only its own processes; a pid file that it wrote is not valid outside its namespace";
const SEEN_IN_PID_NAMESPACE: &str =
    "a restarted program sees only its own processes; a pid file that it wrote is not valid outside its namespace";

/// One feature that the kernel or the system may or may not offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Whether the feature is present.
    pub present: bool,
    /// Consequence of its absence for the user.
    pub meaning: &'static str,
    /// Consequence of its presence if that may surprise, otherwise empty.
    pub remark: &'static str,
}

/// All probed features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features(pub Vec<Feature>);

impl Features {
    /// Probes this system. Starts (and ends) a process in namespaces of its own to check whether that is allowed, so
    /// call it while this process has a single thread.
    pub fn probe() -> Self {
        let own = Pid::own();
        let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
        let scope: u32 = scope.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let scan = PageScan::open(own).is_ok_and(|scan| scan.is_by_ioctl());
        let namespaces = try_namespaces();
        let [comparison, descriptors, notes] = of_containers();
        Self(vec![
            Feature {
                name: "Linux 5.10 or later",
                present: KernelVersion::running().is_none_or(|running| running >= KernelVersion::OLDEST),
                meaning: "without it no program can be run or restarted",
                remark: "",
            },
            Feature {
                name: "ptrace of own children",
                present: scope < 2 || scope == 2 && process::effective_user() == 0,
                meaning: "without it no program can be checkpointed (set kernel.yama.ptrace_scope to 1 or less; root may \
                          have 2)",
                remark: "",
            },
            Feature {
                name: "ptrace of a program whose supervisor died",
                present: scope == 0 || process::effective_user() == 0,
                meaning: "without it a program cannot be adopted after its supervisor was killed",
                remark: "",
            },
            Feature {
                name: "namespaces for restarted jobs",
                present: namespaces.is_ok(),
                meaning: "without them a restarted program gets new process ids, jobs of several processes and Go programs \
                          are refused, and after a reboot a restart needs --clock-jump",
                remark: match namespaces {
                    Ok(NamespaceKind::Pid) => SEEN_IN_PID_NAMESPACE,
                    Ok(NamespaceKind::User) | Err(_) => SEEN_IN_USER_NAMESPACE,
                },
            },
            comparison,
            descriptors,
            notes,
            Feature {
                name: "page table scan (PAGEMAP_SCAN, Linux 6.7)",
                present: scan,
                meaning: if SoftDirty::is_kept() {
                    "without it page tables are read word by word, slowly for large reservations; soft-dirty bits show what \
                     was written"
                } else {
                    "without it, and without soft-dirty bits (CONFIG_MEM_SOFT_DIRTY), each checkpoint reads and compares all \
                     memory"
                },
                remark: "",
            },
            Feature {
                name: "list of children (CONFIG_PROC_CHILDREN)",
                present: crate::proc::read(own, &format!("task/{own}/children")).is_ok(),
                meaning: "without it every process of the system is asked for its parent",
                remark: "",
            },
        ])
    }
}

/// Probes what seccomp profiles of containers forbid.
fn of_containers() -> [Feature; 3] {
    [
        Feature {
            name: "comparison of open files (kcmp)",
            present: process::may_compare(),
            meaning: "without it a flag shows which descriptors share an open file",
            remark: "",
        },
        Feature {
            name: "descriptors of other processes (pidfd_getfd)",
            present: !DescriptorPassage::is_needed(),
            meaning: "without it a checkpoint makes the program send its descriptors, and programs that use inotify are \
                      refused",
            remark: "",
        },
        Feature {
            name: "notes of writes (userfaultfd)",
            // A process like this one may make them if this one may.
            present: userfault::create().is_ok(),
            meaning: "without it each checkpoint reads and compares all memory",
            remark: "",
        },
    ]
}

/// Makes namespaces as a restarted job gets them, and ends them. Call it while this process has a single thread.
///
/// # Errors
/// When the system allows none, or does not let ids be chosen there.
pub fn try_namespaces() -> io::Result<NamespaceKind> {
    let mut tried = Err(io::ErrorKind::Unsupported.into());
    for kind in NamespaceKind::of_this_user() {
        tried = try_kind(*kind).map(|()| *kind);
        if tried.is_ok() {
            break;
        }
    }
    tried
}

fn try_kind(kind: NamespaceKind) -> io::Result<()> {
    /// Any id: nothing else is in the namespace.
    const ID: i32 = 300;
    let program = HeldProgram { path: c"/", personality: 0 };
    let furnishing = Furnishing { clocks: Some(ClockOffsets::default()), ..Furnishing::default() };
    let (init, held) = NamespaceInit::start(kind, Pid::new(ID), furnishing, program, InheritedSignals::capture())?;
    drop(held);
    let chosen = init.choose_next_id(ID + 1);
    init.destroy();
    chosen
}
