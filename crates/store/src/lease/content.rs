//! The text form of the lease, and the decisions based on it. Pure: callers supply which processes are alive and the
//! time since the last heartbeat.

use super::{HEARTBEAT, Holder, LeaseRequest, LeaseState, ProcessIdentity, Pulse, Purpose};
use crate::StoreError;
use std::path::Path;
use std::time::Duration;

/// Largest lease that is read: a host name has at most 255 bytes, and everything else is short.
pub(super) const LEASE_BYTES_MAX: u64 = 4096;

/// The longest heartbeat interval that a lease may promise: a process that wants the lease watches it for twice as
/// long.
const HEARTBEAT_SECONDS_MAX: u64 = 3600;

/// The content of the file: the holder, a random token by which the holder recognises its own lease, and the interval
/// of its heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) token: String,
    pub(super) holder: Holder,
    pub(super) heartbeat: Duration,
}

/// Facts about the holder of a lease, as seen from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) host: String,
    pub(super) boot_id: String,
    pub(super) pid_namespace: u64,
    /// Whether a process with the supervisor's process id and start time exists here.
    pub(super) supervisor_lives: bool,
    /// Whether the same is true of the program.
    pub(super) program_lives: bool,
}

/// Derives the state of a lease from its holder, the facts, the last heartbeat, and the time since then.
pub(super) fn judge(holder: Holder, facts: &Facts, pulse: Pulse, silent: impl FnOnce() -> Duration) -> LeaseState {
    if holder.host != facts.host {
        return LeaseState::Elsewhere(holder, silent());
    }
    if holder.boot_id != facts.boot_id {
        // Either this machine has restarted, and no process of that time is alive, or it is another machine of this
        // name.
        return LeaseState::OtherBoot(holder, pulse, silent());
    }
    if holder.pid_namespace != facts.pid_namespace {
        // A container on this machine: its process ids mean something else here.
        return LeaseState::Elsewhere(holder, silent());
    }
    match holder.program {
        _ if facts.supervisor_lives => LeaseState::Supervised(holder),
        Some(program) if facts.program_lives => LeaseState::Orphaned(holder, program),
        _ => LeaseState::Abandoned(holder),
    }
}

/// Decides whether to grant a request in this state, and returns the program that comes with the lease. `watched` is a
/// heartbeat that was watched and did not move.
pub(super) fn decide(
    lease_state: LeaseState,
    lease_request: LeaseRequest,
    watched: Option<&Pulse>,
    lease: &Path,
) -> Result<Option<ProcessIdentity>, StoreError> {
    match lease_state {
        // Another process may be about to take it for the next life.
        LeaseState::Free | LeaseState::Abandoned(_) if lease_request.purpose == Purpose::Adopt => {
            Err(StoreError::NothingToAdopt)
        }
        LeaseState::Free | LeaseState::Abandoned(_) => Ok(None),
        LeaseState::Supervised(holder) => Err(StoreError::Supervised(holder)),
        LeaseState::Orphaned(_, program) if lease_request.purpose == Purpose::Adopt => Ok(Some(program)),
        LeaseState::Orphaned(_, program) => Err(StoreError::ProgramStillRuns { pid: program.pid }),
        LeaseState::Elsewhere(..) | LeaseState::Unreadable if lease_request.force => Ok(None),
        LeaseState::OtherBoot(_, pulse, _) if lease_request.force || watched == Some(&pulse) => Ok(None),
        LeaseState::OtherBoot(holder, ..) => Err(StoreError::HeldByNamesake(holder)),
        LeaseState::Elsewhere(holder, silent) => Err(StoreError::HeldElsewhere { holder, silent }),
        LeaseState::Unreadable => Err(StoreError::LeaseUnreadable(lease.to_owned())),
    }
}

