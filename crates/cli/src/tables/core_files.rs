//! Core files, as text for people.

use super::size;
use standfast::report::{CoreFileReport, CoreFilesReport};
use standfast::{ForShell, printable};
use std::fmt::Write;
use std::path::Path;

/// Lists the files that were written, and how to open each.
pub(crate) fn core_files(report: &CoreFilesReport) -> String {
    let mut text = String::new();
    for file in &report.files {
        let CoreFileReport { path, pid, executable, threads, bytes, disk_bytes, changed } = file;
        let threads = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        let path = ForShell(path);
        let _ = writeln!(
            text,
            "{path}: checkpoint {}, process {pid} with {threads}, {} ({} on disk)\nopen it with: gdb {} {path}",
            report.generation,
            size(*bytes),
            size(*disk_bytes),
            ForShell(Path::new(executable)),
        );
        for file in changed {
            let place = match &file.copy {
                Some(copy) => format!("its copy is {}", ForShell(copy)),
                None => "its pages cannot be read".to_owned(),
            };
            let file = printable(&file.path);
            text += &format!("warning: {file} has changed since the checkpoint, or may have: {place}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast::report::ChangedFileReport;

    #[test]
    fn each_core_file_is_listed_with_what_a_debugger_gets_wrong() {
        let file = CoreFileReport {
            path: "core.heat.12".into(),
            pid: 12,
            executable: "/usr/bin/heat".to_owned(),
            threads: 3,
            bytes: 5 << 20,
            disk_bytes: 1 << 20,
            changed: vec![
                ChangedFileReport { path: "/lib/libm.so.6".to_owned(), copy: None },
                ChangedFileReport { path: "/usr/bin/heat".to_owned(), copy: Some("jobs/copy-heat".into()) },
            ],
        };
        let said = core_files(&CoreFilesReport { generation: 7, files: vec![file] });
        assert_eq!(
            said,
            "core.heat.12: checkpoint 7, process 12 with 3 threads, 5.0 MiB (1.0 MiB on disk)\n\
             open it with: gdb /usr/bin/heat core.heat.12\n\
             warning: /lib/libm.so.6 has changed since the checkpoint, or may have: its pages cannot be read\n\
             warning: /usr/bin/heat has changed since the checkpoint, or may have: its copy is jobs/copy-heat\n"
        );
    }
}
