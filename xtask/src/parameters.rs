//! A tuple among the parameters of a function hides some of them. The reader sees no names at the call, and the limit on
//! the number of parameters does not see them. Each should be its own parameter, or a field of a named type.

use crate::code::{is_word_letter, without_tests};
use crate::finding::Finding;

/// Returns parameters that are tuples. `code` has no comments.
pub(crate) fn check(path: &str, code: &str) -> Vec<Finding> {
    let is_test_file = path.ends_with("tests.rs") || path.contains("/tests/");
    if !path.contains("/src/") || is_test_file {
        return Vec::new();
    }
    let code = without_tests(code);
    let mut findings = Vec::new();
    for (at, word) in code.match_indices("fn ") {
        if code[..at].ends_with(is_word_letter) {
            continue;
        }
        let Some(list) = parameters(&code[at + word.len()..]) else { continue };
        for parameter in top_level(list).into_iter().filter(|parameter| is_tuple(parameter)) {
            let line = code[..at].matches('\n').count() + 1;
            let what =
                format!("a tuple as a parameter: {}", parameter.split_whitespace().collect::<Vec<_>>().join(" "));
            findings.push(Finding::new(path, line, what, "make each a parameter, or all of them a type with a name"));
        }
    }
    findings
}

/// Returns the text between the parentheses of a function. `function` is its text from its name on.
fn parameters(function: &str) -> Option<&str> {
    let name = function.find(|letter| !is_word_letter(letter))?;
    let start = match function[name..].chars().next()? {
        '(' => name,
        '<' => name + closing(&function[name..])? + 1,
        _ => return None,
    };
    let list = &function[start..];
    list.starts_with('(').then(|| closing(list).map(|end| &list[1..end]))?
}

/// Returns the position of the bracket that closes the one at the start of `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if matches!(before, '-' | '=') => {}
            ')' | ']' | '}' | '>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        before = letter;
    }
    None
}

/// Returns the parts between commas outside all brackets.
fn top_level(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth, mut before) = (0, 0_usize, ' ');
    for (at, letter) in list.char_indices() {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if matches!(before, '-' | '=') => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        before = letter;
    }
    parts.push(&list[start..]);
    parts
}

/// Reports whether a parameter is a tuple of several, a reference to one, or an optional one. A pattern of several shows
/// that its type is one under another name.
fn is_tuple(parameter: &str) -> bool {
    let mut depth = 0_usize;
    let colon = parameter.char_indices().find(|(at, letter)| {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *letter == ':' && depth == 0 && !parameter[at + 1..].starts_with(':')
    });
    let Some((at, _)) = colon else { return false };
    let kind = held(&parameter[at + 1..]);
    [parameter[..at].trim(), kind].into_iter().any(has_several)
}

/// Reports whether the text is a list of several in parentheses.
fn has_several(text: &str) -> bool {
    let inside = closing(text).filter(|_| text.starts_with('(')).map(|end| &text[1..end]);
    inside.is_some_and(|inside| top_level(inside).len() > 1)
}

/// Returns the type that a reference or an option holds, however many of them there are.
fn held(kind: &str) -> &str {
    let kind = kind.trim();
    if let Some(rest) = kind.strip_prefix('&') {
        let rest = rest.trim_start();
        let lifetime = rest.strip_prefix('\'').map(|name| name.trim_start_matches(is_word_letter));
        let rest = lifetime.unwrap_or(rest).trim_start();
        return held(rest.strip_prefix("mut ").unwrap_or(rest));
    }
    let inside = kind.strip_prefix("Option").filter(|list| list.starts_with('<'));
    inside.and_then(|list| Some(&list[1..closing(list)?])).map_or(kind, held)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuples(code: &str) -> usize {
        check("crates/engine/src/read.rs", code).len()
    }

    #[test]
    fn tuple_parameters_are_found() {
        assert_eq!(tuples("fn f(a: u32, (b, c): (u32, &str)) {}"), 1);
        assert_eq!(tuples("fn f<T: Fn(u8) -> u8>(\n    &self,\n    pair: &mut (T, T),\n) -> T {}"), 1);
        assert_eq!(tuples("fn f(a: (u8, u8), b: (u8, u8)) {}"), 2);
        assert_eq!(tuples("fn f(&mut self, (process, tasks): Waiting) {}"), 1);
        assert_eq!(tuples("fn f(a: Option<(u8, u8)>, b: &'a Option<&mut (u8, Option<u8>)>) {}"), 2);
    }

    #[test]
    fn types_and_closures_with_tuples_pass() {
        for code in [
            "fn f(a: u32, b: &[(u32, u32)]) -> (u8, u8) {}",
            "fn f(work: impl Fn((u8, u8)) -> u8, unit: ()) {}",
            "fn f(a: Option<&[(u8, u8)]>, b: std::fmt::Arguments<'_>, Wrapped(c): Wrapped) {}",
            "fn f([one, other]: [u8; 2], each: &(dyn Fn(u8, u8) + Sync)) {}",
            "#[cfg(test)]\nmod tests {\n    fn f(a: (u8, u8)) {}\n}",
        ] {
            assert_eq!(tuples(code), 0, "{code}");
        }
        assert!(check("crates/engine/src/tests.rs", "fn f(a: (u8, u8)) {}").is_empty());
    }
}
