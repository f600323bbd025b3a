//! The catalogue of refusals: every reason why a job cannot be checkpointed or restarted, with a code that never changes.
//!
//! A code is added at the end of its hundred and is never given to another reason. `standfast explain CODE` prints the
//! paragraph; `docs/refusals.md` lists them all.

use std::fmt;
use std::str::FromStr;

/// Declares the codes: number, name, title, paragraph.
macro_rules! refusal_codes {
    ($($number:literal $name:ident $title:literal $explanation:literal)*) => {
        /// Why a job cannot be checkpointed or restarted, written `SF0101`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum RefusalCode {
            $(#[doc = $title] $name = $number,)*
        }

        impl RefusalCode {
            /// All codes, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the reason in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// Returns a paragraph that says what the blocker is, and what a user can do.
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$name => $explanation,)* }
            }
        }
    };
}

refusal_codes! {
    101 Traced "another program traces the process"
        "A debugger, strace or another tracer is attached to the process. Only one tracer can be attached at a time, and a checkpoint needs to be that one. Detach the other tracer."

    102 SharedContext "two processes share memory, a directory or descriptors"
        "The processes were made with clone(2) flags that only threads usually have: they share their memory, their working directory or their table of descriptors. A restart cannot rebuild this combination yet. A child of vfork(2) shares its parent's memory only until it executes a program, so that a later checkpoint succeeds."

    103 OwnContext "a process has namespaces or credentials of its own"
        "A process of the job is in another namespace, has another root directory, or runs as another user than the process that started it. An unprivileged restart cannot give it these again. Start the whole job inside that namespace or as that user, for example `standfast run` inside the container."

    104 ThreadContext "a thread has credentials, a directory or descriptors of its own"
        "A thread differs from its process in its user, its namespaces, its working directory or its table of descriptors. A restart gives all threads of a process the same. Few programs do this; those that do can usually be told not to."

    105 CoreDumped "a child that left a core file has not been waited for"
        "The child has ended and dumped its core, and its parent has not called wait(2) yet. A restart would have to dump another core to show the parent the same status. The next checkpoint after the parent's wait succeeds."

    106 ParentDeathSignal "a process expects a signal when a thread of its parent ends"
        "The process asked with PR_SET_PDEATHSIG for a signal at the end of its parent, and it was made by a thread other than the parent's main thread: the kernel sends the signal when that thread ends. A restart makes all processes from main threads."

    107 ProcessTree "the sessions and process groups cannot be rebuilt"
        "A restart makes every process as a child of a process that is in the session it needs. In this job the processes that could do so have ended. Let the session leader stay until its processes have ended."

    108 EndedMeanwhile "a process was killed during the checkpoint"
        "Somebody else killed a process of the job while the checkpoint was taken. The checkpoint is abandoned and the next one sees the job as it is then."

    109 WorkingDirectory "the working directory cannot be entered again"
        "The path of the working directory leads to another directory now, or nowhere, or the user may not enter it. A restart enters working directories by their paths. Start the program in a directory that stays."

    110 Executable "the program file has been replaced"
        "The file that a process executes, or a library that it has mapped, is no longer the one on disk, and no copy of it was saved (for example after an upgrade of the package). Start the program again from the installed files; later upgrades do no harm, because Standfast saves the files that a job uses."

    111 Sandbox "the program has restricted itself with seccomp or Landlock"
        "The program has installed a seccomp filter or entered a Landlock sandbox. The kernel does not hand these out, so that a restarted program would be free of them. Run it without its sandbox (browsers: --no-sandbox)."

    112 ShadowStack "a thread runs on a hardware shadow stack"
        "The processor keeps a second, protected stack of return addresses for the thread, which cannot be rebuilt yet. Switch it off with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off."

    113 SecurityBits "the program has changed its security bits"
        "The program has changed with PR_SET_SECUREBITS what privileges mean to it. Start it under capsh(1) with these bits set, so that a restart finds them in place."

    114 ThirtyTwoBit "the program runs 32-bit code"
        "A thread runs 32-bit code. Only 64-bit programs can be checkpointed."

    115 SystemCall "a thread waits in a system call that cannot be repeated"
        "The kernel interrupted a system call of the thread in a way that hides its number. This lasts for a moment; the next checkpoint succeeds."

    116 ParasiteArea "no memory could be borrowed from the program"
        "A checkpoint runs a few system calls inside the program and borrows a page of its address space for them. None was free at this moment."

    117 PosixTimer "a POSIX timer cannot be read"
        "A timer measures a clock that the kernel does not name, or belongs to a thread that the kernel does not name, or the kernel was built without CONFIG_CHECKPOINT_RESTORE and lists no timers. Timers on CLOCK_REALTIME and CLOCK_MONOTONIC can always be checkpointed."

    118 SignalsArriving "signals kept arriving"
        "Timers fired faster than their states could be read. The next checkpoint tries again."

    119 SyscallUserDispatch "a thread handles system calls of its own"
        "The thread has asked the kernel to deliver its system calls to itself as signals (PR_SET_SYSCALL_USER_DISPATCH), as emulators like Wine do. A checkpoint makes system calls in the thread and would be caught. The next checkpoint after the program has switched this off succeeds."

    120 LocalDescriptors "the program has entries in its local descriptor table"
        "The program has made segments of its own with modify_ldt(2), as emulators of 16-bit and 32-bit programs do. A restart cannot make them again yet. Run the program without the emulation."

    121 HiddenSequences "a thread has registered restartable sequences where this kernel does not show them"
        "Programs with a C library of 2022 or later register restartable sequences (rseq). A kernel before Linux 5.13 does not show where; Standfast finds those of glibc. Run the program without them, with GLIBC_TUNABLES=glibc.pthread.rseq=0, or on a newer kernel."

    122 MainThreadEnded "the main thread of a process has ended while others run"
        "The program has ended its main thread with pthread_exit(3), and other threads continue. The kernel then hides what a checkpoint must read. Let the main thread wait for the others instead."

    123 OtherUser "a process belongs to another user"
        "Only its own user and root may read the memory of a process. Run standfast as that user."

    124 TracingForbidden "the process may not be traced"
        "A checkpoint stops a process and reads its memory, as a debugger does. Programs that guard secrets forbid that (PR_SET_DUMPABLE, set-uid), and so do kernel.yama.ptrace_scope=3, scope 2 for all but root, and the rules of most containers for a process that is no child of standfast's. `standfast doctor` says what this system allows."

    201 PinnedMemory "memory is pinned for a device or for io_uring"
        "A device (RDMA, GPU) or io_uring may write to these pages at any moment without the kernel noticing. Run the program without them: let MPI use TCP or shared memory, and set UV_USE_IO_URING=0 for Node.js."

    202 Mapping "a mapping of an unsupported kind"
        "The program has mapped something whose contents are not ordinary memory or a file: kernel asynchronous I/O, a device, or a mapping of the kernel's that this version does not know."

    203 SharedHugePages "shared huge pages from the system's pool"
        "The program shares huge pages from the pool: memory mapped with MAP_SHARED and MAP_HUGETLB, a memfd made with MFD_HUGETLB, or a System V segment made with SHM_HUGETLB. Run it without them; PostgreSQL: huge_pages = off. Private huge pages and transparent ones are supported."

    204 HiddenPages "pages that only a privileged reader can read"
        "The memory below guarded pages, or below changed pages of a private memfd mapping whose descriptor is closed, is visible to a privileged reader only. Keep the memfd open, or run standfast as root."

    205 MappedFile "a mapped file cannot be read or mapped again"
        "The program writes to a file through a mapping, and the user may not read the file, or may not open it for writing again, or it was replaced. Give the user the rights to the file and keep it in place."

    206 SystemVMapping "a System V segment is not attached as a whole"
        "Only a part of the shared memory segment is still mapped, or its segment is gone. Attach segments whole."

    301 IoUring "io_uring"
        "The kernel may be carrying out requests of an io_uring and writing into the program's memory. Most programs use io_uring only if it is there: set UV_USE_IO_URING=0 for Node.js, innodb_use_native_aio=0 for MariaDB, or the option of your program."

    302 Userfaultfd "userfaultfd"
        "The program handles page faults of its own. The kernel does not hand out this state; only the program itself could set it up again."

    303 PerfEvent "a performance counter"
        "A counter of perf_event_open(2) belongs to the processor that it counted on. Run the program without profiling."

    304 Bpf "a BPF program or map"
        "BPF programs and maps live in the kernel, which does not hand them out."

    305 VirtualMachine "a KVM virtual machine"
        "The state of a virtual machine lives in the kernel and the processor. Run standfast inside the virtual machine, or use the snapshots of the hypervisor."

    306 Fanotify "fanotify"
        "Watches of fanotify(7) need privileges that a restart does not have."

    307 LandlockRules "a Landlock rule set under construction"
        "The rules of an open rule set cannot be read back."

    308 SeccompSupervisor "a seccomp supervisor"
        "The descriptor decides system calls of another program (seccomp user notification), which a restart could not connect again."

    309 MountInProgress "a file system is being mounted"
        "The descriptor of fsopen(2) holds a mount that is not complete."

    310 SecretMemory "secret memory"
        "Memory of memfd_secret(2) is hidden from everybody, Standfast included."

    311 Gpu "a GPU"
        "The driver and the device keep state that cannot be saved. Run the program without the GPU (CUDA_VISIBLE_DEVICES= for CUDA), or let it close the device before a checkpoint."

    312 Rdma "an RDMA device"
        "The device keeps connections and memory registrations that cannot be saved. Let MPI use TCP or shared memory (Open MPI: --mca btl tcp,self,sm, before 5.0 vader for sm; MPICH: FI_PROVIDER=tcp)."

    313 Fuse "the program serves a file system (FUSE)"
        "Other programs use the file system while this one is stopped, and would hang. Run the file system server outside the job."

    314 Device "a device file"
        "The device may keep state of its own that cannot be saved. Devices without state (/dev/null, /dev/zero, /dev/random, terminals) are supported."

    315 UnknownDescriptor "a descriptor of an unsupported kind"
        "This version of Standfast does not know the kind of the descriptor. Please report it with the name that the message shows."

    316 PathChanged "an open file or directory is no longer under its path"
        "The file or directory was renamed, replaced, removed or covered by a mount since the program opened it. A restart opens files by their paths. Keep them in place while the program has them open."

    317 NamelessFile "a file without a name cannot be saved"
        "The file was deleted after it was opened. Standfast saves such files in the image, but not if they are larger than 1 GiB, if they were inherited and may be shared with other programs, or if they cannot be read."

    318 Permission "the user may not open a file again"
        "The descriptor was handed down by another user (for example by root through a log file), and a restart runs with the user's own rights. Start the program with files that its own user may open, or run the job as that other user."

    319 FileLease "the program holds a lease on a file"
        "A lease of F_SETLEASE cannot be taken again at a restart. Release it before a checkpoint."

    320 Inotify "an inotify watch cannot be set up again"
        "The kernel names a watched file by its inode only, and its path was not found among the open files, directories and the working directory; or there are unread events. Watch files by paths in the working directory, and read the events."

    321 KernelTooOld "this kernel does not report what is needed"
        "The kernel was built without an option that a checkpoint needs, or is too old. `standfast doctor` lists what is missing."

    322 ProcessHandle "a pidfd of a process or thread outside the job"
        "The descriptor stands for a process or thread that is not part of the job, or that has ended. Close it once it is not needed."

    323 KernelFile "a file of /proc, /sys or the like"
        "The open file shows something about a process or the kernel that would be different after a restart, or that cannot be found again under its path. Open such files for the moment of reading only."

    324 PipeOutside "the other end of a pipe is outside the job"
        "Another program holds the other end of the pipe, and a restart cannot connect to it again. Start both programs under one `standfast run`. Pipes on the standard streams are supported."

    325 Epoll "an epoll instance cannot be rebuilt"
        "The instance watches an open file to which no descriptor leads any more, or an entry has just fired and is not armed again, or several processes share an instance that watches a process. Remove descriptors from epoll before closing them."

    326 SignalOwner "a descriptor sends its signals outside the job"
        "F_SETOWN names a thread, a process outside the job, or a process group without a leader. Let the signals go to a process of the job. A file that is on its way in a message can be saved again once it has been received."

    327 MessageQueue "a POSIX message queue cannot be saved"
        "The queue is shared with a program outside the job, was inherited, cannot be read, or has a notification registered (mq_notify). Start all programs that use it under one `standfast run`."

    328 Terminal "a terminal cannot be rebuilt"
        "The terminal is used by a program outside the job, is the terminal of a session outside the job, has a line discipline of its own, has a closed slave that may not be opened again (TIOCEXCL), or holds data that could not be read at this moment. Programs started from a terminal as usual are supported."

    329 PipeReaders "a named pipe waits for a writer in a way that a restart cannot bring about"
        "The pipe has no writer. A reader that was opened after the last writer had gone waits for the next one, while others are at the end of the file; or the name of the pipe has been removed since. Close the readers that are at the end, and keep the pipe in place."

    401 ConnectionOutside "a connection to a program outside the job"
        "The other end of the connection belongs to another program, which would not accept a restarted one. Start both under one `standfast run`, or let the connection come back as one that the peer has reset: `--external-sockets reset`. Most clients of databases and web services then connect again."

    402 ConnectionUnsettled "a connection is being made or has just ended"
        "Connections are saved once both ends are established and accepted, or as long as the other side has not answered at all. This lasts for a moment; the next checkpoint tries again."

    403 UnreadMessage "a socket holds a message that cannot be put back"
        "An unread message has a sender outside the job, passes a descriptor or credentials in a way that cannot be repeated, or is of no bytes. The next checkpoint, after the program has read it, succeeds."

    404 SocketKind "a socket of an unsupported kind"
        "Unix, TCP, UDP and common netlink sockets are supported. Packet, raw, SCTP, Bluetooth, vsock and other sockets are not."

    405 NetworkNamespace "a socket belongs to another network namespace"
        "The socket was made in a network namespace other than the job's. Run the whole job in that namespace."

    406 SocketOption "a socket option cannot be set again"
        "The socket has a packet filter, kernel TLS, a multicast membership, or an option that needs privileges. A restart could not set it again."

    407 UnixSocketPath "the file of a bound Unix socket is not found"
        "The socket was bound to a relative path that does not lead to its file any more. Bind sockets to absolute paths."

    408 OtherParts "the other parts of a distributed job do not take part"
        "The job is one part of a distributed job, with connections to parts on other nodes. All parts are checkpointed together, and restarted together. If another part could not be checkpointed, its message says why."

    501 SystemVShared "a System V object is used outside the job"
        "A program outside the job uses the same shared memory, semaphores or message queue. Start all that use it under one `standfast run`."

    502 SystemVUnreadable "a System V object cannot be read"
        "The user may not read the object. Give its owner permission to read it."

    503 SemaphoreUndo "semaphore adjustments cannot be read"
        "What the end of a process would undo to its semaphores (SEM_UNDO) could not be determined, or is shared by only some of its threads."

    601 FolderUnsaved "something in a saved folder cannot be saved"
        "A folder of --save-folder holds something that is not a file, a directory or a link, or that the user may not read or write. Choose smaller folders."

    701 FileChanged "a file is not what it was at the checkpoint"
        "A restart continues with the files on disk, and this one was changed, removed or replaced since the checkpoint. The hint says what can be done: put the old version back, cut it back (`--files rollback`), or continue with the file as it is (`--files keep`). With `--save-files` or `--save-folder` the contents are kept in the images."

    702 PathTaken "a path that the restart needs is taken or missing"
        "A named pipe, directory, socket or device that the job had is missing, or something else has taken its place."

    703 PortTaken "a port, a socket's path or a socket's name is used by another program"
        "Another program has the address that the job had. End that program first."

    704 TerminalTaken "a terminal number is in use"
        "Somebody else has a terminal with the number that the job had. With unprivileged user namespaces the job has terminals of its own."

    705 Processor "the processor lacks something"
        "The program chose code for the processor that it started on, and this processor lacks an instruction set or lays out registers in another way. Restart on a machine of the same kind."

    706 Kernel "the kernel's vdso does not fit"
        "Programs call small pieces of kernel code in their own memory (vdso). The checkpoint was taken under another kernel, and the old code cannot be redirected to the new. Restart under the same kernel, or from another checkpoint."

    707 Clock "the monotonic clock would jump back"
        "The machine was booted after the checkpoint, or is another one, so that its monotonic clock is behind. A time namespace corrects this and needs unprivileged user namespaces or root; `--clock-jump` goes without."

    708 Ids "the old process ids cannot be used"
        "The ids of the job's processes are in use or out of range, and something in the job depends on them (a robust mutex, a pid in shared memory)."

    709 NoRoom "no room in the address space or among descriptors"
        "A restart needs a free range of addresses and a few free descriptor numbers in each process. The job uses all of them. Raise `ulimit -n`."

    710 SystemVLimits "System V objects or message queues cannot be made again"
        "The limits of this system are lower than the job needs, another program has the same keys, or there is no IPC namespace without privileges."

    711 AddressGone "this machine does not have an address of the job's"
        "A socket of the job had an address that no network device has here now. Add it, or restart the job where it is."

    801 Image "the image describes an impossible job"
        "The image verifies, so it is what was written, and yet describes something that cannot be. This is a bug in Standfast or a forged image. Use another checkpoint and please report it."

    802 RebuiltDifferently "the rebuilt job differs from the checkpoint"
        "Before a restarted job runs, it is collected once more and compared with the checkpoint. It differs in the field that is named, so the program would continue with something else than it had. This is a bug in Standfast: please report it. `restart --despite FIELD` continues all the same. On another machine, kernel or processor, differences are only reported."
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SF{:04}", *self as u16)
    }
}

/// A text that is not a refusal code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not the code of a refusal: it looks like SF0101")]
pub struct UnknownRefusalCode(String);

impl FromStr for RefusalCode {
    type Err = UnknownRefusalCode;

    /// Parses `SF0101`, in any case, also without the letters or the leading zeros.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let upper = text.to_ascii_uppercase();
        let number: Option<u16> = upper.strip_prefix("SF").unwrap_or(&upper).parse().ok();
        let code = Self::ALL.iter().copied().find(|code| Some(*code as u16) == number);
        code.ok_or_else(|| UnknownRefusalCode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_codes_round_trip_through_text() {
        for code in RefusalCode::ALL {
            assert_eq!(code.to_string().parse(), Ok(*code));
        }
        assert_eq!("sf401".parse(), Ok(RefusalCode::ConnectionOutside));
        for wrong in ["", "SF", "SF9999", "ABC", "SF-101"] {
            assert!(wrong.parse::<RefusalCode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn refusal_codes_ascend_and_have_explanations() {
        assert!(RefusalCode::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        for code in RefusalCode::ALL {
            assert!(code.explanation().ends_with('.') && !code.title().ends_with('.'), "{code}");
        }
    }
}
