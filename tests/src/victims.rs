//! Programs that tests kill as a whole, at random moments. Their sources are part of this library, and each is compiled
//! on first use. Victims that prove one kernel feature each are in `features`.

use crate::programs::{in_path, succeeds};
use crate::{Lacking, examples, workshop};
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs};

/// One victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Victim {
    /// Its name, and that of its executable.
    pub name: &'static str,
    source: &'static str,
    language: Language,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Language {
    C {
        statically: bool,
    },
    Musl,
    /// C with everything that a debugger wants to know.
    Debuggable,
    /// C with libstandfast, in this language standard.
    Directed {
        standard: &'static str,
    },
    Go,
    Rust,
    Fortran,
    Java,
    Python {
        module: &'static str,
    },
    /// One of `examples`, built by their Makefile.
    Example {
        arguments: &'static [&'static str],
    },
    /// A script that `needs` these commands to succeed, besides its interpreter.
    Script {
        interpreter: &'static [&'static str],
        ending: &'static str,
        needs: &'static [&'static [&'static str]],
    },
}

/// A program to run, with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The absolute path of the executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Returns its whole command line.
    pub fn words(&self) -> Vec<String> {
        let words = std::iter::once(self.path.as_os_str()).chain(self.arguments.iter().map(OsString::as_os_str));
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

const fn c(name: &'static str, source: &'static str) -> Victim {
    Victim { name, source, language: Language::C { statically: false } }
}

const fn directed(name: &'static str, source: &'static str) -> Victim {
    Victim { name, source, language: Language::Directed { standard: "gnu17" } }
}

/// Threads that compute in lockstep.
pub const THREADS: Victim = c("threads", include_str!("../victims/threads.c"));
/// [`THREADS`], linked statically.
pub const THREADS_STATIC: Victim = Victim {
    name: "threads-static",
    source: include_str!("../victims/threads.c"),
    language: Language::C { statically: true },
};
/// Signals of all sorts.
pub const SIGNALS: Victim = c("signals", include_str!("../victims/signals.c"));
/// System calls that block.
pub const WAITS: Victim = c("waits", include_str!("../victims/waits.c"));
/// Pipes, eventfds, epoll, descriptors.
pub const CHANNELS: Victim = c("channels", include_str!("../victims/channels.c"));
/// Memory of all ordinary kinds.
pub const MEMORY: Victim = c("memory", include_str!("../victims/memory.c"));
/// Changes its memory in every way, in an order that a seed determines.
pub const CHURN: Victim = c("churn", include_str!("../victims/churn.c"));
/// Repeatedly writes to the same stretches of its memory, on huge pages and on small ones.
pub const STRETCHES: Victim = c("stretches", include_str!("../victims/stretches.c"));
/// The smallest interesting program, with a gate in the middle.
pub const SMALL: Victim = c("small", include_str!("../victims/small.c"));
/// Connections between two nodes of which one end has been closed.
pub const CLOSING: Victim = c("closing", include_str!("../victims/closing.c"));
/// Streams between two nodes, of which each byte is checked.
pub const FLOWS: Victim = c("flows", include_str!("../victims/flows.c"));
/// A small tree of processes with channels and objects of all sorts, with a gate in the middle.
pub const RING: Victim = c("ring", include_str!("../victims/ring.c"));
/// Executes another victim among short-lived processes of the same job.
pub const CROWD: Victim = c("crowd", include_str!("../victims/crowd.c"));
/// Monotonic clocks.
pub const CLOCKS: Victim = c("clocks", include_str!("../victims/clocks.c"));
/// Holds one resource that a checkpoint cannot save.
pub const HOLDER: Victim = c("holder", include_str!("../victims/holder.c"));
/// Holds ids, and a mutex that records its owner.
pub const OWNER: Victim = c("owner", include_str!("../victims/owner.c"));
/// Holds known values and functions, to be found by a debugger.
pub const DEBUGGED: Victim =
    Victim { name: "debugged", source: include_str!("../victims/debugged.c"), language: Language::Debuggable };
/// Uses what a supervisor must pass through.
pub const PLAIN: Victim = c("plain", include_str!("../victims/plain.c"));
/// Loops heavy in malloc, open, fork and exec, for measurements.
pub const LOOPS: Victim = c("loops", include_str!("../victims/loops.c"));
/// Much memory, for measurements.
pub const BULK: Victim = c("bulk", include_str!("../victims/bulk.c"));
/// Much memory, threads and children, so that it takes time to end.
pub const HEAVY: Victim = c("heavy", include_str!("../victims/heavy.c"));
/// A thread that cannot be stopped before a gate opens, next to one that can.
pub const VFORKED: Victim = c("vforked", include_str!("../victims/vforked.c"));
/// A tree of processes, for measurements.
pub const FAMILY: Victim = c("family", include_str!("../victims/family.c"));
/// Writes to a fraction of its pages, for measurements.
pub const DIRTIER: Victim = c("dirtier", include_str!("../victims/dirtier.c"));
/// Changes a given number of bytes of its memory each second.
pub const PACER: Victim = c("pacer", include_str!("../victims/pacer.c"));
/// The program of the demo, for measurements.
pub const HEAT: Victim = c("heat", include_str!("../../examples/heat.c"));
/// Fresh memory filled from a file, for measurements.
pub const FILL: Victim = c("fill", include_str!("../victims/fill.c"));
/// A terabyte of address space, for measurements.
pub const VAST: Victim = c("vast", include_str!("../victims/vast.c"));
/// Directs its own checkpoints, in an order that a seed determines.
pub const DIRECTED: Victim = directed("directed", include_str!("../victims/directed.c"));
/// Gives the directives about its memory that it is asked for, for tests of single directives.
pub const DIRECTOR: Victim = directed("director", include_str!("../victims/director.c"));
/// Reports how long calls of libstandfast take.
pub const CALLS: Victim = directed("calls", include_str!("../victims/calls.c"));

/// The driver of the libckpt paper.
pub const DRIVER: Victim = Victim {
    name: "driver",
    source: include_str!("../victims/driver.c"),
    language: Language::Directed { standard: "gnu89" },
};

/// Goroutines.
pub const ROUTINES: Victim =
    Victim { name: "routines", source: include_str!("../victims/routines.go"), language: Language::Go };
/// CPython.
pub const OBJECTS: Victim = Victim {
    name: "objects",
    source: include_str!("../victims/objects.py"),
    language: Language::Python { module: "threading" },
};
/// CPython with numpy.
pub const ARRAYS: Victim = Victim {
    name: "arrays",
    source: include_str!("../victims/arrays.py"),
    language: Language::Python { module: "numpy" },
};

/// [`THREADS`] with another C library.
pub const THREADS_MUSL: Victim =
    Victim { name: "threads-musl", source: include_str!("../victims/threads.c"), language: Language::Musl };
/// Rust.
pub const RUST: Victim =
    Victim { name: "rust", source: include_str!("../victims/languages/work.rs"), language: Language::Rust };
/// Fortran with OpenMP.
pub const FORTRAN: Victim =
    Victim { name: "fortran", source: include_str!("../victims/languages/work.f90"), language: Language::Fortran };
/// Java with its default options.
pub const JAVA: Victim =
    Victim { name: "java", source: include_str!("../victims/languages/Work.java"), language: Language::Java };
/// Node.js.
pub const NODE: Victim = script("node", include_str!("../victims/languages/work.js"), &["node"], "js");
/// Perl.
pub const PERL: Victim = script("perl", include_str!("../victims/languages/work.pl"), &["perl"], "pl");
/// GNU awk.
pub const AWK: Victim = script("awk", include_str!("../victims/languages/work.awk"), &["gawk", "-f"], "awk");
/// R.
pub const R: Victim =
    script("r", include_str!("../victims/languages/work.R"), &["R", "--vanilla", "--no-echo", "-f"], "R");
/// GNU Octave.
pub const OCTAVE: Victim =
    script("octave", include_str!("../victims/languages/work.m"), &["octave-cli", "--norc", "--quiet"], "m");

/// A conversation through a pseudo-terminal, and `pty.spawn`.
pub const TERMINALS: Victim = Victim {
    name: "terminals",
    source: include_str!("../victims/terminals.py"),
    language: Language::Python { module: "pty" },
};
/// script(1) of util-linux.
pub const SCRIPT: Victim = about("script", include_str!("../victims/languages/script.sh"), &[&["script", "--version"]]);
/// tmux with a shell inside.
pub const TMUX: Victim = about("tmux", include_str!("../victims/languages/tmux.sh"), &[&["tmux", "-V"]]);

/// Pipelines, command substitution and background jobs in GNU's shell.
pub const PIPELINES: Victim = script("pipelines", include_str!("../victims/jobs/pipelines.sh"), &["bash"], "sh");
/// [`PIPELINES`] in the plain shell.
pub const PIPELINES_DASH: Victim =
    script("pipelines-dash", include_str!("../victims/jobs/pipelines.sh"), &["env", "dash"], "sh");
/// `make -j4`.
pub const MAKE: Victim = script("make", include_str!("../victims/jobs/make.sh"), &["bash"], "sh");
/// `xargs -P`.
pub const XARGS: Victim = script("xargs", include_str!("../victims/jobs/xargs.sh"), &["bash"], "sh");
/// CPython with subprocesses in a loop.
pub const SUBPROCESSES: Victim = Victim {
    name: "subprocesses",
    source: include_str!("../victims/jobs/subprocesses.py"),
    language: Language::Python { module: "subprocess" },
};
/// CPython with pools of processes.
pub const POOL: Victim = Victim {
    name: "pool",
    source: include_str!("../victims/jobs/pool.py"),
    language: Language::Python { module: "multiprocessing" },
};
/// CPython with batch loaders like those of PyTorch.
pub const LOADER: Victim = Victim {
    name: "loader",
    source: include_str!("../victims/jobs/loader.py"),
    language: Language::Python { module: "multiprocessing" },
};
/// A web server and a client in Go.
pub const WEB: Victim = Victim { name: "web", source: include_str!("../victims/jobs/web.go"), language: Language::Go };
/// Java with children.
pub const JAVA_CHILDREN: Victim =
    Victim { name: "java-children", source: include_str!("../victims/jobs/Work.java"), language: Language::Java };
/// A Redis server with its clients.
pub const REDIS: Victim = about(
    "redis",
    include_str!("../victims/jobs/redis.sh"),
    &[&["redis-server", "--version"], &["redis-benchmark", "--version"]],
);

/// A PostgreSQL server and its clients. It refuses to run as root.
pub const POSTGRES: Victim = about(
    "postgres",
    include_str!("../victims/jobs/postgres.sh"),
    &[&["bash", "-c", "[ $EUID -ne 0 ] && ls /usr/lib/postgresql/*/bin/pgbench"]],
);

/// A shell that appends with `>>` in a loop.
pub const APPEND_SHELL: Victim =
    script("append-shell", include_str!("../victims/appending/shell.sh"), &["env", "dash"], "sh");
/// `appendFile` of Node.js.
pub const APPEND_NODE: Victim = script("append-node", include_str!("../victims/appending/node.js"), &["node"], "js");
/// gcc under make, with its own files in a directory for temporary files.
pub const COMPILER_FILES: Victim =
    script("compiler-files", include_str!("../victims/appending/make.sh"), &["bash"], "sh");
/// SQLite in WAL mode.
pub const DATABASE: Victim = Victim {
    name: "database",
    source: include_str!("../victims/appending/database.py"),
    language: Language::Python { module: "sqlite3" },
};

/// Makes a victim of one of `examples`, with arguments for a run of a second or two.
pub(crate) const fn example(name: &'static str, source: &'static str, arguments: &'static [&'static str]) -> Victim {
    Victim { name, source, language: Language::Example { arguments } }
}

