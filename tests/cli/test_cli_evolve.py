"""`automem evolve`: its options are all used or refused, and an evolve folder knows what it was made with."""

import json
import shutil

import pytest
from asking import fault

EVOLVE = ("evolve", "courier/small", "--from", "courier-v0", "-m", "scripted:courier")
SEEDS = ("--gate-seeds", "0-1", "--report-seeds", "9", "--gate", "mean", "--max-steps", "4", "--revisions", "1")
OPENAI = ("--proposer", "openai", "--proposer-model", "meta", "--proposer-base-url", "http://localhost:1/v1")
COMMAND = ("--proposer", "command", "--proposer-command")


def config(automem, *more):
    """What `evolve.json` would say."""
    code, out, _ = automem(*EVOLVE, *SEEDS, *more, "--dry-run")
    assert code == 0
    return json.loads(out)


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        (("--proposer", "openai"), "--proposer openai needs --proposer-model", ""),
        (("--proposer", "command"), "--proposer command needs --proposer-command", ""),
        (("--proposer", "recorded"), "--proposer recorded needs --proposals", ""),
        (("--proposer-model", "m"), "--proposer-model is for --proposer openai, not for rules", ""),
        (("--proposer-base-url", "http://x/v1"), "--proposer-base-url is for --proposer openai, not for rules", ""),
        (("--proposals", "shelf"), "--proposals is for --proposer recorded, not for rules", ""),
        ((*OPENAI, "--proposer-command", "x"), "--proposer-command is for --proposer command, not for openai", ""),
        (("-s", "proposer.seconds=9"), "-s proposer.seconds: rules has no settings", ""),
        ((*COMMAND, "x", "-s", "proposer.seconds=abc"), "-s proposer: seconds: input should be a valid number", ""),
        (
            (*COMMAND, "x", "-s", "proposer.second=1"),
            "-s proposer: second: unknown key 'second'",
            "did you mean 'seconds'?",
        ),
        ((*OPENAI, "-s", "proposer.turn=1"), "-s proposer: turn: unknown key 'turn'", "did you mean 'turns'?"),
        ((*OPENAI, "-s", "proposer.max_token=1"), "unknown key 'max_token'", "'max_tokens'?"),
    ],
)
def test_options_of_proposers_are_used_or_refused(automem, options, error, hint):
    first, rest = fault(automem(*EVOLVE, *SEEDS, *options))
    assert error in first
    assert hint in rest


@pytest.mark.parametrize("option", ["--gate-seeds", "--report-seeds"])
def test_wrong_seeds_name_their_option(automem, option):
    assert fault(automem(*EVOLVE, *SEEDS, option, "5-2"))[0] == f"error: {option} '5-2': the range 5-2 runs backwards"


def test_the_config_says_who_proposes(automem):
    rules = config(automem)
    assert (rules["proposer"], rules["proposer_settings"]) == ("rules", {})
    agentic = config(automem, *OPENAI, "-s", "proposer.turns=7", "-s", "proposer.temperature=0")
    assert agentic["proposer"] == "openai:meta"
    told = agentic["proposer_settings"]
    assert (told["turns"], told["temperature"], told["max_tokens"]) == (7, 0, 16_384)
    assert not {"base_url", "api_key_env"} & set(told)


def test_of_a_command_only_the_program_is_told(automem):
    first = config(automem, *COMMAND, "/opt/agent --key SECRET {prompt}")
    other = config(automem, *COMMAND, "/opt/agent --key OTHER {prompt}")
    assert first["proposer"] == other["proposer"] == "command:agent"
    assert first["proposer_settings"] != other["proposer_settings"]
    assert "SECRET" not in json.dumps(first)


def test_another_proposer_does_not_go_on(automem, tmp_path):
    (tmp_path / "shelf").mkdir()
    shutil.copytree(tmp_path / "shelf", tmp_path / "other")
    for shelf in ("shelf", "other"):
        automem("scaffold", "new", "mine", "--from", "courier-v1", "--in", shelf)
    recorded = ("--proposer", "recorded", "--proposals")
    assert automem(*EVOLVE, *SEEDS, *recorded, "shelf", "-o", "out")[0] == 0
    first, _ = fault(automem(*EVOLVE, *SEEDS, *recorded, "other", "-o", "out"))
    assert "proposer: recorded:shelf there, recorded:other here" in first
    assert automem(*EVOLVE, *SEEDS, *recorded, "shelf", "-o", "out")[0] == 0


def test_the_proposer_is_closed(automem, monkeypatch):
    from automem.evolve.rules import RulesProposer

    closed = []
    monkeypatch.setattr(RulesProposer, "close", lambda self: closed.append(self.name))
    config(automem)
    fault(automem(*EVOLVE, *SEEDS, "--report-seeds", "0"))
    assert closed == ["rules", "rules"]
