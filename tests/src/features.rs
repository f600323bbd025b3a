//! One small victim per kernel feature, found in `tests/victims/features`. The first comment of each victim says what to
//! expect. See the README there.

use crate::command::Checkpoints;
use crate::victims::Program;
use crate::{Lacking, workshop};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A victim that proves one promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// The name of its file, without the ending.
    pub name: String,
    /// The contents of its first comment.
    pub header: Header,
    /// Whether it runs among short-lived processes of its job.
    pub crowded: bool,
    /// When checkpoints are taken, besides those that its trial requests.
    pub checkpoints: Checkpoints,
    source: String,
}

/// The contents of a victim's first comment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// The promise, in words.
    pub promise: String,
    /// The expected outcome of a checkpoint and a restart.
    pub expect: Expectation,
    /// What the machine must have. The runner checks `root` and `user`; the victim checks everything else itself.
    pub needs: Vec<String>,
    /// Additional arguments for the compiler.
    pub flags: Vec<String>,
    /// The compiler, or `cc` if none is named.
    pub compiler: Option<String>,
    /// Additional options for `standfast run`.
    pub run: Vec<String>,
    /// Additional options for `standfast restart`.
    pub restart: Vec<String>,
    /// A shell command that runs in the working folder after the end of each life, before the restart.
    pub meanwhile: Option<String>,
    /// Why the promise excludes a restart from an image that the program has already run past.
    pub no_rollback: Option<String>,
    /// Why `doctor` cannot foresee a refusal.
    pub doctor_blind: Option<String>,
    /// Why the victim must be alone in its job.
    pub alone: Option<String>,
    /// Why the promise excludes frequent checkpoints.
    pub seldom: Option<String>,
    /// What the victim makes superfluous in `make test`.
    pub replaces: Option<Replaced>,
    /// Why the victim runs in `make test-all` only.
    pub rest: Option<String>,
}

/// What a victim makes superfluous in `make test`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replaced {
    /// The victim of this name.
    Victim(String),
    /// A test of `tests/tests`.
    Test {
        /// Its file.
        file: String,
        /// Its function.
        function: String,
    },
    /// Nothing, for this reason.
    Nothing(String),
}

/// The expected outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expectation {
    /// The program continues from every image and reaches the result of an undisturbed run.
    #[default]
    Survive,
    /// The checkpoint is refused, and the reason contains all these words.
    Refuse(Vec<String>),
    /// The restart is refused, and the reason contains all these words.
    RefuseRestart(Vec<String>),
}

/// A feature's victim, either ready to run or impossible to run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    /// Its executable.
    Program(Program),
    /// What this machine lacks.
    Lacking(Lacking),
}

