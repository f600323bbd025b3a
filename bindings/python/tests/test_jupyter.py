"""Tests notebooks as their users have them: kernels of Jupyter that are killed, shut down and opened again."""

import contextlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import standfast
from jupyter_client.manager import KernelManager
from standfast.jupyter.cells import Cells

SECONDS = 90
"""Patience with a kernel."""
CONTINUED = "standfast: this kernel was continued. Its variables are as of cell"


class Notebook:
    """A notebook that is open in a Jupyter server: its kernel, and a client."""

    def __init__(self, name):
        environment = dict(os.environ, JPY_SESSION_NAME=name)
        self.manager = KernelManager(kernel_name="python3-standfast")
        # As in a server, whose log this is, and which goes on writing to it.
        self.log = tempfile.TemporaryFile("a")
        self.manager.start_kernel(env=environment, stdout=self.log, stderr=self.log)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)
        self.is_open = True

    def run(self, cell):
        """Runs a cell. Returns its result, and what it has printed to standard error."""
        results, errors = [], []

        def hear(message):
            content = message["content"]
            if message["msg_type"] == "execute_result":
                results.append(content["data"]["text/plain"])
            elif message["msg_type"] == "error":
                results.append(content["ename"])
            elif message["msg_type"] == "stream" and content["name"] == "stderr":
                errors.append(content["text"])

        # A cell that comes while another one is being interrupted is not run.
        while self.client.execute_interactive(cell, timeout=SECONDS, output_hook=hear)["content"]["status"] == "aborted":
            pass
        return (results or [None])[0], "".join(errors).strip()

    def begin(self, cell, mark):
        """Begins a cell, and waits until it has made a file."""
        self.client.execute(f"open({str(mark)!r}, 'w').close()\n{cell}")
        end = time.monotonic() + SECONDS
        while not mark.exists():
            assert time.monotonic() < end, "the cell does not begin"
            time.sleep(0.01)

    def restart(self, now):
        """Restarts the kernel, as the user wants it, or as a server does when it has died (`now`)."""
        print("a line of the server", file=self.log, flush=True)
        self.manager.restart_kernel(now=now)
        self.client.wait_for_ready(timeout=SECONDS)

    def program(self):
        """Returns the process of the kernel."""
        return self.manager.provisioner._program()

    def close(self):
        """Shuts the kernel down."""
        if self.is_open:
            self.client.stop_channels()
            self.manager.shutdown_kernel()
            self.log.close()
        self.is_open = False


class Notebooks(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        variables = {
            "JUPYTER_DATA_DIR": str(self.place / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.place / "runtime"),
            "JUPYTER_PATH": str(self.place / "share/jupyter"),
        }
        changed = mock.patch.dict(os.environ, variables)
        changed.start()
        self.addCleanup(changed.stop)
        install = [sys.executable, "-m", "standfast.jupyter", "install", "--prefix", place.name]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)

    def open(self, name="walk.ipynb"):
        notebook = Notebook(name)
        self.addCleanup(notebook.close)
        return notebook

    def test_a_killed_kernel_goes_on_from_the_last_cell_that_had_ended(self):
        notebook = self.open()
        notebook.run("x = 1")
        self.assertEqual(notebook.run("x += 1\nx"), ("2", ""))
        notebook.begin("x += 100\nimport time\ntime.sleep(600)", self.place / "mark")
        os.kill(notebook.program(), signal.SIGKILL)
        while notebook.manager.is_alive():
            time.sleep(0.05)
        notebook.restart(now=True)
        result, said = notebook.run("x")
        self.assertEqual((result, said), ("2", f"{CONTINUED} [2]. Run [3] again. Cell [3] was interrupted."))
        self.assertEqual(notebook.run("x *= 10\nx"), ("20", ""), "it is said once")

    def test_an_interrupted_cell_ends_and_the_kernel_goes_on(self):
        notebook = self.open()
        notebook.run("x = 1")
        notebook.begin("import time\ntime.sleep(600)", self.place / "mark")
        notebook.manager.interrupt_kernel()
        self.assertEqual(notebook.run("x"), ("1", ""))

    def test_a_notebook_that_is_opened_again_has_its_variables_and_a_restarted_one_has_none(self):
        notebook = self.open()
        notebook.run("x = 7")
        notebook.close()
        notebook = self.open()
        self.assertEqual(notebook.run("x"), ("7", f"{CONTINUED} [1]."))
        notebook.restart(now=False)
        self.assertEqual(notebook.run("x"), ("NameError", ""))
        self.assertEqual(self.open("other.ipynb").run("x"), ("NameError", ""), "that is another notebook")

    def test_a_kernel_that_has_outlived_its_server_is_continued(self):
        notebook = self.open()
        notebook.run("x = 7")
        program = notebook.program()
        os.kill(notebook.manager.provisioner.process.pid, signal.SIGKILL)
        again = self.open()
        self.assertEqual(again.run("x"), ("7", f"{CONTINUED} [1]."))
        self.assertNotEqual(again.program(), program)

    def test_a_cell_without_a_checkpoint_says_so_once(self):
        cells = Cells(None, self.place / "cells")
        result = types.SimpleNamespace(
            info=types.SimpleNamespace(store_history=True, silent=False), execution_count=4
        )
        refused = standfast.Checkpoint(standfast.Outcome.NOT_TAKEN, None)
        said = io.StringIO()
        with mock.patch("standfast.checkpoint_here", return_value=refused), contextlib.redirect_stderr(said):
            cells.after(result)
            cells.after(result)
        self.assertEqual(said.getvalue().count("no checkpoint could be taken after cell [4]"), 1)


if __name__ == "__main__":
    unittest.main()
