//! Pages of HTML that need nothing else: styles and plots are in them. They are read on a phone, on paper, and without a
//! network.

mod advice;
mod job;
mod plot;

pub(crate) use advice::advice;
pub(crate) use job::job;

use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::Path;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:1em auto;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.4em;margin-bottom:.2em}h2{font-size:1.1em;margin-top:1.6em}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.25em .6em;border-bottom:1px solid #ddd}th:first-child,td:first-child{text-align:left}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1em}dt{color:#666}dd{margin:0}
figure{margin:1em 0}svg{width:100%;height:auto}figcaption{color:#666;font-size:.9em}
@media print{body{max-width:none}figure{break-inside:avoid}}";

/// A page in the making.
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        ))
    }

    /// Adds a heading.
    fn heading(&mut self, text: &str) {
        let _ = writeln!(self.0, "<h2>{}</h2>", escaped(text));
    }

    /// Adds a paragraph.
    fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.0, "<p>{}</p>", escaped(text));
    }

    /// Adds names with their facts.
    fn facts(&mut self, facts: &[(&str, String)]) {
        self.0 += "<dl>\n";
        for (name, fact) in facts {
            let _ = writeln!(self.0, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(fact));
        }
        self.0 += "</dl>\n";
    }

    /// Adds a table.
    fn table<const COLUMNS: usize>(
        &mut self,
        header: [&str; COLUMNS],
        rows: impl IntoIterator<Item = [String; COLUMNS]>,
    ) {
        let cells = |tag: &str, cells: &[String]| {
            cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect::<String>()
        };
        let _ = writeln!(self.0, "<table>\n<tr>{}</tr>", cells("th", &header.map(str::to_owned)));
        for row in rows {
            let _ = writeln!(self.0, "<tr>{}</tr>", cells("td", &row));
        }
        self.0 += "</table>\n";
    }

    /// Adds a plot, which is SVG, with what it shows.
    fn figure(&mut self, svg: &str, caption: &str) {
        let _ = writeln!(self.0, "<figure>\n{svg}\n<figcaption>{}</figcaption>\n</figure>", escaped(caption));
    }

    /// Writes the page to a file.
    pub(crate) fn write(self, path: &Path) -> anyhow::Result<()> {
        let text = self.0 + "</body>\n</html>\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Returns the text as HTML shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_is_called_cannot_change_the_page() {
        let mut page = Page::new("<script>alert(1)</script>");
        page.facts(&[("job", "a & \"b\" <c>".to_owned())]);
        page.table(["x"], [["<td>".to_owned()]]);
        assert!(!page.0.contains("<script>") && !page.0.contains("<c>"));
        assert!(page.0.contains("a &amp; &quot;b&quot; &lt;c&gt;") && page.0.contains("<td>&lt;td&gt;</td>"));
    }
}
