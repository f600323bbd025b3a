//! Decides what `run` does with a directory that may hold a job already. The module is pure; its callers carry out the
//! decision.

use standfast_format::manifest::{JobDescription, Manifest};

/// What the user wants done with an unfinished job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unfinished {
    /// Nothing: it could be days of work.
    #[default]
    Refuse,
    /// Continue it.
    Resume,
    /// Discard it and start from the beginning.
    Discard,
}

/// What `run` has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunPlan {
    /// Start the program from its beginning and remove all generations.
    Start,
    /// Continue from the newest good generation. If there is none, start the program.
    Continue,
    /// Refuse: the job is unfinished, and the user did not say what to do about it.
    RefuseUnfinished,
    /// Refuse: the unfinished job has another command line.
    RefuseOther,
}

/// Returns the plan for a directory with this manifest. `None` means that it holds no job. The caller holds the lease.
pub(crate) fn plan_run(found: Option<&Manifest>, wanted: &JobDescription, unfinished: Unfinished) -> RunPlan {
    let Some(found) = found else { return RunPlan::Start };
    if found.is_finished() || found.generations.is_empty() {
        return RunPlan::Start;
    }
    match unfinished {
        Unfinished::Refuse => RunPlan::RefuseUnfinished,
        Unfinished::Discard => RunPlan::Start,
        Unfinished::Resume if is_same_command(&found.description, wanted) => RunPlan::Continue,
        Unfinished::Resume => RunPlan::RefuseOther,
    }
}

fn is_same_command(found: &JobDescription, wanted: &JobDescription) -> bool {
    found.program == wanted.program && found.arguments == wanted.arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::Root;
    use standfast_format::manifest::{Generation, GenerationNumber, JobId, Outcome, RunOptions};

    fn command(program: &str) -> JobDescription {
        JobDescription { program: program.as_bytes().into(), ..JobDescription::default() }
    }

    fn manifest(outcome: Outcome, has_generation: bool) -> Manifest {
        let mut manifest = Manifest::new(JobId::from_bytes([7; 16]), command("heat"), RunOptions::default());
        manifest.outcome = outcome;
        if has_generation {
            manifest.generations.push(Generation {
                number: GenerationNumber::FIRST,
                parent: None,
                root: Root::from_bytes([0; 32]),
                file_bytes: 4096,
                stored_pages: 0,
                taken_nanoseconds: 0,
                pause_nanoseconds: 0,
                superseded: false,
                origin: Root::from_bytes([0; 32]),
                revision: 0,
                inherited_pages: 0,
                epoch: None,
            });
        }
        manifest
    }

    #[test]
    fn run_never_throws_an_unfinished_job_away_unasked() {
        use RunPlan::{Continue, RefuseUnfinished, Start};
        use Unfinished::{Discard, Refuse, Resume};
        let unfinished =
            [Outcome::Running, Outcome::Stopped, Outcome::Killed { signal: 9 }, Outcome::Exited { status: 1 }];
        let table = [(Refuse, RefuseUnfinished), (Resume, Continue), (Discard, Start)];
        for outcome in unfinished {
            for (asked, plan) in table {
                let found = manifest(outcome, true);
                assert_eq!(plan_run(Some(&found), &command("heat"), asked), plan, "{outcome:?} {asked:?}");
            }
        }
    }

    #[test]
    fn run_starts_afresh_where_there_is_nothing_to_lose() {
        for asked in [Unfinished::Refuse, Unfinished::Resume, Unfinished::Discard] {
            let start = |found: Option<&Manifest>| assert_eq!(plan_run(found, &command("heat"), asked), RunPlan::Start);
            start(None);
            start(Some(&manifest(Outcome::Exited { status: 0 }, true)));
            start(Some(&manifest(Outcome::Running, false)));
            start(Some(&manifest(Outcome::Killed { signal: 9 }, false)));
        }
    }

    #[test]
    fn run_resumes_only_the_command_that_it_was_given() {
        let found = manifest(Outcome::Running, true);
        assert_eq!(plan_run(Some(&found), &command("cold"), Unfinished::Resume), RunPlan::RefuseOther);
        let other_arguments = JobDescription { arguments: vec![b"-v".as_slice().into()], ..command("heat") };
        assert_eq!(plan_run(Some(&found), &other_arguments, Unfinished::Resume), RunPlan::RefuseOther);
    }
}
