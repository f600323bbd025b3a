//! Names of the files that the store writes to a job's directory, and tests that tell them from a user's files.

use crate::random::{CLOCK_STEM, LEASE_STEM, MANIFEST_STEM, temporary_stem};
use standfast_format::manifest::{Generation, GenerationNumber};

/// Prefix of the names of saved binaries.
pub(crate) const SAVED_BINARY_PREFIX: &str = "keepsake-";
/// Name of the job's history, and of what came before it.
pub(crate) const HISTORY: &str = "standfast-history";
pub(crate) const EARLIER_HISTORY: &str = "standfast-history.earlier";
const IMAGE_PREFIX: &str = "generation-";
const IMAGE_SUFFIX: &str = ".image";

/// Returns the name of the file that holds a generation.
pub(crate) fn image_name(generation: &Generation) -> String {
    image_name_of(generation.number, generation.revision)
}

/// Returns the file name of a generation that has been coalesced `revision` times.
pub(crate) fn image_name_of(number: GenerationNumber, revision: u32) -> String {
    let stem = image_stem(number);
    if revision == 0 { format!("{stem}{IMAGE_SUFFIX}") } else { format!("{stem}.{revision}{IMAGE_SUFFIX}") }
}

/// Returns the prefix of the names of all files that belong to a generation.
pub(crate) fn image_stem(number: GenerationNumber) -> String {
    format!("{IMAGE_PREFIX}{:08}", number.get())
}

/// Reports whether [`image_name`] returns such names. Only cleanup uses this; it never determines which generations
/// exist.
pub(crate) fn is_image_name(name: &str) -> bool {
    let parts = || {
        let stem = name.strip_prefix(IMAGE_PREFIX)?.strip_suffix(IMAGE_SUFFIX)?;
        let (number, revision) = stem.split_once('.').unwrap_or((stem, "0"));
        Some((GenerationNumber::new(number.parse().ok()?)?, revision.parse().ok()?))
    };
    parts().is_some_and(|(number, revision)| image_name_of(number, revision) == name)
}

/// Reports whether this is a name that the store gives a file before it is complete.
pub(crate) fn is_half_written(name: &str) -> bool {
    let is_ours = |stem: &str| {
        [LEASE_STEM, CLOCK_STEM, MANIFEST_STEM].contains(&stem) || is_image_name(stem) || is_saved_binary(stem)
    };
    temporary_stem(name).is_some_and(is_ours)
}

/// Reports whether this is the name of a saved binary.
pub(crate) fn is_saved_binary(name: &str) -> bool {
    let digits = name.strip_prefix(SAVED_BINARY_PREFIX).and_then(|rest| rest.split_once('-')).map(|(digits, _)| digits);
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_image_names_of_the_store_are_recognised() {
        for number in [1, 42, 99_999_999, 123_456_789_012] {
            let number = GenerationNumber::new(number).unwrap();
            assert!((0..3).all(|revision| is_image_name(&image_name_of(number, revision))));
        }
        for name in [
            "generation-1.image",
            "generation-00000000.image",
            "generation-.image",
            "generation-+0000001.image",
            "generation-00000001.0.image",
            "generation-00000001.01.image",
            "generation-00000001.1.1.image",
        ] {
            assert!(!is_image_name(name), "{name}");
        }
    }
}
