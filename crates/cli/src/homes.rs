//! Directories of the user, from the environment.

use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the directory in which a user's jobs share the binaries that they save, below the user's cache directory.
/// Returns `None` if the environment names no such directory; each job then has copies of its own.
pub(crate) fn shared_binaries() -> Option<PathBuf> {
    shared_binaries_by(|name| std::env::var_os(name))
}

fn shared_binaries_by(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("standfast").join("binaries"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn binaries_are_shared_below_the_cache_directory_of_the_user() {
        let by = |said: &'static [(&str, &str)]| {
            shared_binaries_by(|name| said.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        assert_eq!(by(&[("HOME", "/users/me")]).as_deref(), Some(Path::new("/users/me/.cache/standfast/binaries")));
        assert_eq!(
            by(&[("HOME", "/users/me"), ("XDG_CACHE_HOME", "/caches")]).as_deref(),
            Some(Path::new("/caches/standfast/binaries"))
        );
        assert_eq!(by(&[("HOME", "")]), None);
        assert_eq!(by(&[("HOME", "here")]), None, "not wherever the command happens to be called");
    }
}
