//! Jobs of many processes, as people have them, killed at random moments many times over and restarted each time.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::survival::survives;
use standfast_tests::victims::{JAVA_CHILDREN, MAKE, PIPELINES, PIPELINES_DASH, POOL, REDIS, SUBPROCESSES, WEB, XARGS};

/// How often each is killed at most.
const KILLS_MAX: u32 = 4;

#[test]
fn a_script_of_bash_survives_kills() -> Result<()> {
    survives(PIPELINES, KILLS_MAX)
}

#[test]
fn a_script_of_dash_survives_kills() -> Result<()> {
    survives(PIPELINES_DASH, KILLS_MAX)
}

#[test]
fn make_with_parallel_jobs_survives_kills() -> Result<()> {
    survives(MAKE, KILLS_MAX)
}

#[test]
fn xargs_with_parallel_jobs_survives_kills() -> Result<()> {
    survives(XARGS, KILLS_MAX)
}

#[test]
fn subprocesses_of_python_survive_kills() -> Result<()> {
    survives(SUBPROCESSES, KILLS_MAX)
}

#[test]
fn pools_of_python_survive_kills() -> Result<()> {
    survives(POOL, KILLS_MAX)
}

#[test]
fn a_web_server_in_go_and_its_client_survive_kills() -> Result<()> {
    survives(WEB, KILLS_MAX)
}

#[test]
fn java_with_children_survives_kills() -> Result<()> {
    survives(JAVA_CHILDREN, KILLS_MAX)
}

#[test]
fn redis_and_its_clients_survive_kills() -> Result<()> {
    survives(REDIS, KILLS_MAX)
}
