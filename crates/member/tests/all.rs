//! All tests of a member from outside, in one program. It is linked once, and the last tests of one file run beside the
//! first tests of the next. `cargo test -p standfast-member --test all relaunch::` runs the tests of one file.
#![allow(missing_docs, reason = "a test binary")]

mod cluster;
mod directory;
mod exclusion;
mod memory;
mod refusals;
mod relaunch;
mod threads;

#[test]
fn every_test_file_is_a_module() {
    let listed = include_str!("all.rs");
    let files = std::fs::read_dir(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    for file in files.expect("the tests are there") {
        let path = file.expect("it can be read").path();
        let name = path.file_stem().expect("it has a name").to_string_lossy();
        assert!(name == "all" || listed.contains(&format!("\nmod {name};\n")), "{name} is no part of this");
    }
}
