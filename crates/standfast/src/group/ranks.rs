//! The ranks of a job on this node. They are processes that the launcher has started here, known by the variables that
//! launchers give them. The module notices a rank that has ended while its parent still runs; other modules decide what
//! to do about the launch. Processes that ranks start themselves are not ranks, nor are those that `MPI_Comm_spawn`
//! starts.

use super::job_name::named_job;
use super::left::sign_of;
use crate::error::Error;
use standfast_linux::Pid;
use standfast_linux::proc::{self, Stat};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

/// Variables that hold a process's rank: of Open MPI, of MPICH's and Slurm's PMI, and of PMIx. ($SLURM_PROCID is
/// unsuitable: scripts have it as well, and launchers in them.)
const RANK_VARIABLES: [&[u8]; 3] = [b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"PMIX_RANK"];
/// Variables of Open MPI and MPICH that hold the number of ranks on the node.
const COUNT_VARIABLES: [&[u8]; 2] = [b"OMPI_COMM_WORLD_LOCAL_SIZE", b"MPI_LOCALNRANKS"];
/// Variables of Open MPI and MPICH that mark a process started by `MPI_Comm_spawn`, which may end before the others.
const SPAWNED_VARIABLES: [&[u8]; 2] = [b"OMPI_PARENT_PORT", b"PMI_SPAWNED"];

/// Answers of a node: all ranks are there, or one has ended.
pub(super) const WELL: u8 = b'.';
pub(super) const ENDED: u8 = b'!';

/// Identity of a process. The start time is needed because pids are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    pid: Pid,
    start_time: u64,
}

/// Ranks that have been seen, each with its parent.
#[derive(Debug)]
pub(super) struct Ranks {
    sign: String,
    seen: BTreeMap<Identity, Identity>,
}

/// Answers each question on `input` on `output`: whether a rank of a directory's job has ended on this node. Returns at
/// the end of the input.
///
/// # Errors
/// If the directory names no job, or reading or writing fails.
pub fn group_watch(directory: &Path, mut input: impl Read, mut output: impl Write) -> Result<(), Error> {
    let watching = || Error::system("watch over the job's processes");
    let mut ranks = Ranks::new(&named_job(directory)?);
    let mut asked = [0; 64];
    loop {
        match input.read(&mut asked) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => drop(read.map_err(watching())?),
        }
        let answer = if ranks.has_ended().map_err(watching())? { ENDED } else { WELL };
        output.write_all(&[answer]).and_then(|()| output.flush()).map_err(watching())?;
    }
}

impl Ranks {
    /// Makes an empty set for the job with this name.
    pub(super) fn new(job: &str) -> Self {
        Self { sign: sign_of(job), seen: BTreeMap::new() }
    }

    /// Checks whether one of the ranks has ended while its parent still runs. Returns true also if there are fewer
    /// ranks than there should be, because one ended before the first check, or because they are being started.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        let mut there = BTreeMap::new();
        for pid in proc::all()? {
            // The environment of other users' processes is unreadable, and processes that have ended have none.
            let environment = proc::read(pid, "environ").unwrap_or_default();
            if is_rank(&environment, &self.sign)
                && let Ok(stat) = Stat::of(pid)
            {
                there.insert(pid, (stat, count_in(&environment)));
            }
        }
        let mut missing: BTreeMap<Pid, usize> = BTreeMap::new();
        let of_launcher = there.iter().filter(|(_, (stat, _))| !there.contains_key(&stat.parent));
        for (pid, (stat, count)) in of_launcher {
            let missing = missing.entry(stat.parent).or_insert(*count);
            *missing = missing.saturating_sub(1);
            let rank = Identity { pid: *pid, start_time: stat.start_time };
            if let Ok(parent) = Identity::of(stat.parent) {
                self.seen.entry(rank).or_insert(parent);
            }
        }
        self.seen.retain(|_, parent| parent.is_there());
        let has_ended = |rank: &Identity| !rank.is_there();
        Ok(missing.values().any(|count| *count > 0) || self.seen.keys().any(has_ended))
    }
}

impl Identity {
    fn of(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid, start_time: Stat::of(pid)?.start_time })
    }

    /// Reports whether the process still runs. One that dumps core does.
    fn is_there(self) -> bool {
        Stat::of(self.pid).is_ok_and(|stat| stat.start_time == self.start_time && stat.state != b'Z')
    }
}

fn is_rank(environment: &[u8], sign: &str) -> bool {
    let has = |names: &[&[u8]]| value(environment, names).is_some();
    let is_of_job = || environment.split(|byte| *byte == 0).any(|entry| entry == sign.as_bytes());
    is_of_job() && has(&RANK_VARIABLES) && !has(&SPAWNED_VARIABLES)
}

