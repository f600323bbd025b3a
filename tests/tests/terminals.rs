//! Programs that make terminals of their own, killed at random moments many times over and restarted each time.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::survival::survives;
use standfast_tests::victims::{SCRIPT, TERMINALS, TMUX};

/// How often each is killed at most.
const KILLS_MAX: u32 = 5;

#[test]
fn a_conversation_in_python_survives_kills() -> Result<()> {
    survives(TERMINALS, KILLS_MAX)
}

#[test]
fn script_survives_kills() -> Result<()> {
    survives(SCRIPT, KILLS_MAX)
}

#[test]
fn tmux_with_a_shell_in_it_survives_kills() -> Result<()> {
    survives(TMUX, KILLS_MAX)
}
