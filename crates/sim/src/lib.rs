//! Verification of the group protocol: an explorer of every order of events in small groups, and a simulated cluster. In
//! the cluster the real state machines move real bytes while processes are killed, messages are late and disks fail.
//!
//! A test tool. The product contains none of it. It also runs the forms of diskless checkpointing that MPI programs
//! cannot choose yet: recovery in place, parity nodes, and the codes other than parity and Reed-Solomon.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod explore;
pub mod network;
pub mod program;
pub mod scenario;
pub mod world;
