//! Features of this kernel and system, probed once into one value that `doctor` prints.

use crate::pages::PageScan;
use crate::spawn::{HeldProgram, InheritedSignals};
use crate::sys::descriptors::HeldDescriptor;
use crate::sys::process;
use crate::{ClockOffsets, Furnishing, KernelVersion, NamespaceInit, NamespaceKind, Pid, SoftDirty};

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
        let first = HeldDescriptor { pid: own, number: 0 };
        let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
        let scope: u32 = scope.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let scan = PageScan::open(own).is_ok_and(|scan| scan.is_by_ioctl());
        let kind = if process::effective_user() == 0 { NamespaceKind::Pid } else { NamespaceKind::User };
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
                present: namespaces_work(kind),
                meaning: "without them a restarted program gets new process ids; programs that remember theirs (Go) are \
                          refused",
                remark: if kind == NamespaceKind::User { SEEN_IN_USER_NAMESPACE } else { SEEN_IN_PID_NAMESPACE },
            },
            Feature {
                name: "comparison of open files (kcmp)",
                present: process::same_open_file(first, first).is_ok(),
                meaning: "without it descriptors that share an offset cannot be distinguished from those that do not",
                remark: "",
            },
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

fn namespaces_work(kind: NamespaceKind) -> bool {
    let program = HeldProgram { path: c"/", personality: 0 };
    let furnishing = Furnishing { clocks: Some(ClockOffsets::default()), ..Furnishing::default() };
    match NamespaceInit::start(kind, Pid::new(300), furnishing, program, InheritedSignals::capture()) {
        Ok((init, held)) => {
            drop(held);
            init.destroy();
            true
        }
        Err(_) => false,
    }
}
