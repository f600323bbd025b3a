//! All promises that the tests check from outside, except those of single features, in one program. It is linked once,
//! and the last tests of one file run beside the first tests of the next. `cargo test -p standfast-tests --test promises
//! chains::` runs the tests of one file.
#![allow(missing_docs, reason = "a test binary")]

mod appending;
mod batch;
mod chains;
mod ckptrc;
mod clocks;
mod containers;
mod core_files;
mod datagrams;
mod deadlines;
mod differential;
mod directions;
mod directories;
mod disasters;
mod finished;
mod free_memory;
mod groups;
mod guide;
mod harness;
mod ids;
mod intervals;
mod job_control;
mod jobs;
mod languages;
mod levels;
mod library_package;
mod limits;
mod lives;
mod lower_limits;
mod mapped_writes;
mod mpi;
mod nodes;
mod notebooks;
mod notices;
mod other_users;
mod outside;
mod papers;
mod parallel;
mod part_states;
mod parts;
mod passing_through;
mod ports;
mod preflight;
mod printed;
mod proxied_terminal;
mod put_back;
mod rehearsals;
mod rehearsed_faults;
mod replaced;
mod saved_folders;
mod skips;
mod snapshots;
mod standstill;
mod states;
mod stuck;
mod terminals;
mod tiers;
mod unmodified;
mod watched;

#[test]
fn every_test_file_is_a_module() {
    let listed = include_str!("promises.rs");
    let files =
        std::fs::read_dir(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")).expect("the tests are there");
    let names = files.flatten().filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned()));
    let is_left_out =
        |name: &String| name != "features" && name != "promises" && !listed.contains(&format!("\nmod {name};\n"));
    let left_out: Vec<String> = names.filter(is_left_out).collect();
    assert!(left_out.is_empty(), "{left_out:?} are no part of this");
}
