//! Public types have unique names throughout the workspace, so that a reader who meets one knows which it is. Private
//! types may share a name, since the module distinguishes them.

use crate::code::{without_comments, without_tests};
use crate::finding::Finding;
use std::collections::BTreeMap;

/// Pairs of types that mirror each other: an option and its record, or an identity seen from two sides.
const MIRRORED: [&str; 3] = ["ExternalSockets", "Interval", "ProcessIdentity"];

const KEYWORDS: [&str; 5] = ["enum", "struct", "trait", "type", "union"];

/// Public types of the workspace, each with the places that define it.
#[derive(Debug, Default)]
pub(crate) struct PublicTypes(BTreeMap<String, Vec<(String, usize)>>);

impl PublicTypes {
    /// Records the public types of a source file. Tests, benches and fuzz targets are separate programs.
    pub(crate) fn note(&mut self, path: &str, text: &str) {
        if !is_library(path) {
            return;
        }
        let code = without_tests(&without_comments(text));
        for (index, line) in code.lines().enumerate() {
            if let Some(name) = public_type(line) {
                self.0.entry(name.to_owned()).or_default().push((path.to_owned(), index + 1));
            }
        }
    }

    /// Returns each definition after the first one with the same name.
    pub(crate) fn check(&self) -> Vec<Finding> {
        let repeated = self.0.iter().filter(|(name, _)| !MIRRORED.contains(&name.as_str()));
        let finding = |name: &str, first: &(String, usize), (path, line): &(String, usize)| {
            let what = format!("the public type `{name}` is also defined in {}:{}", first.0, first.1);
            Finding::new(path, *line, what, "give it a name that says which of them it is")
        };
        repeated.flat_map(|(name, places)| places[1..].iter().map(|place| finding(name, &places[0], place))).collect()
    }
}

fn is_library(path: &str) -> bool {
    path.ends_with(".rs") && (path.starts_with("crates/") || path.starts_with("bindings/")) && path.contains("/src/")
}

/// Returns the type that a line makes public.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?.trim_start();
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, rest) = rest.split_once(' ')?;
    let name = rest.split(|letter: char| !letter.is_alphanumeric()).next()?;
    (KEYWORDS.contains(&keyword) && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut types = PublicTypes::default();
        files.iter().for_each(|(path, text)| types.note(path, text));
        types.check().into_iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn a_public_type_of_a_name_that_is_taken_is_found() {
        let files = [("crates/a/src/lib.rs", "\npub struct Plan;"), ("crates/b/src/lib.rs", "pub enum Plan { A }")];
        assert_eq!(found(&files), ["crates/b/src/lib.rs:1"]);
    }

    #[test]
    fn private_types_tests_and_mirrored_pairs_may_repeat() {
        let files = [
            ("crates/a/src/lib.rs", "pub struct Plan;\npub struct Interval;\n"),
            (
                "crates/b/src/lib.rs",
                "struct Plan;\npub(crate) struct Plan;\npub struct Interval;\n// pub struct Plan;\n",
            ),
            ("crates/b/tests/it.rs", "pub struct Plan;"),
            ("crates/c/src/lib.rs", "#[cfg(test)]\nmod tests {\n    pub struct Plan;\n}\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
