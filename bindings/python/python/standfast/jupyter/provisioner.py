"""A kernel provisioner for Jupyter: starts kernels under Standfast, and continues those that have ended."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import LocalProvisioner
from jupyter_core.paths import jupyter_data_dir
from traitlets import Unicode, default

from standfast.jupyter.cells import LOG

PROVISIONER = "standfast-provisioner"
"""Its name in kernel specifications, and as an entry point."""

_SESSION = "JPY_SESSION_NAME"
"""Environment variable in which the Jupyter server names the notebook."""

_KERNEL = ["sh", "-c", 'unset JPY_PARENT_PID; exec "$@" >>"$0" 2>&1']
"""Starts a kernel that prints to a file of its own, which follows. The server writes to its log as well, so that file could not
be cut back. Without the variable the kernel does not end itself when its parent is another process than at first, as after a
restart."""

_END_SECONDS = 10.0
_PAUSE_SECONDS = 0.02

_CONTINUED = {"crashed", "killed", "stopped", "failed", "finished"}
"""States of a job that can be continued."""


class StandfastProvisioner(LocalProvisioner):  # type: ignore[misc]
    """Runs each notebook's kernel as a job. Its directory is found by the path of the notebook."""

    directory = Unicode(help="Where the checkpoints of all notebooks are").tag(config=True)
    command = Unicode("standfast", help="The command of Standfast").tag(config=True)

    _place: pathlib.Path | None = None
    _is_named = False
    _begins_empty = False

    @default("directory")  # type: ignore[untyped-decorator]
    def _default_directory(self) -> str:
        return str(pathlib.Path(jupyter_data_dir(), "standfast"))

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Returns the command that starts the kernel, or continues it."""
        environment = kwargs.setdefault("env", os.environ.copy())
        self._place = self._place_of(environment)
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_continued = not self._begins_empty and self._can_be_continued()
        if is_continued:
            self._take_over_connection()
        environment[LOG] = str(self._place / "cells")
        kwargs = await super().pre_launch(**kwargs)
        if is_continued:
            # What cells have written to files stays there, and others may have written to them as well.
            kwargs["cmd"] = [*self._words("restart"), "--files", "keep", str(self._job())]
            if self._state() == "finished":
                kwargs["cmd"] += ["--at", str(self._newest())]
        else:
            self._forget()
            # With its permissions: it contains a key.
            shutil.copy(self.parent.connection_file, self._place / "connection.json")
            options = ["-d", str(self._job()), "-i", "off", "--external-sockets", "reset"]
            kernel = [*kwargs["cmd"], "--ext=standfast.jupyter.cells"]
            kwargs["cmd"] = [*self._words("run"), *options, "--", *_KERNEL, str(self._place / "output"), *kernel]
        self._begins_empty = False
        # A restart would compare the server's log with what it was, and others write to it.
        return kwargs | {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Starts the command, and passes on what it says."""
        information = await super().launch_kernel(cmd, **kwargs)
        threading.Thread(target=self._pass_on, args=(self.process.stderr,), daemon=True).start()
        return information

    async def shutdown_requested(self, restart: bool = False) -> None:
        """Notes whether the user wants a kernel that begins with nothing."""
        self._begins_empty = restart

    async def send_signal(self, signum: int) -> None:
        """Sends a signal to the kernel. What would end the command only ends the kernel, and so the command as well."""
        program = self._program()
        if signum == 0 or program is None:
            await super().send_signal(signum)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, signal.SIGKILL if signum == signal.SIGTERM else signum)

    async def cleanup(self, restart: bool = False) -> None:
        """Removes the checkpoints of a kernel that belongs to no notebook."""
        await super().cleanup(restart=restart)
        if not restart and not self._is_named:
            self._forget()

    def _place_of(self, environment: dict[str, str]) -> pathlib.Path:
        session = environment.get(_SESSION, "")
        self._is_named = bool(session)
        name = session or self.kernel_id
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", pathlib.PurePath(name).stem)[:40]
        return pathlib.Path(self.directory, f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:16]}")

    def _pass_on(self, messages: Any) -> None:
        # It is closed when the kernel has ended.
        with contextlib.suppress(ValueError, OSError):
            for line in messages:
                self.log.warning(line.decode(errors="replace").rstrip())

    def _job(self) -> pathlib.Path:
        assert self._place is not None
        return self._place / "job"

    def _words(self, action: str) -> list[str]:
        return [self.command, action, "--quiet"]

    def _ask(self, *words: str) -> Any:
        answer = subprocess.run([self.command, *words, "--json", str(self._job())], capture_output=True, text=True)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def _state(self) -> str:
        status = self._ask("status") if self._job().exists() else None
        return "none" if status is None else str(status["phase"])

    def _program(self) -> int | None:
        """Returns the process of the kernel, if it runs."""
        status = self._ask("status") if self._place is not None and self._job().exists() else None
        is_alive = status is not None and status["phase"] in {"running", "unprotected"}
        return status["program_pid"] if is_alive else None

    def _newest(self) -> int:
        return max(it["generation"] for it in self._ask("list"))

    def _can_be_continued(self) -> bool:
        if not (self._place / "connection.json").exists():
            return False
        self._end()
        return self._state() in _CONTINUED and bool(self._ask("list"))

    def _end(self) -> None:
        """Ends a kernel that has outlived its Jupyter server. It can be continued from the last cell that had ended."""
        deadline = time.monotonic() + _END_SECONDS
        while (program := self._program()) is not None and time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, signal.SIGKILL)
            time.sleep(_PAUSE_SECONDS)

    def _take_over_connection(self) -> None:
        """Lets Jupyter use the ports and the key of the kernel that is continued."""
        information = json.loads((self._place / "connection.json").read_text())
        self.parent.load_connection_info(information)
        # They are not Jupyter's to choose.
        self.ports_cached = True

    def _forget(self) -> None:
        """Removes the checkpoints of the last kernel here, and what belongs to them."""
        if self._place is None or not self._place.exists():
            return
        self._end()
        shutil.rmtree(self._place)
        self._place.mkdir(mode=0o700)
