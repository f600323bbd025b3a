"""Takes a checkpoint after each cell, within the kernel. An extension of IPython."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from typing import Any, NamedTuple

import standfast

LOG = "STANDFAST_CELLS"
"""Environment variable with the directory in which cells are logged. It is no part of any checkpoint: what it holds after a
restart has happened since."""

_BEGINS = "begins"


class Cells:
    """The cells of a kernel."""

    def __init__(self, shell: Any, log: pathlib.Path) -> None:
        self._shell = shell
        self._log = log
        self._notice: str | None = None
        self._was_refused = False
        with contextlib.suppress(OSError):
            log.mkdir(exist_ok=True)

    def register(self) -> None:
        """Begins to take checkpoints."""
        self._shell.events.register("pre_run_cell", self.before)
        self._shell.events.register("post_run_cell", self.after)

    def before(self, info: Any) -> None:
        """Notes that a cell begins, and says what has to be said."""
        if not info.store_history or info.silent:
            return
        if self._notice is not None:
            print(self._notice, file=sys.stderr)
            self._notice = None
        # Its number is not known before its end: IPython's versions count at different moments.
        self._note(_BEGINS)

    def after(self, result: Any) -> None:
        """Takes a checkpoint. It returns a second time in a kernel that was continued from it."""
        if not result.info.store_history or result.info.silent:
            return
        cell = result.execution_count
        self._note(str(cell))
        try:
            outcome = standfast.checkpoint_here().outcome
        except standfast.StandfastError as error:
            outcome = standfast.Outcome.NOT_TAKEN
            print(f"standfast: {error}", file=sys.stderr)
        if outcome is standfast.Outcome.RESTARTED:
            self._notice = notice(cell, self._later(cell))
        is_refused = outcome is standfast.Outcome.NOT_TAKEN
        if is_refused and not self._was_refused:
            print(
                f"standfast: no checkpoint could be taken after cell [{cell}]: the notebook is not protected\n"
                f"hint: standfast status {self._log.parent / 'job'}",
                file=sys.stderr,
            )
        self._was_refused = is_refused

    def _note(self, event: str) -> None:
        # Each event is a file: a restart may cut back what a program has appended. A full disk must not end the cell.
        with contextlib.suppress(OSError):
            (self._log / f"{len(self._events()):06}-{event}").touch()

    def _events(self) -> list[str]:
        with contextlib.suppress(OSError):
            return sorted(os.listdir(self._log))
        return []

    def _later(self, cell: int) -> Later:
        """Returns the cells that have begun after this one. Forgets them."""
        names = self._events()
        events = [name.partition("-")[2] for name in names]
        kept = len(events) - events[::-1].index(str(cell)) if str(cell) in events else 0
        for name in names[kept:]:
            with contextlib.suppress(OSError):
                (self._log / name).unlink()
        later = events[kept:]
        return Later([int(event) for event in later if event != _BEGINS], later[-1:] == [_BEGINS])


class Later(NamedTuple):
    """What had happened after a checkpoint from which a kernel was continued."""

    ended: list[int]
    """The cells that had ended."""
    was_interrupted: bool
    """Whether another one had begun."""


def notice(cell: int, later: Later) -> str:
    """Says from where a kernel was continued, and what has to run again."""
    interrupted = max([cell, *later.ended]) + 1
    names = [f"[{number}]" for number in later.ended + [interrupted] * later.was_interrupted]
    text = f"standfast: this kernel was continued. Its variables are as of cell [{cell}]."
    if names:
        text += f" Run {' and '.join(', '.join(names).rsplit(', ', 1))} again."
    return text + f" Cell [{interrupted}] was interrupted." * later.was_interrupted


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython."""
    log = os.environ.get(LOG)
    if log is not None and standfast.is_protected():
        Cells(shell, pathlib.Path(log)).register()
