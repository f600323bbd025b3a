//! Compiles all victims of features into `STANDFAST_VICTIMS`, for a machine without a compiler.
#![allow(missing_docs, clippy::print_stderr, reason = "a command of the tests")]

use anyhow::{Context as _, Result};
use standfast_tests::features::{Feature, Prepared};

fn main() -> Result<()> {
    for (name, feature) in Feature::all()? {
        let compiled = feature.and_then(|feature| feature.compile()).with_context(|| format!("compiling {name}"))?;
        if let Prepared::Lacking(lacking) = compiled {
            eprintln!("{name} is not compiled: {lacking}");
        }
    }
    Ok(())
}
