"""Imports go one way, and what everybody pays for is light."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
HEAVY = ("torch", "transformers", "vllm", "openai", "gymnasium", "pydantic_monty")
_REPORT = f"print('loaded:', [name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
_TRY = "try:\n    main()\nfinally:\n    "
_HELP = f"sys.argv = ['automem', '--help']\nfrom automem.cli.main import main\n{_TRY}{_REPORT}"


def python(code):
    done = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr
    return done


def test_imports_go_one_way():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], capture_output=True, text=True, cwd=CHECKOUT)
    assert done.returncode == 0, done.stdout
    assert "1 kept, 0 broken" in done.stdout


@pytest.mark.parametrize("code", [f"import automem\n{_REPORT}", _HELP], ids=["import automem", "automem --help"])
def test_nothing_heavy_is_loaded(code):
    assert python(code).stderr == "loaded: []\n"


def test_the_check_for_heavy_modules_sees_them():
    assert python(f"import automem.env\n{_REPORT}").stderr == "loaded: ['gymnasium']\n"


def test_help_is_quick():
    times = []
    for _ in range(3):
        began = time.perf_counter()
        python(_HELP)
        times.append(time.perf_counter() - began)
    # Half a second is promised; the rest is for machines that are busy with other tests.
    assert min(times) < 2


def test_every_noun_is_there():
    python("import automem\nfor name in automem.__all__: getattr(automem, name)\nassert len(automem.__all__) > 15")
