//! Core files: a process of a checkpoint in the form in which Linux dumps a process that has crashed, for gdb and lldb.
//! Pure: this plans a file and says which of its bytes each page is; the caller reads pages and writes the file.
//!
//! ```text
//! +--------+-----------------+-------+---------------------------------+- - - - - - - - - -+
//! | header | program headers | notes | pages, one segment after another| hole: long zeros  |
//! +--------+-----------------+-------+---------------------------------+- - - - - - - - - -+
//! ```
//!
//! The notes hold the registers of each thread, the process's ids, its auxiliary vector and the list of mapped files.
//! Each segment is a range of addresses:
//!
//! - Pages that the image holds are in the file. Zeros between them are not written, so that the file has a hole there.
//! - Longer ranges of zeros all refer to one hole at the end. A reservation of terabytes does not make the file long.
//! - Pages that a mapped file still holds have no bytes, as in the kernel's own core files, and a debugger reads the
//!   mapped file. The first page of an executable or a library is included, since it leads to the build id.
//!   A file that has changed since the checkpoint is not named; a copy of it that was kept is named instead.
//! - Pages whose contents nobody recorded are in no segment, so that a debugger says that it cannot read them. It would
//!   read zeros from a segment without bytes.

mod elf;
mod notes;
mod parts;
mod plan;

pub use plan::{CoreFilePlan, FilesNow, MappedFileNow, NoCoreFile};

#[cfg(test)]
mod tests;
