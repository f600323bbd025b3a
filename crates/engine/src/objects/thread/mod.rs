//! Threads: what the kernel keeps for each, and its registers. Its restartable sequences, scheduling, capabilities and
//! NUMA policy have modules of their own; the order of all this is in `collect/threads.rs` and `restart/threads.rs`.

mod collect;
mod restore;
mod switches;

pub(crate) use collect::AskedThread;
