//! Random names of jobs, leases and temporary files. They tell the files that this crate created in a directory from
//! the user's own.

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 16 random bytes that are unique in practice.
pub(crate) fn bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives random bytes since Linux 3.17: {error}"),
        }
    }
    bytes
}

/// Suffix of the names of incomplete files.
const TEMPORARY_SUFFIX: &str = ".tmp";
const TOKEN_DIGITS: usize = 32;
/// Stems of temporary files: what each becomes, or the purpose it serves.
pub(crate) const LEASE_STEM: &str = "lease";
pub(crate) const CLOCK_STEM: &str = "clock";
pub(crate) const MANIFEST_STEM: &str = "manifest";

/// Returns a unique name for a temporary file that becomes `stem`: `STEM.0123456789abcdef0123456789abcdef.tmp`.
pub(crate) fn temporary_name(stem: &str) -> String {
    format!("{stem}.{}{TEMPORARY_SUFFIX}", random_token())
}

/// Returns the stem of a temporary file's name, if [`temporary_name`] returns such names.
pub(crate) fn temporary_stem(name: &str) -> Option<&str> {
    let (stem, token) = name.strip_suffix(TEMPORARY_SUFFIX)?.rsplit_once('.')?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (token.len() == TOKEN_DIGITS && token.bytes().all(is_digit)).then_some(stem)
}

/// Returns 16 random bytes, unique in practice, as 32 hexadecimal digits.
pub fn random_token() -> String {
    bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_our_token_are_temporary_files() {
        assert_eq!(temporary_stem(&temporary_name("manifest")), Some("manifest"));
        assert_eq!(temporary_stem(&temporary_name("a.b")), Some("a.b"));
        let token = random_token();
        for name in [
            "notes.tmp",
            "manifest.tmp",
            ".tmp",
            "x.0123.tmp",
            &format!("x.{token}"),
            &format!("x-{token}.tmp"),
            &format!("x.{}.tmp", token.replace(|_| true, "X")),
            &format!("x.{token}.tmp.gz"),
        ] {
            assert_eq!(temporary_stem(name), None, "{name}");
        }
    }
}
