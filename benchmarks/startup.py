"""How long `automem --help` takes, and what `import automem` does not load."""

import resource
import subprocess
import sys
import time
from pathlib import Path

from common import table

HEAVY = ("torch", "transformers", "vllm", "openai", "gymnasium")
REPEATS = 5
AUTOMEM = str(Path(sys.executable).with_name("automem"))
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import automem": [sys.executable, "-c", "import automem"],
    "automem --help": [AUTOMEM, "--help"],
    "automem run --help": [AUTOMEM, "run", "--help"],
}


def children_cpu():
    """CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def quickest(command):
    """CPU and wall milliseconds of the quickest of several runs."""
    runs = []
    for _ in range(REPEATS):
        cpu, wall = children_cpu(), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        runs.append(((children_cpu() - cpu) * 1000, (time.perf_counter() - wall) * 1000))
    return min(runs)


def heavy_modules():
    """Those of HEAVY that are loaded after `import automem` and after the command line's own imports."""
    code = f"import automem, automem.cli.main, sys; print(*(m for m in {HEAVY} if m in sys.modules))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


if __name__ == "__main__":
    table("Start: ms", ("command", "CPU", "wall"), *((name, *quickest(command)) for name, command in COMMANDS.items()))
    loaded = heavy_modules()
    print(f"\n  Loaded by `import automem` and the command line, of {', '.join(HEAVY)}: {', '.join(loaded) or 'none'}.")
    sys.exit(bool(loaded))
