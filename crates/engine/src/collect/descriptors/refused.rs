//! Open files that cannot be brought back, whatever they hold: each kind with its reason and, where there is one, a way
//! round it.

use super::Unsupported;

/// How the kernel shows it, why it is refused, what to do about it.
const KINDS: [(&str, &str, &str); 24] = [
    (
        "anon_inode:[io_uring]",
        "io_uring cannot be checkpointed: the kernel may be writing into the program's memory",
        "Node.js: set UV_USE_IO_URING=0",
    ),
    (
        "anon_inode:[userfaultfd]",
        "the program handles page faults of its own (userfaultfd), which only the program itself could set up again",
        "",
    ),
    (
        "anon_inode:[perf_event]",
        "a performance counter (perf) belongs to the processor that it counted on",
        "run it without profiling",
    ),
    ("anon_inode:bpf", "a BPF program or map lives in the kernel, which does not give it back", ""),
    ("anon_inode:btf", "a BPF program or map lives in the kernel, which does not give it back", ""),
    (
        "anon_inode:kvm",
        "a virtual machine (KVM) lives in the kernel and the processor",
        "checkpoint inside the virtual machine",
    ),
    ("anon_inode:[fanotify]", "fanotify needs privileges that a restart does not have", ""),
    ("anon_inode:[landlock-ruleset]", "a Landlock rule set cannot be read back", ""),
    ("anon_inode:seccomp notify", "it decides system calls of another program (seccomp)", ""),
    ("anon_inode:[fscontext]", "a file system is being mounted", ""),
    ("anon_inode:[secretmem]", "secret memory is hidden from everybody, Standfast included", ""),
    ("/secretmem", "secret memory is hidden from everybody, Standfast included", ""),
    ("anon_inode:sync_file", "it belongs to a graphics processor, whose state cannot be saved", "run it without GPU"),
    ("anon_inode:dmabuf", "it belongs to a graphics processor, whose state cannot be saved", "run it without GPU"),
    ("/dmabuf:", "it belongs to a graphics processor, whose state cannot be saved", "run it without GPU"),
    (
        "anon_inode:[infinibandevent]",
        "it belongs to an RDMA device, whose state cannot be saved",
        "let MPI use TCP or shared memory",
    ),
    (
        "anon_inode:[uverbs",
        "it belongs to an RDMA device, whose state cannot be saved",
        "let MPI use TCP or shared memory",
    ),
    ("/dev/infiniband/", "an RDMA device keeps state that cannot be saved", "let MPI use TCP or shared memory"),
    ("/dev/nvidia", "a GPU keeps state that cannot be saved", "run it without GPU (CUDA_VISIBLE_DEVICES=)"),
    ("/dev/dri/", "a GPU keeps state that cannot be saved", "run it without GPU"),
    ("/dev/kfd", "a GPU keeps state that cannot be saved", "run it without GPU"),
    (
        "/dev/kvm",
        "a virtual machine (KVM) lives in the kernel and the processor",
        "checkpoint inside the virtual machine",
    ),
    ("/dev/fuse", "it serves a file system to others", ""),
    ("/dev/", "a device that may keep state of its own", ""),
];

/// Why an open file that the kernel shows as `target` cannot be brought back.
pub(super) fn reason(target: &[u8]) -> Unsupported {
    match KINDS.iter().find(|(shown, ..)| target.starts_with(shown.as_bytes())) {
        Some((_, why, remedy)) => Unsupported::with_remedy(*why, remedy),
        None => Unsupported::because("a descriptor of this kind cannot be brought back yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such devices are not to be had on every machine.
    #[test]
    fn what_keeps_state_in_hardware_is_named_with_a_way_round_it() {
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
            let Unsupported::Refused { why, remedy } = reason(target.as_bytes()) else {
                panic!("{target} is not refused")
            };
            assert!(why.contains(word) && !remedy.is_empty(), "{target}: {why}; {remedy}");
        }
    }

    #[test]
    fn a_device_is_named_for_what_it_is_before_it_is_named_a_device() {
        for (place, (shown, ..)) in KINDS.iter().enumerate() {
            let found = KINDS.iter().position(|(other, ..)| shown.starts_with(other));
            assert_eq!(found, Some(place), "{shown} is hidden behind an entry before it");
        }
    }
}
