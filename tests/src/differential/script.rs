//! A random program as text: how it is run, its steps, and the moments at which the harness intervenes. Any line may be
//! removed, and the rest is still a program.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;

/// Begins the line with the options of the run.
const OPTIONS: &str = "# run:";

/// A random program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// Options for `standfast run`.
    pub options: Vec<String>,
    /// Its steps, one a line.
    pub steps: Vec<String>,
}

impl Script {
    /// Reads a script from its text.
    pub fn parse(text: &str) -> Self {
        let mut script = Self::default();
        for line in text.lines() {
            match line.strip_prefix(OPTIONS) {
                Some(options) => script.options.extend(options.split_whitespace().map(str::to_owned)),
                None if line.starts_with('#') || line.trim().is_empty() => {}
                None => script.steps.push(line.to_owned()),
            }
        }
        script
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Self::parse(&text))
    }

    /// Returns the script as text.
    pub fn text(&self) -> String {
        let mut text = format!("{OPTIONS} {}\n", self.options.join(" "));
        for step in &self.steps {
            text.push_str(step);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_the_same_after_it_was_written_and_read() {
        let script = Script {
            options: ["--ids", "new"].map(str::to_owned).to_vec(),
            steps: ["0 pipe 1 2 0", "0 moment kill"].map(str::to_owned).to_vec(),
        };
        assert_eq!(Script::parse(&script.text()), script);
        assert_eq!(Script::parse(&Script::default().text()), Script::default());
    }
}
