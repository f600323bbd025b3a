"""Prints the licences of everything that is linked into the command.

usage: third_party.py TRIPLE
"""

import json
import pathlib
import re
import subprocess
import sys

PREAMBLE = """\
The command `standfast` is linked statically with the software below, under the licences that follow.

- The GNU C Library (LGPL-2.1-or-later): https://www.gnu.org/software/libc/. Its licence allows you to link the command
  with a version of your own: `cargo build --release -p standfast-cli` in Standfast's source does that.
- The runtime of GCC (GPL-3.0-or-later with the GCC Runtime Library Exception): https://gcc.gnu.org/
- The Rust standard library (MIT OR Apache-2.0): https://github.com/rust-lang/rust
"""
LICENCE = re.compile(r"(licen[cs]e|copying|copyright|unlicense|notice)", re.IGNORECASE)
# zstd-sys contains the C library under a licence of its own.
DEPTH = ["*", "zstd/*"]


def linked(triple: str) -> list[dict]:
    """Returns the packages of others that the command uses, without what only its build or its tests use."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={triple}"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in answer["packages"]}
    nodes = {node["id"]: node for node in answer["resolve"]["nodes"]}
    found, waiting = set(), [key for key, package in packages.items() if package["name"] == "standfast-cli"]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            uses = (use for use in nodes[key]["deps"] if any(kind["kind"] is None for kind in use["dep_kinds"]))
            waiting += [use["pkg"] for use in uses]
    others = [packages[key] for key in found if packages[key]["source"]]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def main(triple: str) -> None:
    print(PREAMBLE)
    for package in linked(triple):
        heading = f"{package['name']} {package['version']} ({package['license']})"
        print("=" * 80, heading, package["repository"] or "", "", sep="\n")
        folder = pathlib.Path(package["manifest_path"]).parent
        files = [path for pattern in DEPTH for path in folder.glob(pattern) if path.is_file()]
        for path in sorted(path for path in files if LICENCE.search(path.name)):
            print("-" * 80, path.relative_to(folder), "", path.read_text(errors="replace").strip(), "", sep="\n")


main(sys.argv[1])
