"""What the machine tells: cores, and the processor time and memory of a process. Linux only, as is the benchmark."""

import os
import platform
from functools import partial
from pathlib import Path

CORES = sorted(os.sched_getaffinity(0))
SERVER, GENERATOR = CORES[0], CORES[-1]
"""The core that servers run on, and the one that the load comes from."""
_TICK = os.sysconf("SC_CLK_TCK")

on_server_core = partial(os.sched_setaffinity, 0, {SERVER})
"""For `preexec_fn`: the child runs on the servers' core."""


def on_generator_core() -> None:
    """From now on this process, and the generators that it starts, run on the other core."""
    os.sched_setaffinity(0, {GENERATOR})


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, with all its threads, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def memory_kib(pid: int, peak: bool = False) -> int:
    """Resident memory of a process, now or at its peak, in KiB."""
    wanted = "VmHWM:" if peak else "VmRSS:"
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(wanted):
            return int(line.split()[1])
    raise OSError(f"process {pid} has ended")


def busy() -> bool:
    """Whether others use this machine now."""
    return os.getloadavg()[0] > 0.5


def describe() -> str:
    """The machine in a line."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = names[0].partition(":")[2].strip() if names else platform.machine()
    return f"{len(CORES)} × {model}, Linux {platform.release()}, Python {platform.python_version()}"
