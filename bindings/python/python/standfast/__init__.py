"""Lets a program direct its own checkpoints: the Python interface of libstandfast.

    import standfast

    with standfast.dead(scratch):            # left out of checkpoints that are taken here
        standfast.checkpoint_here()
    standfast.readonly(table)                # in the next checkpoint, to which later ones refer

Buffers are numpy arrays, bytearrays, or other objects that expose their memory as one contiguous buffer. While a buffer is
excluded, this module holds a reference to it, so that no other object can take its place in memory. Outside `standfast run`
all calls do nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = [
    "Checkpoint",
    "Outcome",
    "StandfastError",
    "checkpoint_here",
    "dead",
    "disabled",
    "exclude_dead",
    "include",
    "is_protected",
    "next_checkpoint",
    "readonly",
]

_DEAD, _READONLY = 1, 2

try:
    _library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libstandfast.so")))
except OSError as error:
    raise ImportError(
        f"standfast: libstandfast cannot be loaded here: {error}\n"
        "hint: it needs Linux on x86-64 with glibc 2.17 or later; the command `standfast` protects programs without it"
    ) from error
_library.standfast_exclude.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_library.standfast_include.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_library.standfast_checkpoint_here.argtypes = [ctypes.POINTER(ctypes.c_uint64)]
_library.standfast_next.restype = ctypes.c_int64
_library.standfast_error_text.argtypes = [ctypes.c_int]
_library.standfast_error_text.restype = ctypes.c_char_p


class StandfastError(Exception):
    """A call that libstandfast has refused."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(_library.standfast_error_text(code).decode())


class Outcome(enum.IntEnum):
    """The outcome of a request for a checkpoint."""

    NOT_TAKEN = 0
    """No checkpoint was due, or the program does not run under Standfast."""
    TAKEN = 1
    """First return: the checkpoint has been taken, and the program continues."""
    RESTARTED = 2
    """Second return: the program has been restarted from the checkpoint."""


class Checkpoint(NamedTuple):
    """The answer to a request for a checkpoint."""

    outcome: Outcome
    generation: int | None


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_ANY_CONTIGUOUS = 0x98
_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None

_held: dict[tuple[int, int], _PyBuffer] = {}
"""The excluded buffers, by address and length."""


def _view(buffer: Any) -> _PyBuffer:
    view = _PyBuffer()
    _get_buffer(buffer, ctypes.byref(view), _ANY_CONTIGUOUS)
    return view


def _check(code: int) -> int:
    if code < 0:
        raise StandfastError(code)
    return code


def _exclude(buffer: Any, usage: int) -> tuple[int, int]:
    view = _view(buffer)
    place = (view.buf or 0, view.len)
    try:
        if view.len > 0:
            _check(_library.standfast_exclude(view.buf, view.len, usage))
    except StandfastError:
        _release_buffer(ctypes.byref(view))
        raise
    if place in _held:
        _release_buffer(ctypes.byref(view))
    else:
        _held[place] = view
    return place


def _include(place: tuple[int, int]) -> None:
    address, length = place
    if length > 0:
        _check(_library.standfast_include(address, length))
    view = _held.pop(place, None)
    if view is not None:
        _release_buffer(ctypes.byref(view))


def exclude_dead(buffer: Any) -> None:
    """Leaves a buffer out of checkpoints until it is included. The program promises to write it again before it reads it."""
    _exclude(buffer, _DEAD)


def readonly(buffer: Any) -> None:
    """Promises that the program does not write to a buffer until it is included. The next checkpoint contains the buffer,
    and later ones refer to that checkpoint."""
    _exclude(buffer, _READONLY)


def include(buffer: Any) -> None:
    """Takes a buffer back into checkpoints."""
    view = _view(buffer)
    place = (view.buf or 0, view.len)
    _release_buffer(ctypes.byref(view))
    _include(place)


@contextlib.contextmanager
def dead(*buffers: Any) -> Iterator[None]:
    """Makes the buffers dead within the block. After it they are in checkpoints again, and the program must write them
    before it reads them."""
    places: list[tuple[int, int]] = []
    try:
        for buffer in buffers:
            places.append(_exclude(buffer, _DEAD))
        yield
    finally:
        for place in places:
            _include(place)


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Prevents checkpoints within the block."""
    _check(_library.standfast_disable())
    try:
        yield
    finally:
        _check(_library.standfast_enable())


def checkpoint_here() -> Checkpoint:
    """Takes a checkpoint here if one is due."""
    generation = ctypes.c_uint64(0)
    outcome = Outcome(_check(_library.standfast_checkpoint_here(ctypes.byref(generation))))
    return Checkpoint(outcome, generation.value or None)


def is_protected() -> bool:
    """Reports whether the program runs under Standfast."""
    return bool(_library.standfast_is_protected())


def next_checkpoint() -> float | None:
    """Returns the seconds until the supervisor takes the next checkpoint by itself; None for never."""
    nanoseconds = _library.standfast_next()
    return None if nanoseconds < 0 else nanoseconds / 1e9
