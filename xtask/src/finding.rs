//! What a rule reports: the place, the problem, and how to fix it.

use std::fmt;

/// One thing to fix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, relative to the top of the repository.
    pub(crate) path: String,
    /// The line, counted from 1, or 0 if the finding is about the whole file.
    pub(crate) line: usize,
    /// The problem.
    pub(crate) what: String,
    /// How to fix it.
    pub(crate) remedy: String,
}

impl Finding {
    /// Makes a finding about one line.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}\n    {}", self.what, self.remedy)
    }
}
