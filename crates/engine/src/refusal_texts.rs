//! The texts of all refusals under one snapshot, read from the source: a reason or a hint that nobody has reviewed shows.

use crate::RefusalCode;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// What a function that makes a refusal mentions, besides words that begin with `hint`.
const MARKS: [&str; 7] = ["RefusalCode", "Reason", "Blocker", "Unsupported", "Objection", "with_hint", "refuse"];

/// Functions whose texts are no refusals: they name what the kernel was doing.
const ACTIONS: [&str; 2] = ["kernel", "expect"];

/// After a change: `INSTA_UPDATE=always cargo test -p standfast-engine`, then read the difference.
#[test]
fn refusal_texts_match_the_reviewed_snapshot() {
    let mut files = Vec::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut files);
    let mut items = Vec::new();
    for (path, source) in &files {
        let tokens: TokenStream = source.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        find_items(tokens, path, &mut items);
    }
    let texts = Texts::of(&items);
    let mut refusals: Vec<Refusals> = items.iter().filter_map(|item| texts.refusals(item)).collect();
    refusals.sort_by_key(|it| (it.codes().next().is_none(), it.codes().next(), it.path.clone(), it.name.clone()));
    let unused = RefusalCode::ALL.iter().filter(|code| !refusals.iter().any(|it| it.codes().any(|it| it == **code)));
    let unused: Vec<_> = unused.collect();
    assert!(unused.is_empty(), "no function refuses with {unused:?}");
    let refusals: Vec<_> = refusals.iter().map(Refusals::to_string).collect();
    insta::assert_snapshot!(refusals.join("\n"));
}

/// Reads the files that are part of the engine: not the catalogue, which has a document of its own, and no tests.
fn read(folder: &Path, prefix: &str, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("the source is there") {
        let entry = entry.expect("a folder of the source");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let (path, is_test) = (format!("{prefix}{name}"), ["tests", "tests.rs"].contains(&name.as_str()));
        if entry.path().is_dir() && !is_test {
            read(&entry.path(), &format!("{path}/"), files);
        } else if name.ends_with(".rs") && !is_test && !["refusal_code.rs", "refusal_texts.rs"].contains(&&*path) {
            files.push((path, fs::read_to_string(entry.path()).expect("a file of the source")));
        }
    }
}

/// A function with its signature and its body, or a constant.
struct Item {
    path: String,
    name: String,
    is_constant: bool,
    tokens: Vec<TokenTree>,
}

/// Finds the functions and constants of a file, those of its modules and types included. What is in a function belongs to
/// it. Items with `#[cfg(test)]` are left out.
fn find_items(tokens: TokenStream, path: &str, items: &mut Vec<Item>) {
    let mut tokens = tokens.into_iter().peekable();
    let (mut is_test, mut is_parameter) = (false, false);
    while let Some(token) = tokens.next() {
        // `const N: usize` in angle brackets, and `'static`, are no constants.
        let is_constant = !is_parameter && (is(&token, "const") || is(&token, "static"));
        is_parameter = matches!(&token, TokenTree::Punct(it) if "<,'".contains(it.as_char()));
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                is_test |= group.stream().to_string().replace(' ', "") == "cfg(test)";
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let inner = if std::mem::take(&mut is_test) { TokenStream::new() } else { group.stream() };
                find_items(inner, path, items);
            }
            TokenTree::Ident(word) if word == "fn" || is_constant => {
                let Some(TokenTree::Ident(name)) = tokens.peek() else { continue };
                let name = name.to_string();
                if name == "fn" || name == "unsafe" {
                    // The beginning of `const fn`.
                    continue;
                }
                let mut item = Item { path: path.to_owned(), name, is_constant, tokens: Vec::new() };
                for token in tokens.by_ref() {
                    let is_body = matches!(&token, TokenTree::Group(it) if it.delimiter() == Delimiter::Brace);
                    let is_end =
                        is_body && !is_constant || matches!(&token, TokenTree::Punct(it) if it.as_char() == ';');
                    item.tokens.push(token);
                    if is_end {
                        break;
                    }
                }
                if !std::mem::take(&mut is_test) {
                    items.push(item);
                }
            }
            TokenTree::Punct(end) if end.as_char() == ';' => is_test = false,
            _ => {}
        }
    }
}

