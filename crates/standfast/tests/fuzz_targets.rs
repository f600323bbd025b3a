//! The fuzz targets of `fuzz/fuzz_targets` as ordinary functions, each run with some thousand short inputs and with those
//! of the golden images. The targets are in a workspace of their own, for another compiler, so nothing else here would
//! notice that one of them no longer compiles. This is not fuzzing: nothing guides the inputs.
#![allow(missing_docs, reason = "a test binary")]
#![allow(unused_attributes, reason = "a target is a program of its own elsewhere, and says so")]

use proptest::prelude::*;
use std::path::{Path, PathBuf};

#[path = "../../../fuzz/fuzz_targets/codec.rs"]
mod codec;
#[path = "../../../fuzz/fuzz_targets/core_file.rs"]
mod core_file;
#[path = "../../../fuzz/fuzz_targets/delta.rs"]
mod delta;
#[path = "../../../fuzz/fuzz_targets/directions.rs"]
mod directions;
#[path = "../../../fuzz/fuzz_targets/group_input.rs"]
mod group_input;
#[path = "../../../fuzz/fuzz_targets/group_message.rs"]
mod group_message;
#[path = "../../../fuzz/fuzz_targets/image_block.rs"]
mod image_block;
#[path = "../../../fuzz/fuzz_targets/image_file.rs"]
mod image_file;
#[path = "../../../fuzz/fuzz_targets/image_parts.rs"]
mod image_parts;
#[path = "../../../fuzz/fuzz_targets/manifest.rs"]
mod manifest;
#[path = "../../../fuzz/fuzz_targets/part_report.rs"]
mod part_report;
#[path = "../../../fuzz/fuzz_targets/remote_message.rs"]
mod remote_message;

// The targets ask for the macro by this name. For that, it must stand after them.
extern crate self as libfuzzer_sys;

/// Replaces the macro that makes a program of a target.
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:block) => {
        pub(crate) fn run($input: &[u8]) $body
    };
}

type Target = fn(&[u8]);

/// All targets.
const TARGETS: [(&str, Target); 12] = [
    ("codec", codec::run),
    ("core_file", core_file::run),
    ("delta", delta::run),
    ("directions", directions::run),
    ("group_input", group_input::run),
    ("group_message", group_message::run),
    ("image_block", image_block::run),
    ("image_file", image_file::run),
    ("image_parts", image_parts::run),
    ("manifest", manifest::run),
    ("part_report", part_report::run),
    ("remote_message", remote_message::run),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

#[test]
fn every_fuzz_target_is_listed_and_built() {
    let files = std::fs::read_dir(folder().join("fuzz_targets")).expect("the targets are there");
    let paths = files.map(|file| file.expect("it can be read").path());
    let mut there: Vec<_> =
        paths.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    there.sort();
    assert_eq!(there, TARGETS.map(|(name, _)| name));
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).expect("as above");
    let is_program = |name: &&String| manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"\n"));
    assert_eq!(there.iter().filter(is_program).count(), TARGETS.len());
}

/// Covers inputs that random bytes do not come near.
#[test]
fn every_fuzz_target_accepts_golden_images_and_their_prefixes() {
    let golden = folder().join("../crates/format/tests/golden");
    let files = std::fs::read_dir(golden).expect("the golden images are there");
    let images: Vec<Vec<u8>> =
        files.map(|file| std::fs::read(file.expect("it can be read").path()).expect("it can be read")).collect();
    assert!(!images.is_empty());
    for image in &images {
        for length in [image.len(), image.len() - 1, image.len() / 2, 4096, 100, 0] {
            let input = &image[..length.min(image.len())];
            TARGETS.iter().for_each(|(_, target)| target(input));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn no_target_panics(input in prop::collection::vec(any::<u8>(), 0..400)) {
        TARGETS.iter().for_each(|(_, target)| target(&input));
    }
}
