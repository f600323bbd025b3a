//! Rules for documents: links have a target, and the glossary gives each word one meaning.

use crate::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the relative links of a document that have no target. `files` holds the paths of the repository's files,
/// relative to its top.
pub(crate) fn dead_links(path: &str, text: &str, files: &BTreeSet<String>) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_alive = |target: &str| {
        let file = target.split('#').next().unwrap_or_default();
        let Some(place) = resolve(folder, file) else { return false };
        let inside = format!("{}/", place.trim_end_matches('/'));
        place.is_empty() || files.contains(&place) || files.iter().any(|known| known.starts_with(&inside))
    };
    let mut findings = Vec::new();
    for (line, text) in prose_lines(text) {
        for target in link_targets(text).filter(|target| is_relative(target) && !is_alive(target)) {
            let remedy = "mend the link, or add the file (git must know it or at least not ignore it)";
            findings.push(Finding::new(path, line, format!("dead link to {target}"), remedy));
        }
    }
    findings
}

/// Returns words that the glossary defines twice. An entry is a list item that begins with a bold word.
pub(crate) fn glossary(path: &str, text: &str) -> Vec<Finding> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for (line, text) in prose_lines(text) {
        let Some((words, _)) = text.strip_prefix("- **").and_then(|rest| rest.split_once("**")) else { continue };
        for word in words.split(',').map(|word| word.trim().to_lowercase()) {
            if let Some(first) = known.get(&word) {
                let what = format!("`{word}` is defined here and in line {first}");
                findings.push(Finding::new(path, line, what, "one word, one meaning: keep one of the two"));
            } else {
                known.insert(word, line);
            }
        }
    }
    if known.is_empty() {
        let remedy = "write each entry as `- **word**: its meaning`";
        findings.push(Finding::new(path, 0, "the glossary defines no word", remedy));
    }
    findings
}

/// Returns the lines outside fenced blocks, with their numbers.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((index + 1, line))
    })
}

fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with('#')
}

/// Resolves `target` relative to `folder`, without `.` and `..`. Returns `None` if it leaves the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(path: &str, text: &str) -> Vec<String> {
        let files = ["README.md", "docs/format.md", "crates/core/src/lib.rs"].map(str::to_owned).into();
        dead_links(path, text, &files).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn links_to_files_folders_and_urls_are_valid() {
        let text = "[a](docs/format.md#header) [b](crates/core) [c](https://example.org/x) [d](#here) [e](./docs/)";
        assert!(dead("README.md", text).is_empty());
        assert!(dead("docs/format.md", "[up](../README.md)").is_empty());
    }

    #[test]
    fn a_link_to_nothing_is_dead() {
        assert_eq!(dead("docs/format.md", "x\n[a](README.md)"), ["dead link to README.md"]);
        assert_eq!(dead("README.md", "[a](../elsewhere.md)"), ["dead link to ../elsewhere.md"]);
        assert_eq!(dead("README.md", "[a](crates/cor)"), ["dead link to crates/cor"]);
    }

    #[test]
    fn a_fenced_block_holds_no_links() {
        assert!(dead("README.md", "```\n[a](nowhere)\n```\n").is_empty());
    }

    #[test]
    fn a_word_defined_twice_is_reported() {
        let text = "# Glossary\n- **image**: x\n- **freeze, thaw**: y\n- **Image**: z\n- **thaw**: w\n";
        let found: Vec<_> = glossary("docs/glossary.md", text).into_iter().map(|f| (f.line, f.what)).collect();
        let twice = |word: &str, first: usize| format!("`{word}` is defined here and in line {first}");
        assert_eq!(found, [(4, twice("image", 2)), (5, twice("thaw", 3))]);
    }

    #[test]
    fn a_glossary_in_another_form_is_reported() {
        assert_eq!(glossary("docs/glossary.md", "image: bytes\n").len(), 1);
    }
}
