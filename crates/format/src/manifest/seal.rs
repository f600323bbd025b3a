//! Converts a manifest to sealed bytes and back. Pure: callers read and write the bytes.

use super::Manifest;
use standfast_core::Checksum;

/// First bytes of a manifest.
pub const MANIFEST_MAGIC: [u8; 8] = *b"SFMANIF\n";

/// The version of the layout that this library writes, and the newest that it reads.
pub const MANIFEST_VERSION: u32 = 1;

/// Longest manifest that is read. The kernel limits a command line to about 6 MiB; a generation takes some 80 bytes.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;

const HEAD_BYTES: usize = 16;
const SEAL_BYTES: usize = 16;

/// The reason why some bytes are not a valid manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Not a manifest at all.
    #[error("it is not a manifest of Standfast")]
    Foreign,
    /// It was written by a later Standfast.
    #[error("it has format version {0}, this Standfast reads up to {MANIFEST_VERSION}: use a newer Standfast")]
    Version(u32),
    /// The bytes differ from those that were written.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// The bytes are intact, but their content makes no sense.
    #[error("its content makes no sense: {0}")]
    Senseless(String),
    /// It is longer than readers accept.
    #[error("it would be {0} bytes long, at most {MANIFEST_BYTES_MAX} are allowed: shorten the program's arguments")]
    TooLong(usize),
}

/// Returns the sealed bytes of a manifest.
///
/// # Errors
/// [`ManifestError::TooLong`] and [`ManifestError::Senseless`]: a manifest that could not be read back is not written.
pub fn seal(manifest: &Manifest) -> Result<Vec<u8>, ManifestError> {
    check(manifest)?;
    let body = minicbor::to_vec(manifest).expect("a vector takes all bytes");
    let total = HEAD_BYTES + body.len() + SEAL_BYTES;
    if total > MANIFEST_BYTES_MAX {
        return Err(ManifestError::TooLong(total));
    }
    let length = u32::try_from(body.len()).expect("below the limit");
    let mut bytes = Vec::with_capacity(total);
    bytes.extend_from_slice(&MANIFEST_MAGIC);
    bytes.extend_from_slice(&MANIFEST_VERSION.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&body);
    let checksum = Checksum::of(&bytes);
    bytes.extend_from_slice(&checksum.to_bytes());
    Ok(bytes)
}

/// Decodes a manifest from sealed bytes.
///
/// # Errors
/// If they are not exactly what [`seal`] made of a sensible manifest.
pub fn unseal(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let Some(rest) = bytes.strip_prefix(&MANIFEST_MAGIC) else {
        return Err(ManifestError::Foreign);
    };
    let Some((version, rest)) = rest.split_first_chunk::<4>() else {
        return Err(ManifestError::Damaged("it is cut off"));
    };
    let version = u32::from_le_bytes(*version);
    if version > MANIFEST_VERSION {
        return Err(ManifestError::Version(version));
    }
    if version == 0 {
        return Err(ManifestError::Damaged("its version is 0"));
    }
    let body = unsealed_body(bytes, rest)?;
    let mut decoder = minicbor::Decoder::new(body);
    let manifest: Manifest = decoder.decode().map_err(|error| ManifestError::Senseless(error.to_string()))?;
    if decoder.position() != body.len() {
        return Err(ManifestError::Senseless("more follows after its end".into()));
    }
    check(&manifest)?;
    Ok(manifest)
}

/// Returns the CBOR between length and seal, after verifying both.
fn unsealed_body<'a>(whole: &'a [u8], from_length: &'a [u8]) -> Result<&'a [u8], ManifestError> {
    let cut_off = ManifestError::Damaged("its length is not the one it names");
    let Some((length, rest)) = from_length.split_first_chunk::<4>() else {
        return Err(cut_off);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if whole.len() > MANIFEST_BYTES_MAX || rest.len() != length.saturating_add(SEAL_BYTES) {
        return Err(cut_off);
    }
    let (sealed, seal) = whole.split_at(HEAD_BYTES + length);
    if Checksum::of(sealed).to_bytes() != *seal {
        return Err(ManifestError::Damaged("its checksum does not match"));
    }
    Ok(&sealed[HEAD_BYTES..])
}

/// Checks the invariants of a manifest, before writing and after reading.
fn check(manifest: &Manifest) -> Result<(), ManifestError> {
    let generations = &manifest.generations;
    let ascending = generations.is_sorted_by(|a, b| a.number < b.number);
    let before_next = generations.last().is_none_or(|last| last.number < manifest.next);
    let parents_earlier = generations.iter().all(|it| it.parent.is_none_or(|parent| parent < it.number));
    if !(ascending && before_next && parents_earlier) {
        return Err(ManifestError::Senseless("its generations are out of order".into()));
    }
    if generations.iter().any(|it| it.parent.is_some_and(|parent| manifest.generation(parent).is_none())) {
        return Err(ManifestError::Senseless("the parent of a generation is missing".into()));
    }
    Ok(())
}