impl Content {
    pub(super) fn encode(&self) -> String {
        let Holder { host, boot_id, pid_namespace, supervisor, program } = &self.holder;
        let mut text = format!(
            "standfast-lease=1\ntoken={}\nhost={host}\nboot={boot_id}\npid-namespace={pid_namespace}\n\
             supervisor={} {}\n",
            self.token, supervisor.pid, supervisor.start_time,
        );
        if let Some(program) = program {
            text += &format!("program={} {}\n", program.pid, program.start_time);
        }
        // A default value is omitted, so that earlier versions understand the lease.
        if self.heartbeat != HEARTBEAT {
            text += &format!("heartbeat={}\n", self.heartbeat.as_secs());
        }
        text + "end=1\n"
    }

    /// Returns `None` if anything is missing or unknown: a lease that is not understood must not be taken lightly.
    pub(super) fn decode(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix("end=1\n")?.lines();
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix('=');
        if value("standfast-lease")? != "1" {
            return None;
        }
        let token = value("token")?.to_owned();
        let host = value("host")?.to_owned();
        let boot_id = value("boot")?.to_owned();
        let pid_namespace = value("pid-namespace")?.parse().ok()?;
        let supervisor = decode_process(value("supervisor")?)?;
        let mut lines = lines.peekable();
        let program = match lines.next_if(|line| line.starts_with("program=")) {
            Some(line) => Some(decode_process(line.strip_prefix("program=")?)?),
            None => None,
        };
        let heartbeat = match lines.next() {
            Some(line) => decode_heartbeat(line.strip_prefix("heartbeat=")?)?,
            None => HEARTBEAT,
        };
        let holder = Holder { host, boot_id, pid_namespace, supervisor, program };
        lines.next().is_none().then_some(Self { token, holder, heartbeat })
    }
}

fn decode_heartbeat(value: &str) -> Option<Duration> {
    let seconds = value.parse().ok().filter(|seconds| (1..=HEARTBEAT_SECONDS_MAX).contains(seconds))?;
    Some(Duration::from_secs(seconds))
}

