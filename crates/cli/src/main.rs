//! The `standfast` command.

fn main() {}
