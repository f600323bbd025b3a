"""Notebooks whose variables survive: kernels of Jupyter that run under Standfast, with a checkpoint after each cell.

    python3 -m standfast.jupyter install     # once: adds the kernel "Python 3 (Standfast)"

A notebook with this kernel is continued where the last cell that had ended left it: after a crash of the kernel, of the Jupyter
server or of the machine, and also when the kernel was shut down and the notebook is opened again. "Restart kernel" begins with
nothing, as always. The next cell that runs says from where the kernel was continued, and which cells have to run again.

    provisioner.py   starts a kernel, or continues it, in the place of Jupyter's own provisioner
    cells.py         takes the checkpoints, within the kernel
    __main__.py      installs the kernel's specification
"""