fn decode_process(value: &str) -> Option<ProcessIdentity> {
    let (pid, start_time) = value.split_once(' ')?;
    Some(ProcessIdentity { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    const SUPERVISOR: ProcessIdentity = ProcessIdentity { pid: 10, start_time: 100 };
    const PROGRAM: ProcessIdentity = ProcessIdentity { pid: 11, start_time: 110 };
    const SILENT: Duration = Duration::from_secs(90);

    fn pulse() -> Pulse {
        Pulse { token: "abc".into(), beaten: SystemTime::UNIX_EPOCH, heartbeat: HEARTBEAT }
    }

    fn holder() -> Holder {
        Holder {
            host: "here".into(),
            boot_id: "today".into(),
            pid_namespace: 1,
            supervisor: SUPERVISOR,
            program: Some(PROGRAM),
        }
    }

    fn facts() -> Facts {
        Facts {
            host: "here".into(),
            boot_id: "today".into(),
            pid_namespace: 1,
            supervisor_lives: false,
            program_lives: false,
        }
    }

    #[test]
    fn the_lease_state_follows_from_the_visible_processes() {
        let other_boot = || LeaseState::OtherBoot(holder(), pulse(), SILENT);
        let cases = [
            (facts(), LeaseState::Abandoned(holder())),
            (Facts { supervisor_lives: true, ..facts() }, LeaseState::Supervised(holder())),
            (Facts { supervisor_lives: true, program_lives: true, ..facts() }, LeaseState::Supervised(holder())),
            (Facts { program_lives: true, ..facts() }, LeaseState::Orphaned(holder(), PROGRAM)),
            (Facts { boot_id: "later".into(), ..facts() }, other_boot()),
            // The process ids mean something else, so a process with the same id proves nothing.
            (Facts { boot_id: "later".into(), supervisor_lives: true, ..facts() }, other_boot()),
            (Facts { pid_namespace: 2, ..facts() }, LeaseState::Elsewhere(holder(), SILENT)),
            (Facts { pid_namespace: 2, boot_id: "later".into(), ..facts() }, other_boot()),
            (Facts { host: "there".into(), ..facts() }, LeaseState::Elsewhere(holder(), SILENT)),
            (
                Facts { host: "there".into(), boot_id: "later".into(), ..facts() },
                LeaseState::Elsewhere(holder(), SILENT),
            ),
        ];
        for (facts, expected) in cases {
            assert_eq!(judge(holder(), &facts, pulse(), || SILENT), expected, "{facts:?}");
        }
        let unnamed = Holder { program: None, ..holder() };
        let lease_state = judge(unnamed.clone(), &Facts { program_lives: true, ..facts() }, pulse(), || SILENT);
        assert_eq!(lease_state, LeaseState::Abandoned(unnamed), "a lease that names no program has none");
    }

    #[test]
    fn force_never_takes_a_lease_of_a_visible_live_process() {
        let granted = |lease_state: LeaseState, purpose, force| {
            decide(lease_state, LeaseRequest { purpose, force }, None, Path::new("lease"))
                .map_err(|error| error.to_string())
        };
        for purpose in [Purpose::Live, Purpose::Adopt] {
            for force in [false, true] {
                let is_new_life = purpose == Purpose::Live;
                assert_eq!(granted(LeaseState::Free, purpose, force).is_ok(), is_new_life);
                assert_eq!(granted(LeaseState::Abandoned(holder()), purpose, force).is_ok(), is_new_life);
                assert!(granted(LeaseState::Supervised(holder()), purpose, force).is_err());
                assert_eq!(granted(LeaseState::Elsewhere(holder(), SILENT), purpose, force).is_ok(), force);
                assert_eq!(granted(LeaseState::Unreadable, purpose, force).is_ok(), force);
            }
        }
        let watched = |pulse: &Pulse, force| {
            let lease_request = LeaseRequest { purpose: Purpose::Live, force };
            let lease_state = LeaseState::OtherBoot(holder(), self::pulse(), SILENT);
            decide(lease_state, lease_request, Some(pulse), Path::new("lease")).is_ok()
        };
        let moved = Pulse { beaten: SystemTime::UNIX_EPOCH + Duration::from_nanos(1), ..pulse() };
        assert!(granted(LeaseState::OtherBoot(holder(), pulse(), SILENT), Purpose::Live, false).is_err());
        assert!(watched(&pulse(), false) && !watched(&moved, false) && watched(&moved, true));
        let orphaned = || LeaseState::Orphaned(holder(), PROGRAM);
        assert_eq!(granted(orphaned(), Purpose::Adopt, false), Ok(Some(PROGRAM)));
        assert!(granted(orphaned(), Purpose::Live, true).is_err());
        assert!(granted(orphaned(), Purpose::Live, false).unwrap_err().contains("process 11"));
    }

    #[test]
    fn a_refusal_names_the_holder_and_how_long_it_has_been_silent() {
        let message = |lease_state| {
            let lease_request = LeaseRequest { purpose: Purpose::Live, force: false };
            decide(lease_state, lease_request, None, Path::new("lease")).unwrap_err().to_string()
        };
        let supervised = message(LeaseState::Supervised(holder()));
        assert!(supervised.contains("process 10") && supervised.contains("on here"), "{supervised}");
        let elsewhere = message(LeaseState::Elsewhere(holder(), SILENT));
        assert!(elsewhere.contains("90 s") && elsewhere.contains("--force"), "{elsewhere}");
    }

    #[test]
    fn a_lease_round_trips_and_a_truncated_one_is_refused() {
        let heartbeats = [HEARTBEAT, Duration::from_secs(1)];
        for (program, heartbeat) in [None, Some(PROGRAM)].into_iter().flat_map(|it| heartbeats.map(|beat| (it, beat))) {
            let content = Content { token: "abc".into(), holder: Holder { program, ..holder() }, heartbeat };
            let text = content.encode();
            assert_eq!(Content::decode(&text), Some(content));
            for length in 0..text.len() {
                assert_eq!(Content::decode(&text[..length]), None, "cut to {length} bytes");
            }
        }
    }
}
