//! Where the shard stores of a job lie in a node's memory, which all users of the node share and anybody may take names in.
//!
//! ```text
//!   MEMORY/standfast-1000/JOB/seat-3               one directory for each user, 0700
//!   MEMORY/standfast-1000-9f3c0b.../JOB/seat-3     where somebody else has taken that name
//! ```
//!
//! The other names follow from the job's own, which nobody else knows: all its processes find the same, and nobody takes them
//! beforehand. What lies in a place of somebody else's is neither read nor written.

use crate::error::MemberError;
use crate::shard_store::make_directory;
use standfast_core::Root;
use standfast_format::manifest::JobId;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Names that are tried: the usual one, and three that nobody can have known before the job came to them.
const PLACES: u8 = 4;
/// Of the digest in a name so many bytes: nobody guesses 64 bits.
const DIGEST_BYTES: usize = 8;

/// Where a job's shard stores lie on this node; `None` where it has none here.
///
/// # Errors
/// Those of the file system; where a directory of the user's is open to others.
pub(crate) fn find(memory: &Path, job: JobId) -> Result<Option<PathBuf>, MemberError> {
    for place in places(memory, job) {
        let directory = place.join(job.to_string());
        if is_ours(&place)? && is_ours(&directory)? {
            make_directory(&place)?;
            make_directory(&directory)?;
            return Ok(Some(directory));
        }
    }
    Ok(None)
}

/// The same, and makes it where there is none.
///
/// # Errors
/// As for [`find`]; where somebody else has all the names.
pub(crate) fn take(memory: &Path, job: JobId) -> Result<PathBuf, MemberError> {
    if let Some(found) = find(memory, job)? {
        return Ok(found);
    }
    let mut refused = None;
    for place in places(memory, job) {
        match make_directory(&place) {
            // Of the user's own, what is wrong with it must be told: the job may have been there.
            Err(error) if !is_ours(&place)? => refused = refused.or(Some(error)),
            made => {
                made?;
                let directory = place.join(job.to_string());
                return make_directory(&directory).map(|()| directory);
            }
        }
    }
    Err(refused.unwrap_or_else(|| MemberError::unusable(memory, "it has no space left")))
}

/// Removes what a job has on this node, wherever it lies.
///
/// # Errors
/// Those of the file system.
pub(crate) fn remove(memory: &Path, job: JobId) -> Result<(), MemberError> {
    for place in places(memory, job) {
        if !is_ours(&place)? {
            continue;
        }
        let directory = place.join(job.to_string());
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(MemberError::file(&directory))?,
        }
        // With the last job goes what the user's jobs share.
        let _ = fs::remove_dir(&place);
    }
    Ok(())
}

fn places(memory: &Path, job: JobId) -> impl Iterator<Item = PathBuf> {
    let named = |end: &str| memory.join(format!("standfast-{}{end}", user()));
    let usual = named("");
    let other = move |number: u8| {
        let digest = Root::of(&[&job.to_bytes(), &[number]]).to_bytes();
        let digits: String = digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
        named(&format!("-{digits}"))
    };
    std::iter::once(usual).chain((1..PLACES).map(other))
}

/// Whether there is something, and nobody else has put it there.
fn is_ours(path: &Path) -> Result<bool, MemberError> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(found.uid() == user()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(MemberError::file(path)(error)),
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    fn job(number: u8) -> JobId {
        JobId::from_bytes([number; 16])
    }

    #[test]
    fn a_job_is_found_where_it_was_and_gone_without_a_trace() {
        let memory = tempfile::tempdir().unwrap();
        assert_eq!(find(memory.path(), job(1)).unwrap(), None);
        let (first, second) = (take(memory.path(), job(1)).unwrap(), take(memory.path(), job(2)).unwrap());
        assert_eq!(first.parent(), second.parent());
        assert_eq!(find(memory.path(), job(1)).unwrap().as_ref(), Some(&first));
        assert_eq!(take(memory.path(), job(1)).unwrap(), first);
        remove(memory.path(), job(1)).unwrap();
        assert!(!first.exists() && second.exists());
        remove(memory.path(), job(2)).unwrap();
        assert_eq!(fs::read_dir(memory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_place_of_ones_own_that_others_may_enter_is_refused_and_not_passed_over() {
        let memory = tempfile::tempdir().unwrap();
        let place = places(memory.path(), job(1)).next().unwrap();
        take(memory.path(), job(1)).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(find(memory.path(), job(1)).is_err() && take(memory.path(), job(1)).is_err());
        fs::remove_dir_all(&place).unwrap();
        symlink(memory.path(), &place).unwrap();
        assert!(take(memory.path(), job(1)).is_err());
    }

    /// For root, who can be two users.
    #[test]
    fn names_that_a_stranger_has_taken_are_passed_over() {
        const STRANGER: u32 = 65533;
        if user() != 0 {
            return;
        }
        let memory = tempfile::tempdir().unwrap();
        let squatted: Vec<PathBuf> = places(memory.path(), job(1)).collect();
        for (taken, place) in squatted.iter().enumerate() {
            // What lies there by the job's name leads nowhere.
            fs::create_dir_all(place.join(job(1).to_string())).unwrap();
            chown(place, Some(STRANGER), Some(STRANGER)).unwrap();
            let found = take(memory.path(), job(1));
            match squatted.get(taken + 1) {
                Some(next) => {
                    let found = found.unwrap();
                    assert_eq!(found.parent(), Some(next.as_path()));
                    assert_eq!(find(memory.path(), job(1)).unwrap(), Some(found));
                    remove(memory.path(), job(1)).unwrap();
                    assert!(!next.exists() && place.exists());
                }
                None => assert!(found.is_err_and(|error| error.to_string().contains("not a directory that is yours"))),
            }
        }
        // A link leads nowhere either.
        fs::remove_dir_all(&squatted[0]).unwrap();
        symlink("/", &squatted[0]).unwrap();
        std::os::unix::fs::lchown(&squatted[0], Some(STRANGER), Some(STRANGER)).unwrap();
        assert_eq!(find(memory.path(), job(1)).unwrap(), None);
    }

    #[test]
    fn the_other_names_are_those_of_the_job() {
        let of = |number| places(Path::new("/m"), job(number)).collect::<Vec<_>>();
        assert_eq!(of(1)[0], of(2)[0]);
        assert!(of(1)[1..].iter().all(|place| !of(2).contains(place)) && of(1)[1] != of(1)[2]);
        assert!(of(1)[1].display().to_string().starts_with(&format!("{}-", of(1)[0].display())));
    }
}
