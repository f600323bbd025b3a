//! Words that only the authors of Standfast would understand, each with the usual term for it. `docs/glossary.md`
//! defines the usual terms.

use crate::finding::Finding;

/// Banned words, and what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("anew", "again, or in full"),
    ("borne", "tolerated"),
    ("census", "collection"),
    ("foothold", "parasite area"),
    ("heir", "replacement"),
    ("jettison", "evict"),
    ("keepsake", "saved binary"),
    ("kinship", "process tree"),
    ("muster", "membership"),
    ("obstacle", "blocker"),
    ("outlook", "preflight"),
    ("portrait", "process snapshot"),
    ("puppet", "remote task"),
    ("residue", "syndrome"),
    ("roll call", "rendezvous"),
    ("scavenge", "salvage"),
    ("shelf", "level directory, or shard store"),
    ("shelves", "level directories, or shard stores"),
    ("widow", "peer closed"),
    ("widowed", "peer closed"),
];

/// The only file that may contain the words: this list.
const EXEMPT: &str = "xtask/src/words.rs";

/// Names of files, which do not change.
const ON_DISK: [&str; 3] = ["keepsake-", "\"keepsake\"", "`keepsake`"];

/// Returns the banned words of a file, whether in prose or as parts of names.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    if path == EXEMPT {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = words(&ON_DISK.iter().fold(line.to_owned(), |line, name| line.replace(name, "")));
        for (banned, instead) in BANNED {
            if words.contains(&format!(" {banned} ")) || words.contains(&format!(" {banned}s ")) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("`{banned}` is a word of our own"),
                    format!("write: {instead}"),
                ));
            }
        }
    }
    findings
}

/// Returns the words of a line in lower case, with a space around each. Names are split into their words.
fn words(line: &str) -> String {
    let mut words = String::from(" ");
    let mut was_small = false;
    for letter in line.chars() {
        if letter.is_uppercase() && was_small || !letter.is_alphabetic() && !words.ends_with(' ') {
            words.push(' ');
        }
        if letter.is_alphabetic() {
            words.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase();
    }
    words.push(' ');
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found_in_prose_and_in_names() {
        for line in ["a muster of all", "take_roll_call()", "struct FileShelf;", "MUSTERS_MAX", "two heirs."] {
            assert_eq!(check("crates/core/src/lib.rs", line).len(), 1, "{line}");
        }
    }

    #[test]
    fn similar_words_and_the_list_itself_are_allowed() {
        for line in ["mustered", "their", "selfish", "a call to roll", "\"keepsake-\""] {
            assert!(check("crates/core/src/lib.rs", line).is_empty(), "{line}");
        }
        assert!(check(EXEMPT, "struct shelf").is_empty());
    }
}
