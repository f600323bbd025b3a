"""Installs the specification of the kernel: python3 -m standfast.jupyter install [--user|--prefix PREFIX]"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import tempfile

from standfast.jupyter.provisioner import PROVISIONER

NAME = "python3-standfast"
SPECIFICATION = {
    "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "display_name": f"Python {sys.version_info.major} (Standfast)",
    "language": "python",
    "metadata": {"debugger": False, "kernel_provisioner": {"provisioner_name": PROVISIONER}},
}


def main() -> None:
    """Reads the command line, and does what it says."""
    parser = argparse.ArgumentParser(prog="python3 -m standfast.jupyter", description="Jupyter kernels under Standfast")
    install = parser.add_subparsers(dest="action", required=True).add_parser("install", help="add the kernel to Jupyter")
    where = install.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user [default: for this Python]")
    where.add_argument("--prefix", help="for the Python installed there")
    arguments = parser.parse_args()
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        sys.exit("standfast: Jupyter is not installed for this Python\nhint: python3 -m pip install jupyterlab")
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "kernel.json").write_text(json.dumps(SPECIFICATION, indent=2))
        prefix = None if arguments.user else arguments.prefix or sys.prefix
        place = KernelSpecManager().install_kernel_spec(directory, NAME, user=arguments.user, prefix=prefix)
    print(f"the kernel {NAME} is in {place}")


if __name__ == "__main__":
    main()
