//! Proof of the group protocol: an explorer of every order of events in small groups, and a simulated cluster in which the
//! real state machines move real bytes while processes are killed, messages are late and disks fail.
//!
//! A tool of the tests. Nothing of it is in the product.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod explore;
pub mod network;
pub mod program;
pub mod scenario;
pub mod world;
