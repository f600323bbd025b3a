//! A job for Kubernetes, with a claim for the volume of its checkpoints. Kubernetes signals the first process of the
//! container, and acts on the exit status of the script.

use super::plan::JobPlan;
use super::shell::{Signalled, job};
use super::template::fill;
use anyhow::{Context as _, Result};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

const TEMPLATE: &str = include_str!("templates/job.yaml");
const SIGNALS: [&str; 1] = ["TERM"];
const NO_IMAGE: &str =
    "a Kubernetes job needs a container image\nhint: name one that has the program and Standfast in it: --image IMAGE";
/// Column of the script within the template.
const SCRIPT_INDENT: &str = "              ";

pub(super) fn manifest(plan: &JobPlan) -> Result<Vec<u8>> {
    let image = plan.image.as_deref().context(NO_IMAGE)?;
    let name = label(&plan.name);
    let directory = plan.directory.as_os_str();
    let arguments = [&plan.standfast, directory].into_iter().chain(plan.words.iter().map(OsString::as_os_str));
    let arguments = arguments.map(|word| Ok(format!("            - {}\n", string(word)?)));
    let arguments: String = arguments.collect::<Result<String>>()?;
    let mount = plan.directory.parent().unwrap_or(Path::new("/"));
    Ok(fill(
        TEMPLATE,
        &[
            ("NAME", OsStr::new(&name)),
            ("BACKOFF", OsStr::new(if plan.requeues { "6" } else { "0" })),
            ("STOPPED_ACTION", OsStr::new(if plan.requeues { "Ignore" } else { "FailJob" })),
            ("SECONDS", OsStr::new(&plan.seconds.to_string())),
            ("IMAGE", OsStr::new(&string(OsStr::new(image))?)),
            ("MOUNT", OsStr::new(&string(mount.as_os_str())?)),
            ("JOB", &indented(&job(&SIGNALS, Signalled::Script))),
            ("ARGUMENTS", OsStr::new(arguments.trim_end())),
        ],
    ))
}

/// Returns the name as Kubernetes accepts it.
fn label(name: &str) -> String {
    let label: String = name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let label = label.trim_matches('-');
    if label.is_empty() { "job".to_owned() } else { label.to_owned() }
}

/// Writes a word as a string of JSON, which YAML reads as well. Kubernetes would replace `$(NAME)`.
fn string(word: &OsStr) -> Result<String> {
    let text = word.to_str().with_context(|| {
        format!("cannot write {} into YAML: it is not UTF-8\nhint: rename the file", word.display())
    })?;
    Ok(serde_json::to_string(&text.replace("$(", "$$(")).expect("a string is JSON"))
}

/// Writes the script in its column. Kubernetes would replace `$(NAME)`.
fn indented(script: &OsStr) -> OsString {
    let text = String::from_utf8_lossy(script.as_bytes()).replace("$(", "$$(");
    let lines = text.lines().enumerate().map(|(number, line)| match (number, line) {
        (0, line) => line.to_owned(),
        (_, "") => "\n".to_owned(),
        (_, line) => format!("\n{SCRIPT_INDENT}{line}"),
    });
    OsString::from_vec(lines.collect::<String>().into_bytes())
}
