//! The job's secret: 32 random bytes in a file that only its owner can read. It is never on a command line.

use crate::RemoteError;
use crate::error::system;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

const BYTES: usize = 32;
const OTHERS: u32 = 0o077;

/// What all processes of a job know, and nobody else.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Makes a new one.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn random() -> Result<Self, RemoteError> {
        random().map(Self)
    }

    /// Writes it to a new file.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), RemoteError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| file.write_all(&self.0));
        written.map_err(|source| RemoteError::File { path: path.to_owned(), source })
    }

    /// Reads it from a file.
    ///
    /// # Errors
    /// When the file cannot be read, has another length, or others can read it.
    pub fn load(path: &Path) -> Result<Self, RemoteError> {
        let failed = |source| RemoteError::File { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.mode() & OTHERS != 0 {
            return Err(RemoteError::Exposed(path.to_owned()));
        }
        let mut bytes = [0; BYTES];
        file.read_exact(&mut bytes).map_err(failed)?;
        Ok(Self(bytes))
    }

    /// Returns a proof that whoever makes it knows the secret, for these parts.
    pub(crate) fn proof(&self, parts: &[&[u8]]) -> [u8; BYTES] {
        let mut hash = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        *hash.finalize().as_bytes()
    }

    /// Reports whether a proof is right, in the same time whatever it is.
    pub(crate) fn proves(&self, proof: [u8; BYTES], parts: &[&[u8]]) -> bool {
        blake3::Hash::from_bytes(self.proof(parts)) == blake3::Hash::from_bytes(proof)
    }
}

/// Returns random bytes.
pub(crate) fn random() -> Result<[u8; BYTES], RemoteError> {
    let mut bytes = [0; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        let got = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        filled += got.map_err(|error| system("getting random bytes")(error.into()))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_secret_is_read_back_unless_others_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let secret = Secret::random().unwrap();
        secret.save(&path).unwrap();
        assert_eq!(Secret::load(&path).unwrap(), secret);
        assert!(secret.save(&path).is_err(), "it is there already");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Secret::load(&path), Err(RemoteError::Exposed(_))));
    }

    #[test]
    fn a_proof_holds_for_one_secret_and_its_parts() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        let proof = one.proof(&[b"ab", b"c"]);
        assert!(one.proves(proof, &[b"ab", b"c"]));
        assert!(!one.proves(proof, &[b"a", b"bc"]));
        assert!(!other.proves(proof, &[b"ab", b"c"]));
    }
}
