"""`automem scaffold check`: what works goes to stdout, what does not to stderr, with a hint."""

import json

from asking import fault


def test_what_works_and_what_does_not(automem, scaffold_folder):
    broken = scaffold_folder(prompts={"plan.j2": "# PLAN\nGo.\n{{ observatoin }}\n"})
    code, out, err = automem("scaffold", "check", "courier-v1", broken)
    assert code == 1
    assert out.startswith("courier-v1: ok, log and plan on courier/")
    assert err.startswith(f"error: {broken}: ") and "observatoin" in err
    assert len(out.splitlines()) == 1


def test_an_unknown_scaffold_is_a_matter_of_usage(automem):
    first, hint = fault(automem("scaffold", "check", "courier-v9"))
    assert "unknown scaffold 'courier-v9'" in first
    assert hint.startswith("hint: did you mean 'courier-v")


def test_a_scaffold_that_does_not_load_is_too(automem, scaffold_folder):
    first, hint = fault(automem("scaffold", "check", scaffold_folder(budget={"log_round": 3})))
    assert "unknown key 'log_round'" in first
    assert hint == "hint: did you mean 'log_rounds'?"


def test_all_as_json(automem, scaffold_folder):
    headless = scaffold_folder(prompts={"log.j2": "Write."})
    code, out, err = automem("scaffold", "check", "courier-v1", headless, "nope", "--json")
    assert (code, err) == (2, "")
    good, bad, unknown = json.loads(out)
    assert (good["name"], good["exit_code"], good["hint"]) == ("courier-v1", 0, None)
    assert bad["exit_code"] == 1 and "no line '# LOG'" in bad["what"] and bad["hint"]
    assert unknown["exit_code"] == 2
