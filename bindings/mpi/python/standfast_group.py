"""Checkpoints in the memory of other processes, for Python programs that use mpi4py.

    from mpi4py import MPI
    import standfast_group

    group = standfast_group.join(MPI.COMM_WORLD)
    group.protect(0, field)                # a numpy array, or another object with one writable buffer
    group.protect_object(1, get, put)      # any picklable value: get() before a checkpoint, put(value) after a restore
    if group.joined != standfast_group.NEW:
        group.restore()
    while ...:
        if group.due():
            group.checkpoint()
    group.finish()

standfast_group.h documents the calls. A call that fails raises StandfastError, in one process or in all. Start the program
with ``python3 -m mpi4py program.py``, so that all processes end in that case.

libstandfast_group does not depend on MPI. At first use, this module compiles a small glue in C with $MPICC, or the mpicc of
mpi4py's MPI, and keeps it below ~/.cache/standfast. It looks for the library in $STANDFAST_GROUP_LIBRARY if that is set, and
otherwise beside this file and where cargo builds it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import pathlib
import pickle
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

import mpi4py
from mpi4py import MPI

__all__ = ["NEW", "REPLACEMENT", "SURVIVOR", "Group", "StandfastError", "join"]

NEW, SURVIVOR, REPLACEMENT = 0, 1, 2

_VERSION_BYTES = 8192
_GLUE = """
#define STANDFAST_MPI_IMPLEMENTATION
#include <standfast_mpi.h>

int standfast_python_join(const void *comm, standfast_group **group) {
    return standfast_mpi_join(*(const MPI_Comm *)comm, NULL, group);
}

size_t standfast_python_comm_bytes(void) {
    return sizeof(MPI_Comm);
}

int standfast_python_version(char *text) {
    int length;
    return MPI_Get_library_version(text, &length);
}
"""

_Size = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)
_Pack = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class StandfastError(Exception):
    """libstandfast_group has refused a call, or the library cannot be used."""


class Group:
    """The processes that keep each other's registered memory. `join` makes it."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p, joined: int) -> None:
        self.joined = joined
        """How this process began: NEW, SURVIVOR or REPLACEMENT."""
        self.reason = ""
        """Why the last checkpoint was abandoned."""
        self._library = library
        self._handle = handle
        # Objects whose addresses the library holds.
        self._held: dict[int, Any] = {}

    @property
    def epoch(self) -> int:
        """The number of the epoch that the job goes back to or committed last; 0 if there is none."""
        return self._library.standfast_group_epoch(self._handle)

    def protect(self, id: int, buffer: Any) -> None:
        """Registers memory under a number. A number that is already registered gets the new memory."""
        with memoryview(buffer) as view:
            if view.readonly or not view.c_contiguous:
                raise StandfastError(f"region {id} cannot be used: its memory is not one writable stretch")
            memory = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B") if view.nbytes else bytearray(1))
        self._call("protect", id, ctypes.addressof(memory), ctypes.sizeof(memory), 1)
        self._held[id] = (buffer, memory)

    def protect_object(self, id: int, get: Callable[[], Any], put: Callable[[Any], None]) -> None:
        """Registers a value that `get` returns before a checkpoint and `put` takes after a restore."""
        packed = _Packed(get, put)
        self._call("protect_packed", id, packed.size, packed.pack, packed.unpack, None)
        self._held[id] = packed

    def unprotect(self, id: int) -> None:
        """Unregisters a number."""
        self._call("unprotect", id)
        self._held.pop(id, None)

    def recorded(self, id: int) -> int | None:
        """Returns the length in bytes of a number in the epoch that the job goes back to, until it is restored; None if it
        has none."""
        length = self._library.standfast_group_recorded(self._handle, id)
        return None if length < 0 else length

    def restore(self) -> None:
        """Collective. Fills the registered memory from the epoch. If it fails, end the program."""
        self._call("restore")

    def due(self, seconds: float | None = None) -> bool:
        """Collective. Reports whether `seconds` seconds have passed since the last checkpoint, by the clock of process 0.
        The default is that of `standfast group run --interval`, or 60."""
        if seconds is None:
            seconds = self._library.standfast_group_interval()
            if seconds < 0:
                raise StandfastError(f"due: {_text(self._library.standfast_group_error())}")
        return self._call("due", ctypes.c_double(seconds)) > 0

    def checkpoint(self) -> bool:
        """Collective, and no message may be under way. Reports whether the checkpoint counts. If not, `reason` says why, and
        the one before still counts."""
        counts = self._call("checkpoint") == 0
        self.reason = "" if counts else _text(self._library.standfast_group_error())
        return counts

    def finish(self) -> None:
        """Collective. Ends the job: frees the group and removes all of the job's data from memory."""
        self._call("finish")
        self._handle = ctypes.c_void_p()
        self._held.clear()

    def _call(self, name: str, *arguments: Any) -> int:
        result = getattr(self._library, f"standfast_group_{name}")(self._handle, *arguments)
        if result < 0:
            raise StandfastError(_text(self._library.standfast_group_error()))
        return result


