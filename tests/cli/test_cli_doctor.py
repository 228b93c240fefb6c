"""`automem doctor`: what it says of an environment that cannot be loaded, and of optional packages."""

import json


def test_an_environment_that_cannot_be_loaded_is_told_and_not_needed(automem, tmp_path):
    (tmp_path / "envs/broken").mkdir(parents=True)
    (tmp_path / "envs/broken/__init__.py").write_text("TASKS = ()\n")
    code, out, _ = automem("doctor")
    line = next(line for line in out.splitlines() if "environment broken" in line)
    assert code == 0
    assert line.startswith("-   ") and "None" not in line
    assert "ok  sandbox for logic.py: pydantic-monty runs" in out


def test_every_optional_package_is_looked_for(automem):
    looks = {look["what"]: look for look in json.loads(automem("doctor", "--json")[1])}
    packages = ("crafter", "nle", "minihack", "pyarrow", "torch", "transformers", "peft", "trl", "vllm")
    assert not any(looks[package]["needed"] for package in packages)
