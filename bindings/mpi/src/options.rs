//! The configuration of a process: the options from C, completed by the environment variables that `standfast group run`
//! sets.

use standfast_core::erasure::Scheme;
use standfast_member::variables::{
    CHECKS, DIRECTORY, DIRECTORY_EVERY, ENCODE_EVERY, HANG, INTERVAL, LAUNCH_PROGRESS, MEMORY,
};
use standfast_member::{EncodeEvery, RegionTracking, Settings};
use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Default seconds between checkpoints.
const INTERVAL_SECONDS: f64 = 60.0;

/// `standfast_group_options`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Options {
    size: usize,
    job: *const c_char,
    memory: *const c_char,
    code: c_int,
    checks: u32,
    group: u32,
    compare: c_int,
    directory: *const c_char,
    directory_every: u32,
    encode_every: u32,
    hang: f64,
    milestones: *const c_char,
}

/// The configuration of a process.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) settings: Settings,
    /// How long the process may hang; `None` for no limit.
    pub(crate) hang: Option<Duration>,
}

/// Returns the configuration of these options. Missing options come from `environment`, as `standfast group run` sets it,
/// or else from the defaults of the header.
///
/// # Safety
/// The strings of the options must be null or end with a zero.
pub(crate) unsafe fn configuration(
    options: Option<&Options>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Configuration, String> {
    let options = options.ok_or("the options are NULL, and the job has no name")?;
    if options.size != size_of::<Options>() {
        return Err("the program was compiled with another version of standfast_group.h: compile it again".into());
    }
    // SAFETY: promised by the caller.
    let text = |it: *const c_char| (!it.is_null()).then(|| unsafe { CStr::from_ptr(it) }.to_bytes());
    let job = text(options.job).filter(|job| !job.is_empty());
    let job = job.ok_or("the job has no name: start it by `standfast group run`, or name it in the options")?;
    let path = |given: *const c_char, variable| {
        let given = text(given).map(|bytes| OsStr::from_bytes(bytes).to_owned());
        given.or_else(|| environment(variable)).filter(|path| !path.is_empty()).map(PathBuf::from)
    };
    let memory = path(options.memory, MEMORY).unwrap_or_else(|| "/dev/shm".into());
    let node = standfast_member::memory_identity(&memory).map_err(|error| error.to_string())?;
    let count = |given: u32, variable| match given {
        0 => number(&environment, variable).map(Option::unwrap_or_default),
        given => Ok(given),
    };
    let scheme = match (options.code, options.checks) {
        (0, 0) => match number(&environment, CHECKS)? {
            None | Some(0 | 1) => Scheme::Parity,
            Some(checks) => Scheme::ReedSolomon { checks: checks as usize },
        },
        (0, _) => Scheme::Parity,
        (1, 0) => Scheme::ReedSolomon { checks: 2 },
        (1, checks) => Scheme::ReedSolomon { checks: checks as usize },
        (other, _) => return Err(format!("there is no code {other}: see enum standfast_code")),
    };
    let base = Settings::new(standfast_member::job_named(job), memory, node);
    let settings = Settings {
        scheme,
        group_members: if options.group == 0 { base.group_members } else { options.group as usize },
        tracking: if options.compare == 0 { RegionTracking::Auto } else { RegionTracking::Compare },
        directory: path(options.directory, DIRECTORY),
        directory_every: count(options.directory_every, DIRECTORY_EVERY)?.into(),
        encode_every: match options.encode_every {
            0 => parsed(&environment, ENCODE_EVERY, "a number, and not 'auto'")?.unwrap_or_default(),
            given => EncodeEvery::Nth(given.into()),
        },
        launch_progress: path(options.milestones, LAUNCH_PROGRESS),
        ..base
    };
    let hang = if options.hang == 0.0 { number(&environment, HANG)?.unwrap_or_default() } else { options.hang };
    Ok(Configuration { settings, hang: seconds(hang).map_err(|error| format!("hang: {error}"))? })
}

/// Returns the time between checkpoints from `standfast group run --interval`, or a minute.
pub(crate) fn interval(environment: impl Fn(&str) -> Option<OsString>) -> Result<f64, String> {
    Ok(number(&environment, INTERVAL)?.unwrap_or(INTERVAL_SECONDS))
}

fn seconds(seconds: f64) -> Result<Option<Duration>, String> {
    let some = (seconds != 0.0).then(|| Duration::try_from_secs_f64(seconds)).transpose();
    some.map_err(|error| error.to_string())
}

/// Returns the number in a variable, if it is set.
fn number<T: FromStr>(environment: &impl Fn(&str) -> Option<OsString>, variable: &str) -> Result<Option<T>, String> {
    parsed(environment, variable, "a number")
}

/// Returns the value of a variable, if it is set. `kind` names what it must be.
fn parsed<T: FromStr>(
    environment: &impl Fn(&str) -> Option<OsString>,
    variable: &str,
    kind: &str,
) -> Result<Option<T>, String> {
    let Some(text) = environment(variable) else { return Ok(None) };
    let parsed = text.to_str().and_then(|text| text.trim().parse().ok());
    parsed.map(Some).ok_or_else(|| format!("{variable} is not {kind}: {}", text.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        let (none, no_text) = (0, std::ptr::null());
        Options {
            size: size_of::<Options>(),
            job: c"solver".as_ptr(),
            memory: no_text,
            code: 0,
            checks: none,
            group: none,
            compare: 0,
            directory: no_text,
            directory_every: none,
            encode_every: none,
            hang: 0.0,
            milestones: no_text,
        }
    }

    fn configured(options: &Options, variables: &[(&str, &str)]) -> Result<Configuration, String> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        // SAFETY: the strings are literals of C, or null.
        unsafe { configuration(Some(options), value) }
    }

    #[test]
    fn options_that_the_program_omits_come_from_the_environment() {
        let variables =
            [(CHECKS, "3"), (DIRECTORY, "/shared"), (DIRECTORY_EVERY, "5"), (ENCODE_EVERY, "4"), (HANG, "2.5")];
        let Configuration { settings, hang } = configured(&options(), &variables).unwrap();
        assert_eq!(settings.scheme, Scheme::ReedSolomon { checks: 3 });
        assert_eq!((settings.directory_every, settings.encode_every), (5, EncodeEvery::Nth(4)));
        assert_eq!((settings.directory, hang), (Some("/shared".into()), Some(Duration::from_millis(2500))));
        let own = Options { code: 1, directory: c"/own".as_ptr(), directory_every: 2, hang: 1.0, ..options() };
        let Configuration { settings, hang } = configured(&own, &variables).unwrap();
        assert_eq!(settings.scheme, Scheme::ReedSolomon { checks: 2 });
        assert_eq!((settings.directory, settings.directory_every), (Some("/own".into()), 2));
        assert_eq!(hang, Some(Duration::from_secs(1)));
    }

    #[test]
    fn defaults_apply_without_options_and_environment() {
        let Configuration { settings, hang } = configured(&options(), &[(DIRECTORY, ""), (CHECKS, "1")]).unwrap();
        assert_eq!((settings.scheme, settings.directory, hang), (Scheme::Parity, None, None));
        assert_eq!((settings.directory_every, settings.encode_every), (0, EncodeEvery::Nth(1)));
        let auto = configured(&options(), &[(ENCODE_EVERY, "auto")]).unwrap();
        assert_eq!(auto.settings.encode_every, EncodeEvery::Auto);
        assert_eq!(interval(|_| None), Ok(60.0));
        assert_eq!(interval(|_| Some("0.25".into())), Ok(0.25));
    }

    #[test]
    fn a_value_that_is_not_a_number_is_refused_with_its_variable() {
        for variable in [CHECKS, DIRECTORY_EVERY, ENCODE_EVERY, HANG] {
            let refusal = configured(&options(), &[(variable, "many")]).unwrap_err();
            assert!(refusal.contains(variable) && refusal.contains("many"), "{refusal}");
        }
        assert!(configured(&options(), &[(HANG, "-1")]).unwrap_err().contains("hang"));
        assert!(interval(|_| Some("soon".into())).is_err());
    }
}
