//! The lists of promises that may be skipped are complete, and name no promise that is gone.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::features::Feature;
use standfast_tests::skip::{NOT_EVERYWHERE, ONLY_SOME_USERS};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the text of all tests that may skip a promise.
fn sources() -> Result<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(here.join("tests"))?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<Result<Vec<PathBuf>>>()?;
    paths.extend(["src/victims.rs", "../crates/engine/tests/remapped.rs"].map(|path| here.join(path)));
    paths.iter().map(|path| fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))).collect()
}

#[test]
fn every_victim_for_some_users_is_on_the_list() -> Result<()> {
    for (name, feature) in Feature::all()? {
        let needs = feature.with_context(|| name.clone())?.header.needs;
        let is_for_some = needs.iter().any(|need| need == "root" || need == "user");
        let is_listed = ONLY_SOME_USERS.iter().any(|(beginning, _)| name.starts_with(beginning));
        ensure!(is_for_some == is_listed, "{name} needs {needs:?}: add it to tests/src/skip.rs, or remove it there");
    }
    Ok(())
}

#[test]
fn every_listed_promise_exists() -> Result<()> {
    let (features, sources) = (Feature::all()?, sources()?);
    for (beginning, _) in NOT_EVERYWHERE.iter().chain(ONLY_SOME_USERS) {
        let is_victim = features.iter().any(|(name, _)| name.starts_with(beginning));
        let is_test = sources.contains(&format!("\"{beginning}"));
        ensure!(is_victim || is_test, "tests/src/skip.rs lists {beginning:?}, which no test promises");
    }
    Ok(())
}
