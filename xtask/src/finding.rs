//! What a rule has to say: where, what, and how to mend it.

use std::fmt;

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// File, relative to the top of the repository.
    pub(crate) path: String,
    /// Line, counted from 1; 0 where it is about the file as a whole.
    pub(crate) line: usize,
    /// What was found.
    pub(crate) what: String,
    /// What to do.
    pub(crate) remedy: String,
}

impl Finding {
    /// A finding about one line.
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