/// Returns the number of ranks on this node; 0 if it is not given.
fn count_in(environment: &[u8]) -> usize {
    let count = value(environment, &COUNT_VARIABLES).and_then(|value| std::str::from_utf8(value).ok());
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Returns the value of the first of these variables that is set.
fn value<'e>(environment: &'e [u8], names: &[&[u8]]) -> Option<&'e [u8]> {
    let mut entries = environment.split(|byte| *byte == 0);
    entries.find_map(|entry| names.iter().find_map(|name| entry.strip_prefix(*name)?.strip_prefix(b"=")))
}

#[cfg(test)]
mod tests {
    use super::super::left::end_left;
    use super::*;
    use standfast_member::variables::JOB;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A stand-in for a launcher: it starts a rank, prints its pid, and stays.
    const LAUNCHER: &str = r#"PMI_RANK=3 sleep 600 & echo $!; exec sleep 600"#;

    /// A launch that does not outlive its test.
    struct Launched {
        launcher: Child,
        job: String,
    }

    impl Drop for Launched {
        fn drop(&mut self) {
            let _ = end_left(&self.job);
            let _ = self.launcher.wait();
        }
    }

    fn launched(job: &str, script: &str) -> (Launched, i32) {
        let mut command = Command::new("sh");
        let launcher = command.args(["-c", script]).env(JOB, job).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut launched = Launched { launcher, job: job.to_owned() };
        let mut line = [0; 32];
        let output = launched.launcher.stdout.as_mut().expect("it is piped");
        let read = output.read(&mut line).expect("it says a pid");
        let pid = String::from_utf8_lossy(&line[..read]).trim().parse().expect("a pid");
        (launched, pid)
    }

    fn kill(pid: i32) {
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_rank_that_has_ended_is_noticed_while_its_launcher_stays() {
        let job = format!("ranks-{}", std::process::id());
        let (mut launched, rank) = launched(&job, LAUNCHER);
        let mut ranks = Ranks::new(&job);
        until(|| !ranks.has_ended().expect("/proc") && ranks.seen.keys().any(|it| it.pid.get() == rank));
        kill(rank);
        until(|| ranks.has_ended().expect("/proc"));
        // The rank has ended together with its launcher, as it should.
        launched.launcher.kill().expect("it runs");
        launched.launcher.wait().expect("it has ended");
        assert!(!ranks.has_ended().expect("/proc") && ranks.seen.is_empty());
    }

    #[test]
    fn a_rank_that_ended_before_the_first_scan_is_detected() {
        let job = format!("missed-{}", std::process::id());
        let script = |count| format!("export MPI_LOCALNRANKS={count}; {LAUNCHER}");
        for (count, is_missed) in [(1, false), (2, true)] {
            let _launched = launched(&job, &script(count));
            let mut ranks = Ranks::new(&job);
            until(|| ranks.has_ended().expect("/proc") == is_missed && ranks.seen.len() == 1);
        }
    }

    #[test]
    fn children_of_a_rank_may_end() {
        let job = format!("children-{}", std::process::id());
        // Here the test is the launcher, and the script is the rank.
        let script = format!("PMI_RANK=3 sh -c '{}'", "sleep 600 & echo $!; while :; do sleep 600 & wait $!; done");
        let (_launched, child) = launched(&job, &script);
        let mut ranks = Ranks::new(&job);
        until(|| !ranks.has_ended().expect("/proc") && ranks.seen.len() == 1);
        assert!(ranks.seen.keys().all(|it| it.pid.get() != child));
        kill(child);
        until(|| Stat::of(Pid::new(child)).map_or(true, |stat| stat.state == b'Z'));
        assert!(!ranks.has_ended().expect("/proc"));
    }

    #[test]
    fn the_watch_of_a_node_answers_each_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut answered = Vec::new();
        assert!(group_watch(folder.path(), [WELL].as_slice(), &mut answered).is_err(), "it names no job");
        std::fs::write(folder.path().join("job"), format!("answers-{}", std::process::id())).expect("a folder");
        group_watch(folder.path(), [WELL].as_slice(), &mut answered).expect("it does");
        assert_eq!(answered, [WELL]);
    }

    #[test]
    fn ranks_are_recognised_by_the_variables_of_their_launchers() {
        let sign = sign_of("job");
        let is = |environment: &str| is_rank(environment.replace(' ', "\0").as_bytes(), &sign);
        for variable in ["OMPI_COMM_WORLD_RANK=0", "PMI_RANK=1", "PMIX_RANK=2"] {
            assert!(is(&format!("A=b {sign} {variable} ")), "{variable}");
            assert!(!is(&format!("A=b {sign}x {variable} ")), "of another job");
        }
        assert!(!is(&sign) && !is(&format!("{sign} PMI_RANKS=4")));
        assert!(!is(&format!("{sign} PMI_RANK=1 PMI_SPAWNED=1")));
    }
}
