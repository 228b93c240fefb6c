"""Servers in jobs: deaths are seen at once and leave nothing; two on a node do not meet."""

import re
from datetime import datetime

import pytest
from launching import cluster, element, left_behind, log, play, served, submitted, until, wait


def asked(out, **options):
    return play(out, model="openai:courier", model__timeout=60, model__retries=9, **options)


@pytest.mark.parametrize(
    ("faults", "code", "words"),
    [
        ("die_at=6,delay=0.3", 72, "the server died"),
        ("loading=60,die_at=4", 71, "the server died while loading"),
        ("loading=60", 73, "the server is not healthy in 8 s"),
        ("sick_after=9,delay=0.3", 74, "the server does not answer"),
    ],
)
def test_a_dead_server_ends_the_job(place, faults, code, words):
    site = cluster(server={"deadline": 8 if faults == "loading=60" else 60, "faults": faults})
    launch = submitted(place / "a", [served("play", asked(place / "run", steps=200))], site)
    assert wait(launch) == {"play": ["failed"]}
    failed = element(launch, "play")
    assert (failed.exit_code, failed.own.reason) == (code, words)
    text = log(launch, "play")
    assert f"{words}; the end of its log, " in text
    if code in (72, 74):
        assert "    serving at http://127.0.0.1:" in text
    told, ended = (when(re.search(rf"(.*) {part}", text)[1]) for part in (re.escape(words) + ";", "ended with"))
    assert (ended - told).total_seconds() < 30
    until(lambda: not left_behind(launch), 15)


def when(text):
    return datetime.strptime(text.strip(), "%Y-%m-%d %H:%M:%S")


def test_a_death_ends_the_job_within_half_a_minute(place):
    launch = submitted(
        place / "a",
        [served("play", asked(place / "run", steps=200))],
        cluster(server={"faults": "die_at=6,delay=0.3"}),
    )
    assert wait(launch) == {"play": ["failed"]}
    own = element(launch, "play").own
    started = when(re.search(r"(.*) the server starts on port", log(launch, "play"))[1])
    assert own.ended - started.timestamp() - 6 < 30


def test_servers_of_one_node_do_not_meet(place):
    """Twenty pairs of servers, each asked by its own client only."""
    tasks = [asked(place / f"s{number}", seeds=str(number), steps=1) for number in range(31)]
    launch = submitted(place / "a", [served("play", *tasks)], cluster(parallel=2, extra_directives=["--nodelist=n1"]))
    assert wait(launch, 600) == {"play": ["completed"] * 31}
    ports = [re.findall(r"starts on port (\d+)", log(launch, "play", number)) for number in range(31)]
    assert {len(tried) for tried in ports} == {1}
    until(lambda: not left_behind(launch), 15)


def test_nothing_is_left_after_a_good_end(place):
    launch = submitted(place / "a", [served("play", asked(place / "run", steps=3))])
    assert wait(launch) == {"play": ["completed"]}
    until(lambda: not left_behind(launch), 15)


@pytest.mark.parametrize("directive", ["--nodelist=n1"])
def test_a_cancelled_job_leaves_nothing(place, directive):
    from automem.launch import resubmit
    from automem.launch.status import look

    site = cluster(server={"faults": "delay=0.3"}, extra_directives=[directive])
    launch = submitted(place / "a", [served("play", asked(place / "run", steps=200))], site)
    until(lambda: "task 0 of 1" in (log(launch, "play") if element(launch, "play").own else ""))
    resubmit.stop(launch, look(launch))
    assert wait(launch) == {"play": ["cancelled"]}
    until(lambda: not left_behind(launch), 15)
