"""Packs the Python wheel: the Python interface of libstandfast, and the command, which pip puts into PATH.

The wheel is written here, since a fixed order, fixed times and a tag that fits the files are all that is needed. The
tag promises a C library: it is derived from the symbols that libstandfast asks for.

usage: wheel.py TREE VERSION FOLDER        (TREE: the installed files, as in the tarball)
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

TOP = pathlib.Path(__file__).resolve().parent.parent
# What each Linux with glibc has (PEP 600).
LIBRARIES = {"libc.so.6", "libpthread.so.0"}
# The oldest glibc that tags can name beside its year, for old versions of pip: manylinux2014.
GLIBC_MIN = 17


def readelf(option: str, path: pathlib.Path) -> str:
    return subprocess.run(["readelf", "--wide", option, path], check=True, capture_output=True, text=True).stdout


def platforms(tree: pathlib.Path) -> list[str]:
    """Returns the platforms on which the files work, by the names that pip knows."""
    assert "INTERP" not in readelf("--program-headers", tree / "bin/standfast"), "the command is not static"
    library = tree / "lib/libstandfast.so.0"
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", readelf("--dynamic", library)))
    assert needed <= LIBRARIES, f"libstandfast needs {needed - LIBRARIES}"
    versions = [int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", readelf("--version-info", library))]
    newest = max(versions + [GLIBC_MIN])
    return [f"manylinux_2_{newest}_x86_64"] + ["manylinux2014_x86_64"] * (newest == GLIBC_MIN)


def contents(tree: pathlib.Path, version: str, tags: list[str]) -> dict[str, bytes]:
    """Returns the files of the wheel by their names, without the record of them."""
    package = TOP / "bindings/python/python/standfast"
    data, info = f"standfast-{version}.data", f"standfast-{version}.dist-info"
    sources = [*package.rglob("*.py"), package / "py.typed"]
    files = {f"standfast/{path.relative_to(package)}": path.read_bytes() for path in sources}
    files["standfast/libstandfast.so"] = (tree / "lib/libstandfast.so.0").read_bytes()
    files[f"{data}/scripts/standfast"] = (tree / "bin/standfast").read_bytes()
    for part in ["man", "bash-completion", "fish"]:
        for path in (tree / "share" / part).rglob("*"):
            if path.is_file():
                files[f"{data}/data/{path.relative_to(tree)}"] = path.read_bytes()
    for path in (tree / "share/doc/standfast").glob("*[Ll][Ii][Cc][Ee][Nn][Ss][Ee]*"):
        files[f"{info}/licenses/{path.name}"] = path.read_bytes()
    metadata = (TOP / "bindings/python/METADATA.in").read_text().replace("@VERSION@", version)
    files[f"{info}/METADATA"] = metadata.encode()
    files[f"{info}/entry_points.txt"] = (TOP / "bindings/python/entry_points.txt").read_bytes()
    lines = ["Wheel-Version: 1.0", f"Generator: standfast {version}", "Root-Is-Purelib: false"]
    lines += [f"Tag: {tag}" for tag in tags]
    files[f"{info}/WHEEL"] = "".join(f"{line}\n" for line in lines).encode()
    return files


def record(files: dict[str, bytes], name: str) -> bytes:
    """Returns the list of the files, their digests and their lengths."""
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    lines = [f"{path},sha256={digest(data)},{len(data)}\n" for path, data in sorted(files.items())]
    return "".join([*lines, f"{name},,\n"]).encode()


def main(tree: pathlib.Path, version: str, folder: pathlib.Path) -> None:
    names = platforms(tree)
    files = contents(tree, version, [f"py3-none-{name}" for name in names])
    listed = f"standfast-{version}.dist-info/RECORD"
    entries = [*sorted(files.items()), (listed, record(files, listed))]
    moment = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(folder / f"standfast-{version}-py3-none-{'.'.join(names)}.whl", "w") as archive:
        for path, data in entries:
            entry = zipfile.ZipInfo(path, moment)
            entry.create_system = 3  # Unix, so that the permissions count.
            entry.external_attr = (0o100755 if "/scripts/" in path or path.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)


main(pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]))