class _Packed:
    """The three functions of a packed region. None of them lets an exception through to C."""

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], None]) -> None:
        self._get, self._put = get, put
        self._bytes: bytes | None = b""
        self.size, self.pack, self.unpack = _Size(self._on_size), _Pack(self._on_pack), _Pack(self._on_unpack)

    def _on_size(self, _: int | None) -> int:
        try:
            self._bytes = pickle.dumps(self._get())
        except Exception as error:
            print(f"standfast_group: {error!r}")
            self._bytes = None
        return len(self._bytes or b"")

    def _on_pack(self, _: int | None, into: int | None, length: int) -> int:
        if self._bytes is None or len(self._bytes) != length:
            return 1
        if length:
            ctypes.memmove(into, self._bytes, length)
        return 0

    def _on_unpack(self, _: int | None, source: int | None, length: int) -> int:
        try:
            self._put(pickle.loads(ctypes.string_at(source, length)))
        except Exception as error:
            print(f"standfast_group: {error!r}")
            return 1
        return 0


def join(comm: MPI.Comm) -> Group:
    """Collective. Joins the job that `standfast group run` has launched, and rebuilds what was lost."""
    library = _library()
    handle = ctypes.c_void_p()
    joined = library.standfast_python_join(ctypes.c_void_p(MPI._addressof(comm)), ctypes.byref(handle))
    if joined < 0:
        raise StandfastError(_text(library.standfast_group_error()) or "the processes cannot join")
    return Group(library, handle, joined)


def _library() -> ctypes.CDLL:
    include, folder = _places()
    mpicc = os.environ.get("MPICC") or mpi4py.get_config().get("mpicc") or "mpicc"
    glue = ctypes.CDLL(str(_built(mpicc, include, folder)))
    version = ctypes.create_string_buffer(_VERSION_BYTES)
    glue.standfast_python_comm_bytes.restype = ctypes.c_size_t
    glue.standfast_python_version(version)
    theirs = MPI.Get_library_version().rstrip("\0")
    if glue.standfast_python_comm_bytes() != MPI._sizeof(MPI.Comm) or _text(version.value) != theirs:
        ours = _text(version.value)
        raise StandfastError(f"{mpicc} is of another MPI than mpi4py: {ours} instead of {theirs}; set MPICC")
    glue.standfast_group_error.restype = ctypes.c_char_p
    glue.standfast_group_epoch.restype = ctypes.c_uint64
    glue.standfast_group_interval.restype = ctypes.c_double
    glue.standfast_group_recorded.restype = ctypes.c_int64
    glue.standfast_group_recorded.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    glue.standfast_group_protect.argtypes = [
        ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t,
    ]  # fmt: skip
    glue.standfast_group_protect_packed.argtypes = [
        ctypes.c_void_p, ctypes.c_int64, _Size, _Pack, _Pack, ctypes.c_void_p,
    ]  # fmt: skip
    glue.standfast_group_unprotect.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    return glue


def _places() -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the folders of the headers and of the library."""
    here = pathlib.Path(__file__).resolve().parent
    asked = os.environ.get("STANDFAST_GROUP_LIBRARY")
    libraries = [pathlib.Path(asked)] if asked else [here, here.parents[2] / "target" / "release"]
    headers = [here, here.parent / "include", *libraries]
    library = next((it for it in libraries if (it / "libstandfast_group.so").exists()), None)
    include = next((it for it in headers if (it / "standfast_mpi.h").exists()), None)
    if library is None or include is None:
        raise StandfastError("libstandfast_group.so and standfast_mpi.h are not found: set STANDFAST_GROUP_LIBRARY")
    return include, library


def _built(mpicc: str, include: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Returns the glue, and compiles it if it is not there yet. Processes that do so at once put the same file in the same
    place."""
    version = subprocess.run([mpicc, "-v"], capture_output=True, check=False)
    texts = [(include / name).read_bytes() for name in ("standfast_mpi.h", "standfast_group.h")]
    made_of = [_GLUE.encode(), *texts, mpicc.encode(), version.stdout, version.stderr, bytes(folder)]
    name = hashlib.sha256(b"\0".join(made_of)).hexdigest()[:24]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "standfast"
    glue = cache / f"group-{name}.so"
    if not glue.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as place:
            source, made = pathlib.Path(place) / "glue.c", pathlib.Path(place) / "glue.so"
            source.write_text(_GLUE)
            command = [mpicc, "-O2", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(made)]
            command += [f"-L{folder}", "-lstandfast_group", f"-Wl,-rpath,{folder}"]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode != 0:
                raise StandfastError(f"{mpicc} cannot compile the glue: {_text(done.stderr)}")
            made.replace(glue)
    return glue


def _text(words: bytes | None) -> str:
    return (words or b"").decode(errors="replace")
