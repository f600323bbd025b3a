//! Every row of the tables in `docs/states.md` has one of four outcomes, and names the victims and tests that prove it. A
//! row that no collection can see needs no proof.
#![allow(missing_docs, reason = "a test binary")]

use super::limits::is_run;
use anyhow::{Context as _, Result, ensure};
use standfast_tests::features::{Expectation, Feature};
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../docs/states.md");
/// The beginning of the first cell in each header.
const HEADER: &str = "what the program observes";
/// The last cell of a row without a proof.
const NOTHING: &str = "—";
/// The beginning of a last cell that gives a reason instead of a proof.
const NO_VICTIM: &str = "no victim: ";

/// A row of a table.
struct Row {
    state: &'static str,
    outcome: &'static str,
    proof: &'static str,
}

impl Row {
    /// Parses a line of a table; `None` for headers and rulers.
    fn parse(line: &'static str) -> Option<Result<Self>> {
        let cells = line.strip_prefix('|')?.strip_suffix('|').unwrap_or_default();
        let cells: Vec<_> = cells.split('|').map(str::trim).collect();
        if cells[0] == HEADER || cells.iter().all(|cell| cell.starts_with("---")) {
            return None;
        }
        let row = <[&str; 4]>::try_from(cells).ok().with_context(|| format!("not a row of four cells: {line}"));
        Some(row.map(|[state, _, outcome, proof]| Self { state, outcome, proof }))
    }

    fn check(&self, features: &[(String, Result<Feature>)]) -> Result<()> {
        let needs_proof = match self.outcome {
            "carried" | "remade" | "refused" => true,
            "invisible" => false,
            other => anyhow::bail!("{other:?} is none of carried, remade, refused, invisible"),
        };
        if self.proof == NOTHING {
            ensure!(!needs_proof, "nothing proves it: name a victim, or a reason that begins with {NO_VICTIM:?}");
            return Ok(());
        }
        if let Some(reason) = self.proof.strip_prefix(NO_VICTIM) {
            ensure!(!reason.is_empty(), "the reason is missing");
            return Ok(());
        }
        self.proof.split(", ").try_for_each(|name| {
            let name = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            let name = name.context("a name of a victim or a test stands between backquotes")?;
            match name.split_once(": ") {
                Some((file, function)) => is_there(file, function),
                None => self.is_proved_by(name, features),
            }
        })
    }

    /// Checks that a victim exists, and that it expects what the row says.
    fn is_proved_by(&self, name: &str, features: &[(String, Result<Feature>)]) -> Result<()> {
        let victim = features.iter().find(|(other, _)| other == name);
        let (_, victim) = victim.with_context(|| format!("there is no victim {name}"))?;
        let expect = victim.as_ref().ok().map(|victim| &victim.header.expect);
        let is_right = match self.outcome {
            "refused" => matches!(expect, Some(Expectation::Refuse(_))),
            _ => expect == Some(&Expectation::Survive),
        };
        ensure!(is_right, "{name} expects {expect:?}");
        Ok(())
    }
}

/// Checks that a file of `tests/tests` has a test of this name.
fn is_there(file: &str, function: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    ensure!(is_run(&text, function), "{file} has no test {function} that is run");
    Ok(())
}

#[test]
fn every_row_of_the_table_of_states_is_proved_or_says_why_not() -> Result<()> {
    let features = Feature::all()?;
    let rows = PAGE.lines().filter_map(Row::parse).collect::<Result<Vec<_>>>()?;
    ensure!(!rows.is_empty(), "there is no table");
    let fault = |row: &Row| row.check(&features).err().map(|why| format!("{}: {why:#}", row.state));
    let faults: Vec<_> = rows.iter().filter_map(fault).collect();
    ensure!(faults.is_empty(), "in docs/states.md:\n{}", faults.join("\n"));
    Ok(())
}
