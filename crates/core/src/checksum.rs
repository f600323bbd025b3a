//! The two checksums of an image: a fast one for every block and a tamper-evident one for the whole.
//!
//! Every restart verifies blocks, so their checksum must run at memory speed: XXH3, 128 bits. The root binds the
//! header, index and state of an image (and through the index all block checksums) to its line in the manifest: BLAKE3.

use std::fmt;

/// XXH3-128 of some bytes. Protects a block against accidents: bit flips, torn writes, truncation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Checksum([u8; 16]);

impl Checksum {
    /// Returns the checksum of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        // Of the Rust implementations, this one detects the processor's features: with AVX2 it is twice as fast.
        Self(twox_hash::XxHash3_128::oneshot(bytes).to_le_bytes())
    }

    /// Restores a checksum read from an image.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the 16 bytes stored in an image, least significant first.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

/// BLAKE3 of an image's header, index and state: its identity in the manifest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Root([u8; 32]);

impl Root {
    /// Returns the root over several parts. Each part is preceded by its length, so that no two divisions give the same
    /// root.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Restores a root read from a manifest.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes stored in a manifest.
    pub const fn to_bytes(self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_the_published_xxh3_of_the_empty_string() {
        let published = 0x99aa_06d3_0147_98d8_6001_c324_468d_497f_u128;
        assert_eq!(Checksum::of(b"").to_bytes(), published.to_le_bytes());
    }

    #[test]
    fn the_root_depends_on_how_bytes_are_divided() {
        assert_ne!(Root::of(&[b"ab", b"c"]), Root::of(&[b"a", b"bc"]));
        assert_ne!(Root::of(&[b"abc"]), Root::of(&[b"abc", b""]));
    }
}
