//! Programs that open terminals of their own: the tests kill them at random moments and restart them each time.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::survival::survives;
use standfast_tests::victims::{SCRIPT, TERMINALS, TMUX};

/// The most times that a test kills each program.
const KILLS_MAX: u32 = 5;

#[test]
fn an_interactive_python_session_survives_kills() -> Result<()> {
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