impl Feature {
    /// Returns all features, sorted by name.
    ///
    /// # Errors
    /// When the folder or a file cannot be read. A malformed header is an error of that victim alone.
    pub fn all() -> Result<Vec<(String, Result<Self>)>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("victims/features");
        let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
        let sources = paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "c"));
        let mut features = sources.map(|path| Self::read(&path)).collect::<Result<Vec<_>>>()?;
        features.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(features)
    }

    fn read(path: &Path) -> Result<(String, Result<Self>)> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let source = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let feature = Self::new(&name, source);
        Ok((name, feature))
    }

    /// Makes a feature from its source.
    ///
    /// # Errors
    /// When its header is malformed.
    pub fn new(name: &str, source: String) -> Result<Self> {
        let header = Header::parse(&source)?;
        let checkpoints = Checkpoints::OnRequest;
        Ok(Self { name: name.to_owned(), header, crowded: false, checkpoints, source })
    }

    /// Returns the same feature with memory captured by this method (`--snapshot`), unless it names its own method.
    /// Pages are then stored as deltas, which work with every method.
    #[must_use]
    pub fn taken_by(self, snapshot: &str) -> Self {
        self.protected_with(&["--snapshot", snapshot, "--delta", "previous"])
    }

    /// Returns the same feature with more options for the run, unless it already has one of them.
    #[must_use]
    pub fn protected_with(mut self, words: &[&str]) -> Self {
        let is_there = |word: &&str| word.starts_with("--") && self.header.run.iter().any(|own| own == word);
        if !words.iter().any(is_there) {
            self.header.run.extend(words.iter().map(|word| (*word).to_owned()));
        }
        self
    }

    /// Reports whether the victim is about files. If so, a restart puts back different contents from each image.
    #[must_use]
    pub fn rolls_back_from_each(&self) -> bool {
        const OF_FILES: [&str; 8] =
            ["appended", "deleted", "directory", "file", "folder", "large-file", "mapped", "saved"];
        OF_FILES.iter().any(|word| self.name.starts_with(word)) || self.header.run.iter().any(|it| it.contains("save"))
    }

    /// Returns the same feature among short-lived processes of its job, unless it must be alone.
    #[must_use]
    pub fn crowded(self) -> Self {
        Self { crowded: self.header.alone.is_none(), ..self }
    }

    /// Returns the same feature with an incremental checkpoint every `milliseconds`, and frequent coalescing.
    #[must_use]
    pub fn taken_every(mut self, milliseconds: u64) -> Self {
        if self.header.seldom.is_none() {
            self.checkpoints = Checkpoints::EveryMilliseconds(milliseconds);
        }
        self.header.run.extend(["--incremental", "on", "--max-files", "3"].map(str::to_owned));
        self
    }

    /// Compiles the victim if necessary, unless this user cannot run it.
    ///
    /// # Errors
    /// When the victim does not compile.
    pub fn prepare(&self) -> Result<Prepared> {
        let is_root = nix::unistd::geteuid().is_root();
        for need in &self.header.needs {
            match need.as_str() {
                "root" if !is_root => return Ok(Prepared::Lacking(Lacking::user("it needs root"))),
                "user" if is_root => return Ok(Prepared::Lacking(Lacking::user("it needs a plain user"))),
                _ => {}
            }
        }
        self.compile()
    }

    /// Compiles the victim if necessary, whoever may run it.
    ///
    /// # Errors
    /// When the victim does not compile.
    pub fn compile(&self) -> Result<Prepared> {
        let compiler = self.header.compiler.as_deref().unwrap_or("cc");
        if Command::new(compiler).arg("--version").output().is_err() {
            return Ok(Prepared::Lacking(Lacking::program(compiler)));
        }
        // -march=native would tie the cache to one machine, and no test here measures anything.
        let flags = ["-O1", "-g"].into_iter().chain(self.header.flags.iter().map(String::as_str));
        let folder = workshop::folder(&self.name, (&self.source, compiler, &self.header.flags))?;
        let build = |path: &Path| workshop::compile_c(path, &self.source, compiler, flags);
        Ok(Prepared::Program(Program { path: workshop::built(&folder, &self.name, build)?, arguments: Vec::new() }))
    }
}

impl Header {
    /// Parses the first comment of `source`: prose, and then one key a line, beginning with the line `expect:`.
    ///
    /// # Errors
    /// When the promise or the expectation is missing, or a key is unknown.
    pub fn parse(source: &str) -> Result<Self> {
        let comment = source.strip_prefix("/*").and_then(|rest| rest.split_once("*/")).map(|(comment, _)| comment);
        let comment = comment.context("a victim opens with a comment")?;
        let lines = comment.lines().map(|line| line.trim_start().trim_start_matches('*').trim());
        let (mut prose, mut keyed) = (Vec::new(), Vec::new());
        for line in lines.filter(|line| !line.is_empty()) {
            if keyed.is_empty() && !line.starts_with("expect:") { prose.push(line) } else { keyed.push(line) }
        }
        let mut header = Self { promise: prose.join(" "), ..Self::default() };
        ensure!(header.promise.ends_with('.'), "the first comment says the promise in a sentence");
        ensure!(!keyed.is_empty(), "the first comment says what to expect: `expect: survive`");
        keyed.into_iter().try_for_each(|line| header.set(line))?;
        ensure!(header.replaces.is_none() || header.rest.is_none(), "what is not in make test replaces nothing there");
        Ok(header)
    }

