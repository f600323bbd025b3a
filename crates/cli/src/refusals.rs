//! The catalogue of refusals as text, for `standfast explain` and for the page of the documentation.

use standfast::RefusalCode;

/// Width of a line of text.
const WIDTH: usize = 100;

/// Returns one code with its paragraph.
pub(crate) fn explanation(code: RefusalCode) -> String {
    format!("{code}: {}\n\n{}\n", code.title(), textwrap::fill(code.explanation(), WIDTH))
}

/// Returns all codes, one a line.
pub(crate) fn all() -> String {
    RefusalCode::ALL.iter().map(|code| format!("{code}  {}\n", code.title())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_WIDTH: usize = 128;
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/refusals.md");

    fn page() -> String {
        let fill = |text: &str| textwrap::fill(text, PAGE_WIDTH);
        let introduction = fill(
            "Each reason why a checkpoint or a restart can be refused has a code that never changes. A message ends with its \
             code, and `standfast explain CODE` prints the paragraph below. A refused checkpoint never harms the program.",
        );
        let mut page = format!("# Refusals\n\n{introduction}\n");
        for code in RefusalCode::ALL {
            page += &format!("\n## {code}: {}\n\n{}\n", code.title(), fill(code.explanation()));
        }
        page
    }

    /// After a change of the catalogue this test writes the page and fails once.
    #[test]
    fn the_refusals_page_matches_the_catalogue() {
        let there = std::fs::read_to_string(PAGE).unwrap_or_default();
        if there != page() {
            std::fs::write(PAGE, page()).expect("the page cannot be written");
            panic!("docs/refusals.md was out of date and has been written again: commit it");
        }
    }
}
