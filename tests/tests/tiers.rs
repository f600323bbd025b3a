//! Each new victim in `make test` says what it replaces there, or why it must be there. The others say why they run in
//! `make test-all` only.
#![allow(missing_docs, reason = "a test binary")]

use super::limits::is_run;
use anyhow::{Context as _, Result, ensure};
use standfast_tests::features::{Feature, Replaced};
use std::fs;
use std::path::Path;

/// Victims that are older than this rule: they have neither of the keys. If one of them is removed, or gets a key, there
/// is one less.
const OLDER_VICTIMS: usize = 418;

#[test]
fn every_new_victim_names_what_it_replaces_or_why_it_is_not_in_make_test() -> Result<()> {
    let features = Feature::all()?;
    let is_silent = |feature: &Feature| feature.header.replaces.is_none() && feature.header.rest.is_none();
    let silent = features.iter().filter(|(_, feature)| feature.as_ref().is_ok_and(is_silent)).count();
    ensure!(
        silent <= OLDER_VICTIMS,
        "{silent} victims have neither `replaces:` nor `rest:` in their header, and {OLDER_VICTIMS} may: add a key to \
         the new ones (tests/victims/features/README.md)"
    );
    ensure!(
        silent == OLDER_VICTIMS,
        "only {silent} victims have neither key: lower OLDER_VICTIMS in tests/tests/tiers.rs"
    );
    Ok(())
}

#[test]
fn replaced_victims_and_tests_are_not_in_make_test() -> Result<()> {
    let features = Feature::all()?;
    let is_quick = |victim: &str| {
        features.iter().any(|(name, it)| name == victim && it.as_ref().is_ok_and(|it| it.header.rest.is_none()))
    };
    for (name, feature) in &features {
        let Some(replaced) = feature.as_ref().ok().and_then(|feature| feature.header.replaces.as_ref()) else {
            continue;
        };
        match replaced {
            Replaced::Victim(victim) => {
                ensure!(!is_quick(victim), "{name} replaces {victim}: remove that, or give it the key `rest:`");
            }
            Replaced::Test { file, function } => {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
                let text = fs::read_to_string(&path).with_context(|| format!("{name}: reading {}", path.display()))?;
                ensure!(
                    !is_run(&text, function),
                    "{name} replaces {function} in {file}: remove that, or `#[ignore]` it"
                );
            }
            Replaced::Nothing(_) => {}
        }
    }
    Ok(())
}