/// The texts of the constants, which functions mention by name.
struct Texts {
    of_constants: BTreeMap<(String, String), String>,
}

impl Texts {
    fn of(items: &[Item]) -> Self {
        let constants = items.iter().filter(|item| item.is_constant && !has_mark(&item.tokens));
        let only = |item: &Item| match item.tokens.iter().filter_map(text).collect::<Vec<_>>().as_slice() {
            [text] => Some(((item.name.clone(), item.path.clone()), text.clone())),
            _ => None,
        };
        Self { of_constants: constants.filter_map(only).collect() }
    }

    /// Returns the text of a constant: that of this file, or of any.
    fn of_constant(&self, name: &str, path: &str) -> Option<&String> {
        let here = self.of_constants.get(&(name.to_owned(), path.to_owned()));
        here.or_else(|| self.of_constants.iter().find(|((it, _), _)| it == name).map(|(_, text)| text))
    }

    /// Returns what an item says, if it is about refusals.
    fn refusals(&self, item: &Item) -> Option<Refusals> {
        if !has_mark(&item.tokens) {
            return None;
        }
        let mut parts = Vec::new();
        self.collect(&item.tokens, &item.path, &mut parts);
        let found = Refusals { parts, path: item.path.clone(), name: item.name.clone() };
        (!found.parts.is_empty()).then_some(found)
    }

    /// Collects codes and texts in the order of the source.
    fn collect(&self, tokens: &[TokenTree], path: &str, parts: &mut Vec<Part>) {
        let mut place = 0;
        while let Some(token) = tokens.get(place) {
            match token {
                // Attributes and comments, and the arguments of functions that do not refuse.
                TokenTree::Punct(hash) if hash.as_char() == '#' => place += 1,
                TokenTree::Ident(word) if ACTIONS.iter().any(|it| word == it) => {
                    place += usize::from(matches!(tokens.get(place + 1), Some(TokenTree::Group(_))));
                }
                TokenTree::Ident(word) if word == "RefusalCode" => {
                    parts.extend(tokens.get(place + 3).and_then(code).map(Part::Code));
                }
                TokenTree::Ident(word) => {
                    parts.extend(self.of_constant(&word.to_string(), path).cloned().map(Part::Text));
                }
                TokenTree::Group(group) => {
                    self.collect(&group.stream().into_iter().collect::<Vec<_>>(), path, parts);
                }
                _ => parts.extend(text(token).map(Part::Text)),
            }
            place += 1;
        }
    }
}

fn has_mark(tokens: &[TokenTree]) -> bool {
    tokens.iter().any(|token| match token {
        TokenTree::Ident(word) => {
            MARKS.iter().any(|mark| word == mark) || word.to_string().to_lowercase().starts_with("hint")
        }
        TokenTree::Group(group) => has_mark(&group.stream().into_iter().collect::<Vec<_>>()),
        _ => false,
    })
}

fn is(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(it) if it == word)
}

/// Returns the code that is named after `RefusalCode::`.
fn code(token: &TokenTree) -> Option<RefusalCode> {
    RefusalCode::ALL.iter().copied().find(|code| is(token, &format!("{code:?}")))
}

/// Returns the text of a string, in one line. Paths of files, and strings without letters, are none.
fn text(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    let literal = literal.to_string();
    let text = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let joined = lines.fold(first, |text, line| text + line.trim_start());
    let is_text = joined.contains(char::is_alphabetic) && !joined.starts_with('/');
    is_text.then(|| joined.replace("\\\"", "\""))
}

enum Part {
    Code(RefusalCode),
    Text(String),
}

/// What a function says about refusals. Where it names no code, its callers do.
struct Refusals {
    path: String,
    name: String,
    parts: Vec<Part>,
}

impl Refusals {
    fn codes(&self) -> impl Iterator<Item = RefusalCode> {
        self.parts.iter().filter_map(|part| match part {
            Part::Code(code) => Some(*code),
            Part::Text(_) => None,
        })
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {}", self.path, self.name)?;
        self.parts.iter().try_for_each(|part| match part {
            Part::Code(code) => writeln!(f, "  {code}"),
            Part::Text(text) => writeln!(f, "    {text}"),
        })
    }
}