const fn script(
    name: &'static str,
    source: &'static str,
    interpreter: &'static [&'static str],
    ending: &'static str,
) -> Victim {
    Victim { name, source, language: Language::Script { interpreter, ending, needs: &[] } }
}

/// Makes a victim of a bash script about other programs, which must be installed.
const fn about(name: &'static str, source: &'static str, needs: &'static [&'static [&'static str]]) -> Victim {
    Victim { name, source, language: Language::Script { interpreter: &["bash"], ending: "sh", needs } }
}

/// Victims that compute for a second or two and check their own results.
pub const COMPUTING: [Victim; 9] =
    [THREADS, THREADS_STATIC, SIGNALS, WAITS, CHANNELS, MEMORY, ROUTINES, OBJECTS, ARRAYS];

impl Victim {
    /// Returns what this machine lacks if [`Victim::program`] returns `None`.
    #[must_use]
    pub fn lacking(&self) -> Lacking {
        // PostgreSQL's servers exit immediately under root, whatever is installed.
        if self.name == POSTGRES.name && nix::unistd::geteuid().is_root() {
            return Lacking::user("it will not serve root");
        }
        // rustup installs Rust for one user. Root, who has it, also runs these tests.
        if matches!(self.language, Language::Rust) && !nix::unistd::geteuid().is_root() {
            return Lacking::user("this user has no Rust");
        }
        Lacking::program("an interpreter, a compiler or a module that it needs")
    }

    /// Compiles the victim if necessary. Returns `None` if the machine lacks what it needs, such as an interpreter with
    /// the module.
    ///
    /// # Errors
    /// When the victim does not compile.
    pub fn program(&self) -> Result<Option<Program>> {
        // Tests of one binary run in parallel threads. One compilation at a time is also easier on a small machine.
        static COMPILING: Mutex<()> = Mutex::new(());
        let _turn = COMPILING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = match self.language {
            Language::Directed { .. } => workshop::folder(self.name, (self, workshop::LIBRARY))?,
            _ => workshop::folder(self.name, self)?,
        };
        match self.language {
            Language::C { statically } => self.compiled(&folder, |path| self.c(path, statically)).map(Some),
            Language::Debuggable => self.compiled(&folder, |path| self.debuggable(path)).map(Some),
            Language::Go => self.compiled(&folder, |path| self.go(path)).map(Some),
            Language::Python { module } => self.python(&folder, module),
            Language::Musl => self.built_with("musl-gcc", &folder, |path| {
                workshop::compile_c(path, self.source, "musl-gcc", ["-O2", "-march=native"])
            }),
            Language::Directed { standard } => self.compiled(&folder, |path| self.directed(path, standard)).map(Some),
            Language::Rust => self.built_with("rustc", &folder, |path| self.compiled_by(path, "rs", &["rustc", "-O"])),
            Language::Fortran => self.built_with("gfortran", &folder, |path| {
                self.compiled_by(path, "f90", &["gfortran", "-O2", "-fopenmp"])
            }),
            Language::Java => self.java(&folder),
            Language::Example { arguments } => {
                let arguments = arguments.iter().map(OsString::from).collect();
                Ok(examples::built(self.name, self.source)?.map(|path| Program { path, arguments }))
            }
            Language::Script { needs, .. } if !needs.iter().all(|command| succeeds(command)) => Ok(None),
            Language::Script { interpreter, ending, .. } => self.script(&folder, interpreter, ending),
        }
    }

    /// Like [`Victim::compiled`], if the compiler is installed.
    fn built_with(
        &self,
        compiler: &str,
        folder: &Path,
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Option<Program>> {
        if in_path(compiler).is_none() { Ok(None) } else { self.compiled(folder, build).map(Some) }
    }

    fn compiled_by(&self, path: &Path, ending: &str, compiler: &[&str]) -> Result<()> {
        let source = path.with_extension(ending);
        fs::write(&source, self.source)?;
        let folder = path.parent().context("a program lies in a folder")?;
        let mut command = Command::new(compiler[0]);
        workshop::compile(command.args(&compiler[1..]).arg("-o").arg(path).arg(source).current_dir(folder))
    }

    /// Compiles the class into the victim's folder. The program is the Java virtual machine.
    fn java(&self, folder: &Path) -> Result<Option<Program>> {
        let (Some(machine), Some(_)) = (in_path("java"), in_path("javac")) else { return Ok(None) };
        let class = workshop::built(folder, "Work.class", |path| {
            let source = path.with_extension("java");
            fs::write(&source, self.source)?;
            workshop::compile(Command::new("javac").arg(source))
        })?;
        let classes = class.parent().context("a class lies in a folder")?.to_owned();
        Ok(Some(Program { path: machine, arguments: vec!["-cp".into(), classes.into(), "Work".into()] }))
    }

    fn script(&self, folder: &Path, interpreter: &[&str], ending: &str) -> Result<Option<Program>> {
        let Some(path) = in_path(interpreter[0]) else { return Ok(None) };
        let name = format!("work.{ending}");
        let write = |path: &Path| fs::write(path, self.source).context("writing a script");
        let script = workshop::built(folder, &name, write)?;
        let arguments = interpreter[1..].iter().map(OsString::from).chain([script.into()]).collect();
        Ok(Some(Program { path, arguments }))
    }

    /// Like [`Victim::program`], with arguments, for victims that only need a C or Go compiler.
    ///
    /// # Errors
    /// When the victim does not compile.
    pub fn with(&self, arguments: &[&str]) -> Result<Program> {
        let mut program = self.program()?.with_context(|| format!("victim {} cannot run here", self.name))?;
        program.arguments.extend(arguments.iter().map(OsString::from));
        Ok(program)
    }

    /// Returns [`CHURN`] with the order that a seed determines, and with short-lived children or a mapped file.
    ///
    /// # Errors
    /// When the victim does not compile.
    pub fn churned(seed: u64) -> Result<Program> {
        CHURN.with(&[&(seed >> 1).to_string(), &(60_000 + seed % 2).to_string()])
    }

    fn compiled(&self, folder: &Path, build: impl FnOnce(&Path) -> Result<()>) -> Result<Program> {
        Ok(Program { path: workshop::built(folder, self.name, build)?, arguments: Vec::new() })
    }

    fn c(&self, path: &Path, statically: bool) -> Result<()> {
        let flags = ["-O2", "-march=native"].into_iter().chain(statically.then_some("-static"));
        workshop::compile_c(path, self.source, "cc", flags)
    }

    fn debuggable(&self, path: &Path) -> Result<()> {
        workshop::compile_c(path, self.source, "cc", ["-O0", "-g", "-fno-omit-frame-pointer"])
    }

    fn directed(&self, path: &Path, standard: &str) -> Result<()> {
        // In C89, a function without a type returns an int.
        let old = ["-Wno-implicit-int", "-Wno-return-type"].into_iter().filter(|_| standard == "gnu89");
        let flags = ["-O2".to_owned(), format!("-std={standard}")].into_iter().chain(old.map(str::to_owned));
        workshop::compile_c(path, self.source, "cc", flags.chain(workshop::library_flags("cc")?))
    }

    /// Compiles a Go program. All victims share one build cache, since the parts of Go's own library that they use take
    /// longer to compile than they do.
    fn go(&self, path: &Path) -> Result<()> {
        let source = path.with_extension("go");
        fs::write(&source, self.source)?;
        let cache = workshop::folder("go-build", "cache")?;
        let mut command = Command::new("go");
        command.args(["build", "-o"]).arg(path).arg(source);
        workshop::compile(command.env("GOCACHE", &cache).env("GO111MODULE", "off").env("GOPATH", &cache))
    }

    fn python(&self, folder: &Path, module: &str) -> Result<Option<Program>> {
        let Some(interpreter) = python_with(module) else { return Ok(None) };
        fs::create_dir_all(folder)?;
        let script = folder.join(self.name).with_extension("py");
        if !script.exists() {
            fs::write(&script, self.source)?;
        }
        Ok(Some(Program { path: interpreter, arguments: vec![script.into()] }))
    }
}

/// Returns an interpreter that can import `module` and that this user can execute. Wrappers are resolved.
fn python_with(module: &str) -> Option<PathBuf> {
    let named = env::var_os("STANDFAST_PYTHON").map(PathBuf::from);
    let candidates = named.into_iter().chain(["python3", "/usr/bin/python3"].map(PathBuf::from));
    candidates.into_iter().find_map(|candidate| {
        let question = format!("import {module}, sys; print(sys.executable)");
        let answer = Command::new(candidate).args(["-c", &question]).output().ok().filter(|a| a.status.success())?;
        let executable = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
        executable.is_absolute().then_some(executable)
    })
}
