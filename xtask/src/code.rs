//! Just enough of Rust's grammar to distinguish code from comments, literals and tests.
//!
//! This is no parser. It blanks everything except code and keeps every line in place, so that a word found in the rest
//! is a word of the program.

/// Returns the text with comments and literals blanked. Line breaks stay.
pub(crate) fn without_comments(text: &str) -> String {
    let mut blank = Blanker { rest: text, out: String::with_capacity(text.len()) };
    while let Some(first) = blank.rest.chars().next() {
        let length = blank.skipped(first);
        if length > 0 {
            blank.hide(length);
        } else {
            blank.keep(first);
        }
    }
    blank.out
}

/// Blanks every item under `#[cfg(test)]`. Takes the result of [`without_comments`].
pub(crate) fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(MARK) {
        let (before, item) = rest.split_at(start);
        let (hidden, after) = item.split_at(item_length(item));
        out.push_str(before);
        out.extend(hidden.chars().filter(|letter| *letter == '\n'));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns the numbers of the lines that contain `word` as a whole word, counted from 1.
pub(crate) fn lines_with_word(text: &str, word: &str) -> Vec<usize> {
    let holds = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            !before.is_some_and(is_word_letter) && !after.is_some_and(is_word_letter)
        })
    };
    text.lines().enumerate().filter(|(_, line)| holds(line)).map(|(index, _)| index + 1).collect()
}

/// Reports whether the letter can be part of an identifier.
pub(crate) fn is_word_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the length of the item at the start. It ends with the brace that closes the first one, or with a semicolon
/// before any brace.
fn item_length(item: &str) -> usize {
    let mut depth = 0usize;
    for (at, letter) in item.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

struct Blanker<'a> {
    rest: &'a str,
    out: String,
}

impl Blanker<'_> {
    /// Returns the length in bytes of the comment or literal that starts here, or 0 if code starts here.
    fn skipped(&self, first: char) -> usize {
        let in_word = self.out.chars().next_back().is_some_and(is_word_letter);
        match first {
            '/' if self.rest.starts_with("//") => self.rest.find('\n').unwrap_or(self.rest.len()),
            '/' if self.rest.starts_with("/*") => block_comment(self.rest),
            '"' => quoted(self.rest, '"'),
            '\'' => character(self.rest),
            'r' | 'b' | 'c' if !in_word => raw_string(self.rest),
            _ => 0,
        }
    }

    fn hide(&mut self, length: usize) {
        let (hidden, rest) = self.rest.split_at(length);
        self.out.push(' ');
        self.out.extend(hidden.chars().filter(|letter| *letter == '\n'));
        self.rest = rest;
    }

    fn keep(&mut self, letter: char) {
        self.out.push(letter);
        self.rest = &self.rest[letter.len_utf8()..];
    }
}

/// Returns the length of a block comment. Block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + letter.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a character literal, or 0 for a lifetime, whose second letter is not followed by a quote.
fn character(text: &str) -> usize {
    let mut letters = text.chars().skip(1);
    match (letters.next(), letters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(text, '\''),
        _ => 0,
    }
}

/// Returns the length of `r"..."`, `br#"..."#` and so on, or 0 if the letters start a name.
fn raw_string(text: &str) -> usize {
    let after_prefix = text.trim_start_matches(['b', 'c']);
    let Some(after_r) = after_prefix.strip_prefix('r') else { return 0 };
    let after_hashes = after_r.trim_start_matches('#');
    let hashes = after_r.len() - after_hashes.len();
    if !after_hashes.starts_with('"') {
        return 0;
    }
    let opening = text.len() - after_hashes.len() + 1;
    let closing = format!("\"{}", "#".repeat(hashes));
    text[opening..].find(&closing).map_or(text.len(), |at| opening + at + closing.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = "a /* b /* c */ d */ e // f\n\"g \\\" h\" i 'j' '\\'' k r#\"l \" m\"# n br\"o\" p";
        let words: Vec<_> = without_comments(text).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["a", "e", "i", "k", "n", "p"]);
    }

    #[test]
    fn lifetimes_are_code() {
        let text = "fn f<'a>(x: &'a str, y: &'static str) -> &'a str { x }";
        assert_eq!(without_comments(text), text);
    }

    #[test]
    fn lines_stay_where_they_were() {
        let text = "one\n/* two\nthree */\n#[cfg(test)]\nmod tests {\n  fn f() { {} }\n}\nlast";
        let code = without_tests(&without_comments(text));
        assert_eq!(lines_with_word(&code, "last"), [8]);
        assert!(lines_with_word(&code, "f").is_empty());
    }

    #[test]
    fn a_test_module_in_another_file_hides_only_its_own_line() {
        let code = without_tests("#[cfg(test)]\nmod tests;\nfn kept() {}");
        assert_eq!(lines_with_word(&code, "kept"), [3]);
    }

    #[test]
    fn words_are_found_whole() {
        assert!(lines_with_word("forbid(unsafe_code)", "unsafe").is_empty());
        assert_eq!(lines_with_word("x\n  unsafe{}", "unsafe"), [2]);
    }
}