    fn set(&mut self, line: &str) -> Result<()> {
        let (key, value) = line.split_once(':').with_context(|| format!("no key and value: {line:?}"))?;
        let value = value.trim();
        let words = || value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        ensure!(!value.is_empty(), "{key}: says nothing");
        match key {
            "expect" => self.expect = Expectation::parse(value)?,
            "needs" => self.needs = value.split(',').map(|need| need.trim().to_owned()).collect(),
            "flags" => self.flags = words(),
            "compiler" => self.compiler = Some(value.to_owned()),
            "run" => self.run = words(),
            "restart" => self.restart = words(),
            "meanwhile" => self.meanwhile = Some(value.to_owned()),
            "no-rollback" => self.no_rollback = Some(value.to_owned()),
            "doctor-blind" => self.doctor_blind = Some(value.to_owned()),
            "alone" => self.alone = Some(value.to_owned()),
            "seldom" => self.seldom = Some(value.to_owned()),
            "replaces" => self.replaces = Some(Replaced::parse(value)?),
            "rest" => self.rest = Some(value.to_owned()),
            _ => bail!("nobody knows the key {key:?}"),
        }
        Ok(())
    }
}

impl Replaced {
    fn parse(text: &str) -> Result<Self> {
        if let Some(reason) = text.strip_prefix("nothing, since ") {
            return Ok(Self::Nothing(reason.to_owned()));
        }
        let (file, name) = text.split_once(": ").map_or((None, text), |(file, name)| (Some(file), name));
        let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
        match file {
            None if is_name(name) && name != "nothing" => Ok(Self::Victim(name.to_owned())),
            Some(file) if is_name(file) && is_name(name) => {
                Ok(Self::Test { file: file.to_owned(), function: name.to_owned() })
            }
            _ => bail!("a victim replaces `VICTIM`, `FILE.rs: TEST` or `nothing, since REASON`, not {text:?}"),
        }
    }
}

impl Expectation {
    fn parse(text: &str) -> Result<Self> {
        let (verdict, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let words: Vec<String> = rest.split('"').skip(1).step_by(2).map(str::to_lowercase).collect();
        let odd = words.is_empty() || words.iter().any(String::is_empty) || rest.matches('"').count() % 2 == 1;
        match verdict {
            "survive" if rest.is_empty() => Ok(Self::Survive),
            "refuse" | "refuse-restart" if odd => bail!("{verdict} needs words in quotes: {text:?}"),
            "refuse" => Ok(Self::Refuse(words)),
            "refuse-restart" => Ok(Self::RefuseRestart(words)),
            _ => bail!("survive, refuse or refuse-restart can be expected, not {text:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_promise_and_expectation() {
        let header = Header::parse(
            "/* A lock on a file\n * is refused.\n *\n * expect: refuse \"flock\" \"Lock\"\n * needs: root, memfd\n * flags: -static -lm\n */\nint main",
        )
        .unwrap();
        assert_eq!(header.promise, "A lock on a file is refused.");
        assert_eq!(header.expect, Expectation::Refuse(vec!["flock".to_owned(), "lock".to_owned()]));
        assert_eq!((header.needs.len(), header.flags.len()), (2, 2));
    }

    #[test]
    fn a_header_says_what_its_victim_replaces() {
        let replaced = |value: &str| {
            let header = Header::parse(&format!("/* A promise.\n * expect: survive\n * replaces: {value}\n */"))?;
            header.replaces.context("the key is there")
        };
        assert_eq!(replaced("older-victim").unwrap(), Replaced::Victim("older-victim".to_owned()));
        let (file, function) = ("ids.rs".to_owned(), "a_test".to_owned());
        assert_eq!(replaced("ids.rs: a_test").unwrap(), Replaced::Test { file, function });
        assert_eq!(replaced("nothing, since it is new").unwrap(), Replaced::Nothing("it is new".to_owned()));
        for wrong in ["nothing", "two words", "ids.rs: two words", "older-victim\n * rest: it is slow"] {
            assert!(replaced(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_that_makes_no_sense_is_an_error() {
        for source in [
            "int main",
            "/* A promise. */",
            "/* expect: survive */",
            "/* A promise.\n * expect: refuse\n */",
            "/* A promise.\n * expect: refuse \"word\n */",
            "/* A promise.\n * expect: perish\n */",
            "/* A promise.\n * expect: survive\n * expects: more\n */",
            "/* A promise.\n * expect: survive\n * flags:\n */",
        ] {
            assert!(Header::parse(source).is_err(), "{source:?}");
        }
    }

    #[test]
    fn every_victim_in_the_folder_has_a_header_that_makes_sense() {
        for (name, feature) in Feature::all().unwrap() {
            assert!(feature.is_ok(), "{name}: {:?}", feature.err());
        }
    }
}
