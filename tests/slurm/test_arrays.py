"""Arrays, dependencies, tables: the same as on one machine without Slurm."""

import json
import re
import subprocess

from launching import cluster, element, job, log, play, queue, run_here, states, submitted, traces, until, wait

EPISODES = 40


def jobs(out):
    folders = [out / f"play/s{seed}" for seed in range(EPISODES)]
    played = job("play", *(play(folder, str(seed)) for seed, folder in enumerate(folders)))
    first = job("first", play(out / "first", "100"))
    table = ("automem", "table", *map(str, folders), "--by", "seed", "--json")
    return (
        first,
        played.model_copy(update={"needs": ("first",)}),
        job("table", table, stage="aggregate", needs=("play",)),
    )


def rows(text):
    """A table, without the names of runs."""
    return [{key: value for key, value in row.items() if key != "run"} for row in json.loads(text)["rows"]]


def test_forty_episodes_give_the_table_of_a_local_run(place):
    launch = submitted(place / "a", jobs(place / "a"), cluster(parallel=4))
    assert states(launch)["table"] == ["pending"]
    assert wait(launch, 400) == {"first": ["completed"], "play": ["completed"] * EPISODES, "table": ["completed"]}
    # The queue takes 31 elements of an array, so that there are two.
    assert [len(s.elements) for s in launch.record.submissions if s.job == "play"] == [31, 9]
    command = play("here", f"0-{EPISODES - 1}")
    table = job("table", ("automem", "table", "here", "--by", "seed", "--json"), stage="aggregate", needs=("play",))
    here = run_here(place / "b", [job("play", command), table])
    there = rows(log(launch, "table", file="task-0.log"))
    assert there == rows(log(here, "table", file="task-0.log"))
    assert len(there) == EPISODES
    found = [traces(place / f"a/play/s{seed}") for seed in range(EPISODES)]
    assert {name: trace for each in found for name, trace in each.items()} == traces(place / "here")


def test_over_the_submit_limit_elements_have_several_tasks(place):
    tasks = [play(place / f"s{seed}", str(seed), steps=2) for seed in range(7)]
    launch = submitted(place / "a", [job("play", *tasks)], cluster(submit_limit=3))
    assert wait(launch) == {"play": ["completed"] * 3}
    assert all(traces(place / f"s{seed}") for seed in range(7))
    assert [len(re.findall("task [0-9]+ of 7", log(launch, "play", number))) for number in range(3)] == [3, 3, 1]


def test_a_failure_is_one_and_ends_what_needs_it(place):
    bad = job("bad", ("bash", "-c", "echo what went wrong; exit 9"), play(place / "fine", steps=2))
    after = job("after", play(place / "after"), needs=("bad",))
    table = job("table", ("echo", "all the same"), stage="aggregate", needs=("bad", "after"))
    launch = submitted(place / "a", [bad, after, table])
    assert wait(launch) == {"bad": ["failed", "completed"], "after": ["cancelled"], "table": ["completed"]}
    assert element(launch, "bad").exit_code == 9
    assert "task 0: exit code 9; the end of its log:\n    what went wrong\n" in log(launch, "bad")
    assert queue() == []


def test_a_script_can_be_submitted_by_hand(place):
    launch = submitted(place / "a", [job("play", play(place / "s", steps=2))])
    assert wait(launch) == {"play": ["completed"]}
    before = element(launch, "play").own
    subprocess.run(["sbatch", launch.job("play") / "job.sh"], check=True, cwd="/", timeout=30, capture_output=True)
    until(lambda: element(launch, "play").own.attempt == 2 and element(launch, "play").state == "completed")
    assert int(element(launch, "play").own.slurm_id) > int(before.slurm_id)
    assert log(launch, "play", attempt=1) != log(launch, "play", attempt=2)
