//! `doctor`: what this machine offers, and what in a process stands in the way of a checkpoint.
//!
//! Judgements are pure functions over the text of files in `/proc`; only [`examine_machine`] reads them.

use crate::Error;
use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What: `process tracing`.
    pub what: String,
    /// Whether it is as Standfast needs it.
    pub is_fine: bool,
    /// What was found and what it means.
    pub means: String,
    /// What the user can do; empty where nothing needs doing.
    pub remedy: String,
}

/// What this machine offers.
pub fn examine_machine() -> Vec<Finding> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    vec![
        judge_machine(std::env::consts::ARCH, &release),
        judge_tracing(&read("/proc/sys/kernel/yama/ptrace_scope")),
        judge_namespaces(
            &read("/proc/sys/user/max_user_namespaces"),
            &read("/proc/sys/user/max_pid_namespaces"),
            &read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        ),
    ]
}

/// What in process `pid` could not be carried over; empty where nothing stands in the way.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub fn examine_process(pid: i32) -> Result<Vec<Finding>, Error> {
    let obstacles = standfast_engine::examine(pid)?;
    let finding = |obstacle: standfast_engine::Obstacle| Finding {
        what: obstacle.what,
        is_fine: false,
        means: obstacle.why,
        remedy: obstacle.remedy,
    };
    Ok(obstacles.into_iter().map(finding).collect())
}

fn judge_machine(architecture: &str, release: &str) -> Finding {
    let is_fine = architecture == "x86_64";
    Finding {
        what: "machine".into(),
        is_fine,
        means: format!("{architecture}, Linux {release}"),
        remedy: if is_fine { String::new() } else { "only x86_64 is supported so far".into() },
    }
}

/// The scope of Yama: 0 all own processes, 1 only descendants, 2 only with privilege, 3 nobody. No file: no Yama.
fn judge_tracing(scope: &str) -> Finding {
    let (is_fine, means, remedy) = match scope.trim() {
        "" | "0" => (true, "own processes may be traced", ""),
        "1" => (
            true,
            "children may be traced; a program whose supervisor died cannot be saved once more",
            "for that too: sysctl kernel.yama.ptrace_scope=0",
        ),
        "2" => (false, "only root may trace", "sysctl kernel.yama.ptrace_scope=1, or run standfast as root"),
        _ => (false, "nobody may trace until the next boot", "set kernel.yama.ptrace_scope=1 and boot again"),
    };
    Finding { what: "process tracing".into(), is_fine, means: means.into(), remedy: remedy.into() }
}

/// Limits of zero forbid namespaces, as does AppArmor's restriction. A missing file says nothing against them.
fn judge_namespaces(user: &str, pid: &str, apparmor: &str) -> Finding {
    let is_forbidden = user.trim() == "0" || pid.trim() == "0" || apparmor.trim() == "1";
    let (means, remedy) = if is_forbidden {
        (
            "not allowed to everybody: a restarted program gets new process and thread ids, which Go programs do not bear",
            "allow them (user.max_user_namespaces, user.max_pid_namespaces, kernel.apparmor_restrict_unprivileged_userns), or restart as root",
        )
    } else {
        ("allowed: a restarted program gets its old process and thread ids", "")
    };
    Finding { what: "namespaces".into(), is_fine: !is_forbidden, means: means.into(), remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracing_is_judged_by_the_scope_of_yama() {
        let fine = |scope| judge_tracing(scope).is_fine;
        assert!(fine("") && fine("0\n") && fine("1\n"));
        assert!(!fine("2\n") && !fine("3\n"));
    }

    #[test]
    fn namespaces_are_forbidden_by_any_one_of_their_limits() {
        let fine = |user, pid, apparmor| judge_namespaces(user, pid, apparmor).is_fine;
        assert!(fine("1000\n", "1000\n", "0\n") && fine("", "", ""));
        assert!(!fine("0\n", "1000\n", "") && !fine("1000\n", "0\n", "") && !fine("1000\n", "1000\n", "1\n"));
    }

    #[test]
    fn whatever_is_not_fine_comes_with_a_remedy() {
        for finding in
            [judge_tracing("2"), judge_tracing("3"), judge_namespaces("0", "", ""), judge_machine("vax", "1")]
        {
            assert!(!finding.is_fine && !finding.remedy.is_empty(), "{finding:?}");
        }
    }
}
