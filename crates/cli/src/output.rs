//! How answers are written.

use crate::arguments::Form;
use anyhow::bail;
use serde::Serialize;
use standfast::{printable_json, printable_lines};
use std::io::{self, ErrorKind, Write};

/// Prints an answer in the requested form.
pub(crate) fn print<T: Serialize>(form: Form, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    let mut text = if form.json {
        printable_json(&serde_json::to_string_pretty(value)?).into_owned()
    } else {
        printable_lines(&text()).into_owned()
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    write_out(text.as_bytes())
}

/// Writes to standard output. It is not a failure if a reader such as `head` closes the pipe.
pub(crate) fn write_out(text: &[u8]) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => bail!("cannot write the answer: {error}"),
        _ => Ok(()),
    }
}
