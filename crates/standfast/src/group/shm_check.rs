//! Checks how long and how much the memory file system keeps of a group's checkpoints: what empties it without the
//! job's knowledge, and whether it is large enough to be of use. The decision depends only on facts, which one function
//! gathers.

use crate::doctor::Finding;
use standfast_linux::proc::MachineMemory;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// A file system smaller than this part of the machine's memory is reported: containers give 64 MiB.
const SMALL_PART: u64 = 8;
/// Lower user ids are the system's. Their files are not removed at logout (SYS_UID_MAX).
const FIRST_USER: u32 = 1000;

const LOGIND_FILES: [&str; 2] = ["/usr/lib/systemd/logind.conf", "/etc/systemd/logind.conf"];
const LOGIND_FOLDERS: [&str; 3] =
    ["/usr/lib/systemd/logind.conf.d", "/run/systemd/logind.conf.d", "/etc/systemd/logind.conf.d"];
const LOGIND_RUNS: &str = "/run/systemd/users";
const LINGERING: &str = "/var/lib/systemd/linger";
const SLURM: &str = "/etc/slurm/slurm.conf";

/// Facts about this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Facts {
    memory: PathBuf,
    /// Capacity of the file system, and memory of the machine, in bytes.
    sizes: (u64, u64),
    /// Values of RemoveIPC in the files of the login manager, the last of which counts. `None` if it does not run.
    logind: Option<Vec<String>>,
    /// Whether this user's files stay after logout in any case.
    stays: bool,
    /// Slurm's settings, if this is one of its jobs; empty if they cannot be read.
    slurm: Option<String>,
}

/// Returns the findings of `doctor` about a memory file system. `variable` reads the environment.
pub fn examine_group_memory(memory: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<Finding> {
    findings(&gather(memory, variable))
}

fn findings(facts: &Facts) -> Vec<Finding> {
    let path = facts.memory.display();
    let (size, machine) = facts.sizes;
    let finding = |what: String, means: Option<&str>, hint: &str| Finding {
        code: None,
        what,
        is_fine: means.is_none(),
        means: means.unwrap_or_default().to_owned(),
        hint: means.map_or("", |_| hint).to_owned(),
    };
    let small =
        (size < machine / SMALL_PART).then_some("groups keep all registered memory there, and a part of it twice");
    let mut found = vec![finding(
        format!("room for groups in {path}: {} MiB", size >> 20),
        small,
        "mount it with a larger size (docker run --shm-size), or set STANDFAST_GROUP_MEMORY to another memory file system",
    )];
    if let Some(settings) = &facts.slurm {
        let means = match container_of(settings) {
            Some(true) => Some("Slurm gives each job its own and removes it with the job (job_container/tmpfs)"),
            Some(false) => None,
            None => Some(
                "this is a Slurm job whose settings cannot be read: with job_container/tmpfs it is removed with the job",
            ),
        };
        found.push(finding(
            format!("{path} beyond the end of a Slurm job"),
            means,
            "have `standfast group run --time-limit` end before the job does: it saves what is in memory to its directory",
        ));
    }
    if let Some(files) = &facts.logind {
        let removed = (removes(files) && !facts.stays)
            .then_some("systemd-logind removes a user's files there at the user's last logout (RemoveIPC)");
        found.push(finding(
            format!("{path} beyond a logout"),
            removed,
            "loginctl enable-linger, or RemoveIPC=no in /etc/systemd/logind.conf, on every node",
        ));
    }
    found
}

/// Reports whether Slurm gives jobs a `/dev/shm` of their own; `None` if its settings are empty.
fn container_of(settings: &str) -> Option<bool> {
    if settings.trim().is_empty() {
        return None;
    }
    Some(last_value(settings, "jobcontainertype").is_some_and(|it| it.eq_ignore_ascii_case("job_container/tmpfs")))
}

/// Reports whether logout removes files. The default is yes.
fn removes(files: &[String]) -> bool {
    let set = files.iter().filter_map(|text| last_value(text, "removeipc")).next_back();
    set.is_none_or(|value| !["no", "0", "false", "off"].contains(&value.to_ascii_lowercase().as_str()))
}

/// Returns the last value of `name` in lines `name=value`. Names are case-insensitive, and comments begin with `#` or
/// `;`.
fn last_value(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let named = pairs.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.trim().to_owned()).next_back()
}

fn gather(memory: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Facts {
    let size = rustix::fs::statvfs(memory).map_or(0, |it| it.f_blocks.saturating_mul(it.f_frsize));
    let machine = MachineMemory::read().unwrap_or_default();
    let user = variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_default();
    let lingers = !user.is_empty() && Path::new(LINGERING).join(user).exists();
    let slurm = variable("SLURM_JOB_ID").map(|_| {
        let path = variable("SLURM_CONF").map_or_else(|| SLURM.into(), PathBuf::from);
        fs::read_to_string(path).unwrap_or_default()
    });
    Facts {
        memory: memory.to_owned(),
        sizes: (size, machine.total.unwrap_or(0)),
        logind: Path::new(LOGIND_RUNS).exists().then(logind_files),
        stays: lingers || rustix::process::getuid().as_raw() < FIRST_USER,
        slurm,
    }
}

/// Returns the texts in order of increasing precedence. Those in folders are sorted by name, and a later folder's file
/// replaces an earlier one's.
fn logind_files() -> Vec<String> {
    let mut parts: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for folder in LOGIND_FOLDERS {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        parts.extend(entries.map(|entry| (entry.file_name(), entry.path())));
    }
    let files = LOGIND_FILES.iter().map(PathBuf::from).chain(parts.into_values());
    files.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn facts() -> Facts {
        Facts { memory: "/dev/shm".into(), sizes: (GIB, 2 * GIB), ..Facts::default() }
    }

    fn troubles(facts: &Facts) -> Vec<String> {
        findings(facts).into_iter().filter(|it| !it.is_fine).map(|it| it.means + &it.hint).collect()
    }

    #[test]
    fn a_plain_machine_keeps_dev_shm_and_a_small_one_is_reported() {
        assert_eq!(troubles(&facts()), Vec::<String>::new());
        let small = Facts { sizes: (64 << 20, GIB), ..facts() };
        assert!(troubles(&small)[0].contains("--shm-size"));
    }

    #[test]
    fn slurm_cleanup_of_dev_shm_is_reported() {
        let slurm = |text: &str| troubles(&Facts { slurm: Some(text.into()), ..facts() });
        assert!(slurm("# JobContainerType=none\nJobContainerType = job_container/tmpfs\n")[0].contains("--time-limit"));
        assert!(slurm("ClusterName=x\n").is_empty());
        assert!(slurm("")[0].contains("cannot be read"));
    }

    #[test]
    fn removal_at_logout_is_reported_unless_the_user_lingers() {
        let logind = |texts: &[&str]| Some(texts.iter().map(|it| (*it).to_owned()).collect());
        let default = Facts { logind: logind(&["[Login]\n#RemoveIPC=no\n"]), ..facts() };
        assert!(troubles(&default)[0].contains("enable-linger"));
        assert!(troubles(&Facts { stays: true, ..default.clone() }).is_empty());
        let off = Facts { logind: logind(&["RemoveIPC=yes\n", "[Login]\nremoveipc = No\n"]), ..facts() };
        assert!(troubles(&off).is_empty());
    }
}
