//! The placeholder for the names of the nodes, in the command that launches a job of several nodes.

use std::ffi::{OsStr, OsString};

const PLACE: &str = "{nodes}";

/// Returns the word of a command with the nodes' names, separated by commas, in place of the placeholder.
pub(crate) fn with_nodes(word: &OsStr, nodes: &[String]) -> OsString {
    match word.to_str() {
        Some(text) if !nodes.is_empty() => text_with_nodes(text, nodes).into(),
        _ => word.to_owned(),
    }
}

/// The same for text.
pub(crate) fn text_with_nodes(text: &str, nodes: &[String]) -> String {
    text.replace(PLACE, &nodes.join(","))
}

/// Reports whether one of the words has the placeholder.
pub(crate) fn has_place(words: &[OsString]) -> bool {
    words.iter().any(|word| word.to_str().is_some_and(|text| text.contains(PLACE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_list_is_substituted_for_its_placeholder() {
        let taken = ["a", "b"].map(str::to_owned);
        assert_eq!(with_nodes("{nodes}".as_ref(), &taken), "a,b");
        assert_eq!(with_nodes("--host={nodes}".as_ref(), &taken), "--host=a,b");
        assert_eq!(with_nodes("{nodes}".as_ref(), &[]), "{nodes}");
    }
}
