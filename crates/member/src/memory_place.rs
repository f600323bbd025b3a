//! Where the shard stores of a job lie in a node's memory. All users of the node share it, and any of them may create
//! names in it.
//!
//! ```text
//!   MEMORY/standfast-1000/JOB/seat-3               one directory for each user, 0700
//!   MEMORY/standfast-1000-9f3c0b.../JOB/seat-3     if another user has taken that name
//! ```
//!
//! The other names are derived from the job's own, which no other user knows: all its processes find the same names, and
//! no other user can take them beforehand. A directory of another user is neither read nor written.

use crate::error::MemberError;
use crate::shard_store::make_directory;
use standfast_core::Root;
use standfast_format::manifest::JobId;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Names that are tried: the usual one, and three that other users cannot have known before the job used them.
const PLACES: u8 = 4;
/// Bytes of the digest in a name: 64 bits cannot be guessed.
const DIGEST_BYTES: usize = 8;

/// Returns the directory of a job's shard stores on this node; `None` if it has none here.
///
/// # Errors
/// File system errors; if a directory of the user is open to others.
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

/// Returns this directory, and creates it if there is none.
///
/// # Errors
/// As for [`find`]; if other users have all the names.
pub(crate) fn take(memory: &Path, job: JobId) -> Result<PathBuf, MemberError> {
    if let Some(found) = find(memory, job)? {
        return Ok(found);
    }
    let mut refused = None;
    for place in places(memory, job) {
        match make_directory(&place) {
            // An error of the user's own directory must be reported: the job may have been there.
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

/// Removes a job's data on this node, wherever it lies.
///
/// # Errors
/// File system errors.
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
        // The last job also removes what the user's jobs share.
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

/// Reports whether the path exists and belongs to this user.
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
    fn a_job_keeps_its_place_and_is_removed_without_a_trace() {
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
    fn an_own_place_that_others_may_enter_is_refused() {
        let memory = tempfile::tempdir().unwrap();
        let place = places(memory.path(), job(1)).next().unwrap();
        take(memory.path(), job(1)).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(find(memory.path(), job(1)).is_err() && take(memory.path(), job(1)).is_err());
        fs::remove_dir_all(&place).unwrap();
        symlink(memory.path(), &place).unwrap();
        assert!(take(memory.path(), job(1)).is_err());
    }

    /// For root, which can act as two users.
    #[test]
    fn names_taken_by_another_user_are_skipped() {
        const STRANGER: u32 = 65533;
        if user() != 0 {
            return;
        }
        let memory = tempfile::tempdir().unwrap();
        let squatted: Vec<PathBuf> = places(memory.path(), job(1)).collect();
        for (taken, place) in squatted.iter().enumerate() {
            // The job's name inside it must not lead there.
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
        // A link must not lead anywhere either.
        fs::remove_dir_all(&squatted[0]).unwrap();
        symlink("/", &squatted[0]).unwrap();
        std::os::unix::fs::lchown(&squatted[0], Some(STRANGER), Some(STRANGER)).unwrap();
        assert_eq!(find(memory.path(), job(1)).unwrap(), None);
    }

    #[test]
    fn fallback_names_are_unique_to_the_job() {
        let of = |number| places(Path::new("/m"), job(number)).collect::<Vec<_>>();
        assert_eq!(of(1)[0], of(2)[0]);
        assert!(of(1)[1..].iter().all(|place| !of(2).contains(place)) && of(1)[1] != of(1)[2]);
        assert!(of(1)[1].display().to_string().starts_with(&format!("{}-", of(1)[0].display())));
    }
}
