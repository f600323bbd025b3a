//! Top-level modules of a crate use each other in one direction only. If two of them need each other, the code that both
//! need goes into its own module.
//!
//! The rule reads `use crate::...` and paths that begin with `crate::`. It maps each name that `lib.rs` exports to the
//! module that defines it. Tests may use anything.

use crate::code::{without_comments, without_tests};
use crate::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// The names of its own crate that each top-level module uses, by crate.
#[derive(Debug, Default)]
pub(crate) struct Modules(BTreeMap<String, Crate>);

#[derive(Debug, Default)]
struct Crate {
    uses: BTreeMap<String, BTreeSet<String>>,
    /// The module that defines each name exported from the crate's root.
    exports: BTreeMap<String, String>,
}

impl Modules {
    /// Records what a source file uses.
    pub(crate) fn note(&mut self, path: &str, text: &str) {
        let Some((folder, inside)) = path.split_once("/src/").filter(|_| path.ends_with(".rs")) else { return };
        if inside.split(['/', '.']).any(|part| part == "tests") {
            return;
        }
        let module = inside.split(['/', '.']).next().unwrap_or_default().to_owned();
        let code = without_tests(&without_comments(text));
        let here = self.0.entry(folder.to_owned()).or_default();
        if ["lib", "main"].contains(&module.as_str()) {
            here.note_exports(&code);
        } else {
            here.uses.entry(module).or_default().extend(names_behind(&code, "crate::"));
        }
    }

    /// Returns the circles among the modules of each crate.
    pub(crate) fn check(&self) -> Vec<Finding> {
        let judge = |(folder, modules): (&String, &Crate)| {
            let names: Vec<String> = modules.in_circles().into_iter().collect();
            (!names.is_empty()).then(|| {
                let what = format!("these modules use each other in circles: {}", names.join(", "));
                Finding::new(folder, 0, what, "move what both need into a module of its own")
            })
        };
        self.0.iter().filter_map(judge).collect()
    }
}

impl Crate {
    fn note_exports(&mut self, code: &str) {
        for statement in code.split(';').filter_map(|statement| statement.split_once("pub use ")) {
            let path = statement.1.trim().trim_start_matches("self::");
            if let Some((module, names)) = path.split_once("::") {
                self.exports.extend(words(names).map(|name| (name.to_owned(), module.to_owned())));
            }
        }
    }

    /// Returns the modules that `module` uses.
    fn used_by(&self, module: &str) -> BTreeSet<&str> {
        let names = self.uses.get(module).into_iter().flatten();
        // A function may have the name of a module. A path that begins with the name means the module.
        let is_module = |name: &String| self.uses.contains_key(name);
        let home = |name: &String| self.exports.get(name).filter(|_| !is_module(name)).unwrap_or(name).clone();
        let homes: BTreeSet<String> = names.map(home).collect();
        self.uses.keys().map(String::as_str).filter(|other| *other != module && homes.contains(*other)).collect()
    }

    /// Returns the modules that can be reached from themselves.
    fn in_circles(&self) -> BTreeSet<String> {
        let reached = |module: &String| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![module.as_str()]);
            while let Some(current) = next.pop() {
                next.extend(self.used_by(current).into_iter().filter(|used| seen.insert(*used)));
            }
            seen.contains(module.as_str())
        };
        self.uses.keys().filter(|module| reached(module)).cloned().collect()
    }
}

/// Returns the names that follow `prefix`. For a group in braces, that is the first name of each path.
fn names_behind<'a>(code: &'a str, prefix: &'a str) -> impl Iterator<Item = String> + 'a {
    code.match_indices(prefix).flat_map(move |(at, _)| {
        let rest = &code[at + prefix.len()..];
        let paths = rest.strip_prefix('{').map_or_else(|| vec![rest], |group| top_level_paths(group));
        paths.into_iter().filter_map(|path| words(path).next().map(str::to_owned)).collect::<Vec<_>>()
    })
}

/// Returns the paths of a group whose opening brace has been removed. Paths of nested groups are left out.
fn top_level_paths(group: &str) -> Vec<&str> {
    let (mut paths, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                paths.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                paths.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    paths
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let mut modules = Modules::default();
        files.iter().for_each(|(path, text)| modules.note(path, text));
        modules.check().into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn cycles_are_found_through_exports_and_use_groups() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use b::{B, Other};\n"),
            ("crates/x/src/a.rs", "use crate::{B, d::{c, e}};"),
            ("crates/x/src/b/mod.rs", "use crate::c::C;"),
            ("crates/x/src/b/inner.rs", "fn f() { crate::a::g() }"),
            ("crates/x/src/c.rs", "fn f() {}"),
        ];
        assert_eq!(circles(&files), ["these modules use each other in circles: a, b"]);
    }

    #[test]
    fn one_way_uses_tests_and_comments_make_no_cycle() {
        let files = [
            ("crates/x/src/a.rs", "use crate::b;\n"),
            ("crates/x/src/b.rs", "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"),
            ("crates/x/src/b/tests.rs", "use crate::a;\n"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }
}
