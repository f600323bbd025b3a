//! Open files that cannot be restored, whatever they hold. Each kind has its reason and, if there is one, a workaround.

use super::Unsupported;
use crate::RefusalCode;

/// A kind of open file that is refused.
struct Kind {
    /// The beginning of the name that the kernel shows.
    shown: &'static str,
    code: RefusalCode,
    why: &'static str,
    /// The workaround; empty if there is none.
    hint: &'static str,
}

/// The first match counts.
const KINDS: [Kind; 24] = [
    Kind {
        shown: "anon_inode:[io_uring]",
        code: RefusalCode::IoUring,
        why: "io_uring cannot be checkpointed: the kernel may be writing into the program's memory",
        hint: "",
    },
    Kind {
        shown: "anon_inode:[userfaultfd]",
        code: RefusalCode::Userfaultfd,
        why: "the program handles page faults of its own (userfaultfd), which only the program itself could set up again",
        hint: "",
    },
    Kind {
        shown: "anon_inode:[perf_event]",
        code: RefusalCode::PerfEvent,
        why: "a performance counter (perf) belongs to the processor that it counted on",
        hint: "run it without profiling",
    },
    Kind {
        shown: "anon_inode:bpf",
        code: RefusalCode::Bpf,
        why: "a BPF program or map lives in the kernel, which does not give it back",
        hint: "",
    },
    Kind {
        shown: "anon_inode:btf",
        code: RefusalCode::Bpf,
        why: "a BPF program or map lives in the kernel, which does not give it back",
        hint: "",
    },
    Kind {
        shown: "anon_inode:kvm",
        code: RefusalCode::VirtualMachine,
        why: "a virtual machine (KVM) lives in the kernel and the processor",
        hint: "checkpoint inside the virtual machine",
    },
    Kind {
        shown: "anon_inode:[fanotify]",
        code: RefusalCode::Fanotify,
        why: "fanotify needs privileges that a restart does not have",
        hint: "",
    },
    Kind {
        shown: "anon_inode:[landlock-ruleset]",
        code: RefusalCode::LandlockRules,
        why: "a Landlock rule set cannot be read back",
        hint: "",
    },
    Kind {
        shown: "anon_inode:seccomp notify",
        code: RefusalCode::SeccompSupervisor,
        why: "it decides system calls of another program (seccomp)",
        hint: "",
    },
    Kind {
        shown: "anon_inode:[fscontext]",
        code: RefusalCode::MountInProgress,
        why: "a file system is being mounted",
        hint: "",
    },
    Kind {
        shown: "anon_inode:[secretmem]",
        code: RefusalCode::SecretMemory,
        why: "secret memory is hidden from everybody, Standfast included",
        hint: "",
    },
    Kind {
        shown: "/secretmem",
        code: RefusalCode::SecretMemory,
        why: "secret memory is hidden from everybody, Standfast included",
        hint: "",
    },
    Kind {
        shown: "anon_inode:sync_file",
        code: RefusalCode::Gpu,
        why: "it belongs to a graphics processor, whose state cannot be saved",
        hint: "run it without GPU",
    },
    Kind {
        shown: "anon_inode:dmabuf",
        code: RefusalCode::Gpu,
        why: "it belongs to a graphics processor, whose state cannot be saved",
        hint: "run it without GPU",
    },
    Kind {
        shown: "/dmabuf:",
        code: RefusalCode::Gpu,
        why: "it belongs to a graphics processor, whose state cannot be saved",
        hint: "run it without GPU",
    },
    Kind {
        shown: "anon_inode:[infinibandevent]",
        code: RefusalCode::Rdma,
        why: "it belongs to an RDMA device, whose state cannot be saved",
        hint: "let MPI use TCP or shared memory",
    },
    Kind {
        shown: "anon_inode:[uverbs",
        code: RefusalCode::Rdma,
        why: "it belongs to an RDMA device, whose state cannot be saved",
        hint: "let MPI use TCP or shared memory",
    },
    Kind {
        shown: "/dev/infiniband/",
        code: RefusalCode::Rdma,
        why: "an RDMA device keeps state that cannot be saved",
        hint: "let MPI use TCP or shared memory",
    },
    Kind {
        shown: "/dev/nvidia",
        code: RefusalCode::Gpu,
        why: "a GPU keeps state that cannot be saved",
        hint: "run it without GPU (CUDA_VISIBLE_DEVICES=)",
    },
    Kind {
        shown: "/dev/dri/",
        code: RefusalCode::Gpu,
        why: "a GPU keeps state that cannot be saved",
        hint: "run it without GPU",
    },
    Kind {
        shown: "/dev/kfd",
        code: RefusalCode::Gpu,
        why: "a GPU keeps state that cannot be saved",
        hint: "run it without GPU",
    },
    Kind {
        shown: "/dev/kvm",
        code: RefusalCode::VirtualMachine,
        why: "a virtual machine (KVM) lives in the kernel and the processor",
        hint: "checkpoint inside the virtual machine",
    },
    Kind { shown: "/dev/fuse", code: RefusalCode::Fuse, why: "it serves a file system to others", hint: "" },
    Kind { shown: "/dev/", code: RefusalCode::Device, why: "a device that may keep state of its own", hint: "" },
];

/// Returns why an open file that the kernel shows as `target` cannot be restored.
pub(super) fn reason(target: &[u8]) -> Unsupported {
    match KINDS.iter().find(|kind| target.starts_with(kind.shown.as_bytes())) {
        Some(kind) => Unsupported::with_hint(kind.code, kind.why, kind.hint),
        None => Unsupported::because(RefusalCode::UnknownDescriptor, "descriptors of this kind are not supported yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not every machine has such devices.
    #[test]
    fn hardware_devices_are_refused_with_a_hint() {
        for (target, word) in [
            ("/dev/nvidia0", "GPU"),
            ("/dev/dri/renderD128", "GPU"),
            ("/dev/kfd", "GPU"),
            ("anon_inode:sync_file", "graphics"),
            ("/dmabuf:", "graphics"),
            ("/dev/infiniband/uverbs0", "RDMA"),
            ("anon_inode:[infinibandevent]", "RDMA"),
            ("anon_inode:kvm-vcpu:0", "virtual machine"),
            ("anon_inode:kvm-vm", "virtual machine"),
        ] {
            let Unsupported::Refused(refused) = reason(target.as_bytes()) else { panic!("{target} is not refused") };
            assert!(refused.why.contains(word) && !refused.hint.is_empty(), "{target}: {refused:?}");
        }
    }

    #[test]
    fn no_device_kind_is_hidden_by_an_earlier_entry() {
        for (place, kind) in KINDS.iter().enumerate() {
            let found = KINDS.iter().position(|other| kind.shown.starts_with(other.shown));
            assert_eq!(found, Some(place), "{} is hidden behind an entry before it", kind.shown);
        }
    }
}
