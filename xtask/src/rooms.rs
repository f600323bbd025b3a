//! The room table: which package may use which. It keeps processes out of the store, and files out of the engine.
//!
//! `ARCHITECTURE.md` gives the reasons; this copy is enforced. Development dependencies count as well: a test that needs
//! another room belongs to the room above both.

use crate::finding::Finding;
use serde::Deserialize;

/// The part of `cargo metadata --no-deps` that the rule reads.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// The packages of the workspace.
    pub(crate) packages: Vec<Package>,
}

/// A package of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// The path of its manifest.
    pub(crate) manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `None` for an ordinary dependency, otherwise `dev` or `build`.
    kind: Option<String>,
    /// Its path, for a package of this repository.
    path: Option<String>,
}

struct Room {
    package: &'static str,
    /// The other rooms that it may use.
    rooms: &'static [&'static str],
    /// The external crates that it may use.
    outside: Outside,
}

enum Outside {
    Any,
    /// A pure room: only crates that compute and do no I/O.
    Only(&'static [&'static str]),
}

const ROOMS: &[Room] = &[
    Room {
        package: "standfast-core",
        rooms: &[],
        outside: Outside::Only(&[
            "blake3",
            "crc-fast",
            "lz4_flex",
            "rusty_erasure",
            "thiserror",
            "twox-hash",
            "zstd-safe",
        ]),
    },
    Room {
        package: "standfast-cost",
        rooms: &[],
        outside: Outside::Only(&["fastrand", "serde", "statrs", "thiserror"]),
    },
    Room {
        package: "standfast-format",
        rooms: &["standfast-core"],
        outside: Outside::Only(&["minicbor", "serde", "thiserror"]),
    },
    Room { package: "standfast-linux", rooms: &["standfast-core"], outside: Outside::Any },
    Room { package: "standfast-remote", rooms: &[], outside: Outside::Any },
    Room { package: "standfast-parts", rooms: &[], outside: Outside::Only(&["serde"]) },
    Room {
        package: "standfast-engine",
        rooms: &["standfast-core", "standfast-format", "standfast-linux"],
        outside: Outside::Any,
    },
    Room {
        package: "standfast-group",
        rooms: &["standfast-core", "standfast-format"],
        outside: Outside::Only(&["minicbor", "thiserror"]),
    },
    Room {
        package: "standfast-member",
        rooms: &["standfast-core", "standfast-cost", "standfast-format", "standfast-group", "standfast-linux"],
        outside: Outside::Any,
    },
    Room {
        package: "standfast-mpi",
        rooms: &["standfast-core", "standfast-format", "standfast-group", "standfast-linux", "standfast-member"],
        outside: Outside::Any,
    },
    Room {
        package: "standfast-sim",
        rooms: &["standfast-core", "standfast-format", "standfast-group"],
        outside: Outside::Any,
    },
    Room { package: "standfast-store", rooms: &["standfast-core", "standfast-format"], outside: Outside::Any },
    Room {
        package: "standfast",
        rooms: &[
            "standfast-core",
            "standfast-cost",
            "standfast-format",
            "standfast-linux",
            "standfast-engine",
            "standfast-store",
            "standfast-group",
            "standfast-member",
            "standfast-parts",
            "standfast-remote",
        ],
        outside: Outside::Any,
    },
    Room { package: "standfast-cli", rooms: &["standfast"], outside: Outside::Any },
    Room { package: "standfast-tests", rooms: &[], outside: Outside::Any },
    Room { package: "standfast-bench", rooms: &["standfast-core", "standfast-tests"], outside: Outside::Any },
    Room { package: "xtask", rooms: &[], outside: Outside::Any },
];

/// Returns every dependency that the table does not allow. `top` is the path of the repository, with which manifest
/// paths begin.
pub(crate) fn check(metadata: &Metadata, top: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let manifest = package.manifest_path.strip_prefix(top).unwrap_or(&package.manifest_path);
        let manifest = manifest.trim_start_matches('/');
        let Some(room) = ROOMS.iter().find(|room| room.package == package.name) else {
            findings.push(Finding::new(
                manifest,
                0,
                format!("package {} has no place in the room table", package.name),
                "add it to ROOMS in xtask/src/rooms.rs and to the table in ARCHITECTURE.md",
            ));
            continue;
        };
        let complaints = package.dependencies.iter().filter_map(|dependency| room.complaint(dependency));
        findings.extend(complaints.map(|(what, remedy)| Finding::new(manifest, 0, what, remedy)));
    }
    findings
}

impl Room {
    fn complaint(&self, dependency: &Dependency) -> Option<(String, String)> {
        let name = dependency.name.as_str();
        let package = self.package;
        if dependency.path.is_some() {
            let allowed = self.rooms.contains(&name);
            let may = if self.rooms.is_empty() { "no other room".to_owned() } else { self.rooms.join(", ") };
            let remedy = format!("{package} may use {may}: move the code to where both are known, or pass a value");
            return (!allowed).then(|| (format!("{package} may not use {name}"), remedy));
        }
        let Outside::Only(crates) = self.outside else { return None };
        let ordinary = dependency.kind.as_deref() != Some("dev");
        (ordinary && !crates.contains(&name)).then(|| {
            let remedy =
                format!("if {name} only computes, add it to ROOMS in xtask/src/rooms.rs; otherwise do without");
            (format!("{package} is pure and may use of outside crates only {}, not {name}", crates.join(", ")), remedy)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(package: &str, dependencies: &str) -> Vec<String> {
        let text = format!(
            r#"{{"packages":[{{"name":"{package}","manifest_path":"/top/x/Cargo.toml","dependencies":[{dependencies}]}}]}}"#
        );
        let metadata = serde_json::from_str(&text).expect("the test writes JSON");
        check(&metadata, "/top").iter().map(ToString::to_string).collect()
    }

    fn room(name: &str) -> String {
        format!(r#"{{"name":"{name}","kind":null,"path":"/top/crates/{name}"}}"#)
    }

    #[test]
    fn the_store_may_not_know_processes() {
        let found = findings("standfast-store", &room("standfast-engine"));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("x/Cargo.toml: standfast-store may not use standfast-engine"), "{}", found[0]);
        assert!(found[0].contains("may use standfast-core, standfast-format"), "{}", found[0]);
        assert!(findings("standfast-store", &room("standfast-format")).is_empty());
    }

    #[test]
    fn a_test_may_not_bring_in_another_room_either() {
        let dependency = r#"{"name":"standfast-store","kind":"dev","path":"/top/crates/store"}"#;
        assert_eq!(findings("standfast-engine", dependency).len(), 1);
    }

    #[test]
    fn a_pure_room_takes_only_named_crates_but_tests_take_any() {
        let tokio = |kind: &str| format!(r#"{{"name":"tokio","kind":{kind},"path":null}}"#);
        assert_eq!(findings("standfast-core", &tokio("null")).len(), 1);
        assert_eq!(findings("standfast-core", &tokio("\"build\"")).len(), 1);
        assert!(findings("standfast-core", &tokio("\"dev\"")).is_empty());
        assert!(findings("standfast-linux", &tokio("null")).is_empty());
    }

    #[test]
    fn a_package_outside_the_table_is_named() {
        assert!(findings("standfast-cellar", "")[0].contains("standfast-cellar has no place in the room table"));
    }
}
