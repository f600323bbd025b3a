//! Public types have unique names throughout the workspace, so that a reader who meets one knows which it is. Private
//! types may share a name, since the module distinguishes them.

use crate::code::{is_word_letter, without_comments, without_tests};
use crate::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// Types that mirror each other: an identity seen from two sides.
const MIRRORED: [&str; 1] = ["ProcessIdentity"];

/// More exceptions than this would make the rule worthless.
const MIRRORED_MAX: usize = 10;
const _: () = assert!(MIRRORED.len() <= MIRRORED_MAX);

const KEYWORDS: [&str; 5] = ["enum", "struct", "trait", "type", "union"];

/// Public types of the workspace, those that macros make included.
#[derive(Debug, Default)]
pub(crate) struct PublicTypes {
    /// Each definition in the text of a file.
    written: Vec<Definition>,
    /// What each call of a macro would define, by the macro's name.
    called: Vec<(String, Definition)>,
    /// Macros that define a public type with a name that the call chooses.
    defining: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct Definition {
    name: String,
    path: String,
    line: usize,
}

impl PublicTypes {
    /// Records the public types of a source file. Tests, benches and fuzz targets are separate programs.
    pub(crate) fn note(&mut self, path: &str, text: &str) {
        if !is_library(path) {
            return;
        }
        let code = without_tests(&without_comments(text));
        let lines: Vec<&str> = code.lines().collect();
        // The macro that is being defined.
        let mut macro_name = None;
        for (index, line) in lines.iter().enumerate() {
            let definition = |name: &str, line| Definition { name: name.to_owned(), path: path.to_owned(), line };
            if let Some(name) = public_type(line) {
                self.written.push(definition(name, index + 1));
            }
            if let Some(rest) = line.trim_start().strip_prefix("macro_rules! ") {
                macro_name = Some(first_word(rest));
            } else if line.starts_with('}') {
                macro_name = None;
            }
            match macro_name {
                Some(name) if makes_type_of_call(line) => {
                    self.defining.insert(name.to_owned());
                }
                Some(_) => {}
                None => {
                    let Some(called) = called_macro(line) else { continue };
                    let named = chosen_name(&lines[index..]);
                    self.called.extend(named.map(|(name, at)| (called.to_owned(), definition(name, index + 1 + at))));
                }
            }
        }
    }

    /// Returns each definition after the first one with the same name.
    pub(crate) fn check(&self) -> Vec<Finding> {
        let made = self.called.iter().filter(|(called, _)| self.defining.contains(called));
        let mut places: BTreeMap<&str, Vec<&Definition>> = BTreeMap::new();
        for definition in self.written.iter().chain(made.map(|(_, definition)| definition)) {
            places.entry(&definition.name).or_default().push(definition);
        }
        let repeated = places.values().filter(|places| !MIRRORED.contains(&places[0].name.as_str()));
        let finding = |first: &Definition, place: &Definition| {
            let what = format!("the public type `{}` is also defined in {}:{}", first.name, first.path, first.line);
            Finding::new(&place.path, place.line, what, "give it a name that says which of them it is")
        };
        repeated.flat_map(|places| places[1..].iter().map(|place| finding(places[0], place))).collect()
    }
}

fn is_library(path: &str) -> bool {
    path.ends_with(".rs") && (path.starts_with("crates/") || path.starts_with("bindings/")) && path.contains("/src/")
}

/// Returns the type that a line makes public.
fn public_type(line: &str) -> Option<&str> {
    let name = first_word(after_keyword(line)?);
    (!name.is_empty()).then_some(name)
}

/// Reports whether a line of a macro makes a public type whose name is an argument.
fn makes_type_of_call(line: &str) -> bool {
    after_keyword(line).is_some_and(|rest| rest.starts_with('$'))
}

/// Returns what follows `pub struct` or the like.
fn after_keyword(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?.trim_start();
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, rest) = rest.split_once(' ')?;
    KEYWORDS.contains(&keyword).then_some(rest)
}

/// Returns the macro that a line at the top level calls, without its path.
fn called_macro(line: &str) -> Option<&str> {
    let path = line.split_once("! {")?.0;
    let is_path = path.chars().all(|letter| is_word_letter(letter) || letter == ':');
    path.rsplit(':').next().filter(|name| is_path && !name.is_empty())
}

/// Returns the first type that the call of a macro names, outside attributes, and how many lines after the call it is.
/// `lines` begin with the call.
fn chosen_name<'a>(lines: &[&'a str]) -> Option<(&'a str, usize)> {
    let inside = lines.iter().enumerate().skip(1).take_while(|(_, line)| !line.starts_with('}'));
    let named =
        inside.filter_map(|(at, line)| Some((line.trim_start(), at)).filter(|(line, _)| !line.starts_with('#')));
    let mut words =
        named.flat_map(|(line, at)| line.split(|letter| !is_word_letter(letter)).map(move |word| (word, at)));
    words.find(|(word, _)| word.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

fn first_word(text: &str) -> &str {
    text.split(|letter| !is_word_letter(letter)).next().unwrap_or_default()
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
            ("crates/a/src/lib.rs", "pub struct Plan;\npub struct ProcessIdentity;\n"),
            (
                "crates/b/src/lib.rs",
                "struct Plan;\npub(crate) struct Plan;\npub struct ProcessIdentity;\n// pub struct Plan;\n",
            ),
            ("crates/b/tests/it.rs", "pub struct Plan;"),
            ("crates/c/src/lib.rs", "#[cfg(test)]\nmod tests {\n    pub struct Plan;\n}\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn public_types_that_macros_make_are_found() {
        let kind = "macro_rules! words {\n    ($name:ident) => {\n        pub enum $name {}\n    };\n}\n";
        let call = "words! {\n    #[derive(Encode)]\n    Plan, \"is no Plan\",\n    Other = \"other\",\n}\n";
        let plan = ("crates/c/src/lib.rs", "pub struct Plan;\npub struct Other;");
        assert_eq!(
            found(&[("crates/a/src/lib.rs", call), ("crates/b/src/lib.rs", kind), plan]),
            ["crates/a/src/lib.rs:3"]
        );
        assert_eq!(found(&[("crates/a/src/lib.rs", call), plan]), [""; 0], "the macro makes nothing public");
    }
}
