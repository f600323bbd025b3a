"""Tests the wheel as a user gets it: the package and the command in a virtual environment. Standard library only."""

import importlib.metadata
import importlib.resources
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import standfast

PROGRAM = """
import os, pathlib, time, standfast
noise = bytearray(os.urandom(32 << 20))
kept = bytearray(b'kept')
with standfast.dead(noise):
    checkpoint = standfast.checkpoint_here()
print(checkpoint.outcome.name, checkpoint.generation, standfast.is_protected(), kept.decode(), flush=True)
pathlib.Path('waiting').touch()
while not pathlib.Path('gate').exists():
    time.sleep(0.001)
"""


def until(what, happens, seconds=60):
    """Waits until something happens."""
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            raise AssertionError(f"{what} has not come about within {seconds} s")
        time.sleep(0.005)


class TheWheel(unittest.TestCase):
    def test_without_standfast_all_calls_do_nothing(self):
        data = bytearray(100)
        with standfast.dead(data), standfast.disabled():
            self.assertEqual(standfast.checkpoint_here().outcome, standfast.Outcome.NOT_TAKEN)
        standfast.readonly(data)
        standfast.include(data)
        self.assertFalse(standfast.is_protected())
        self.assertIsNone(standfast.next_checkpoint())

    def test_buffers_with_holes_and_other_things_are_refused(self):
        with self.assertRaises(BufferError):
            standfast.exclude_dead(memoryview(bytearray(10))[::2])
        with self.assertRaises(TypeError):
            standfast.exclude_dead(17)

    def test_it_brings_type_hints_and_the_command(self):
        self.assertTrue(importlib.resources.files(standfast).joinpath("py.typed").is_file())
        answer = subprocess.run(["standfast", "--version"], capture_output=True, text=True, check=True)
        self.assertEqual(answer.stdout.split()[1], importlib.metadata.version("standfast"))
        self.assertTrue(pathlib.Path(sys.prefix, "bin", "standfast").is_file())

    def test_where_the_library_does_not_fit_the_error_says_what_it_needs(self):
        with tempfile.TemporaryDirectory() as place:
            package = pathlib.Path(place, "standfast")
            shutil.copytree(pathlib.Path(standfast.__file__).parent, package)
            library = bytearray((package / "libstandfast.so").read_bytes())
            library[18:20] = b"\xb7\x00"  # The processor of an ELF file: here 64-bit Arm.
            (package / "libstandfast.so").write_bytes(library)
            command = [sys.executable, "-c", "import standfast"]
            answer = subprocess.run(command, cwd=place, capture_output=True, text=True)
            wanted = "ImportError: standfast: libstandfast cannot be loaded here: .*\nhint: it needs "
            self.assertRegex(answer.stderr, wanted)

    def test_a_program_is_continued_from_a_checkpoint_without_what_is_dead(self):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            said = folder / "said"
            with said.open("w") as output:
                # For this option the library starts a thread, by functions that moved between glibc's libraries.
                options = ["-i", "off", "--free-memory", "-d", "job.standfast"]
                command = ["standfast", "run", *options, "--", sys.executable, "-c", PROGRAM]
                running = subprocess.Popen(command, cwd=folder, stdout=output)
            until("the program to wait", (folder / "waiting").exists)
            images = lambda: list((folder / "job.standfast").glob("*.image"))
            until("the checkpoint to be durable", images)
            self.assertLess(images()[0].stat().st_size, 24 << 20)
            lease = dict(line.split("=", 1) for line in (folder / "job.standfast/lease").read_text().splitlines())
            os.kill(int(lease["program"].split()[0]), signal.SIGKILL)
            running.wait()
            (folder / "gate").touch()
            subprocess.run(["standfast", "restart", "job.standfast"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(said.read_text(), "RESTARTED 1 True kept\n")


if __name__ == "__main__":
    unittest.main()
