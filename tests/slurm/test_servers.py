"""Servers in jobs: deaths are seen at once and leave nothing; two on a node do not meet."""

import os
import re
import signal
import sys
import time
from datetime import datetime

import pytest
from launching import cluster, element, left_behind, log, play, served, steps, submitted, until, wait

from automem.launch import resubmit
from automem.launch.status import look


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
    site = cluster(server={"faults": "delay=0.3"})
    launch = submitted(place / "a", [served("play", asked(place / "run", steps=200))], site)
    until(lambda: steps(place / "run") > 3, 300)
    (server,) = [int(pid) for pid, command in left_behind(launch) if b"\0serve\0" in command]
    os.kill(server, signal.SIGKILL)
    died = time.time()
    assert wait(launch) == {"play": ["failed"]}
    own = element(launch, "play").own
    assert (own.exit_code, own.ended - died < 30) == (72, True)
    assert "    serving at http://127.0.0.1:" in log(launch, "play")
    until(lambda: not left_behind(launch), 15)


#: Asks the job's server, which must not have been asked by any other.
ASK = """
import contextlib, json, os, urllib.error, urllib.request as web
url = os.environ["AUTOMEM_RUN_BASE_URL"]
body = json.dumps({"model": "any", "messages": [{"role": "user", "content": "hello"}]}).encode()
with contextlib.suppress(urllib.error.HTTPError):  # the scripted model does not understand it
    web.urlopen(web.Request(url + "/chat/completions", body))
print(json.load(web.urlopen(url.removesuffix("/v1") + "/health"))["requests"])
"""


def test_servers_of_one_node_do_not_meet(place):
    """Twenty pairs of servers, each asked by its own client only."""
    tasks = [(sys.executable, "-c", ASK)] * 40
    site = cluster(parallel=4, extra_directives=["--nodelist=n1"])
    launch = submitted(place / "a", [served("play", *tasks)], site)
    assert wait(launch, 600) == {"play": ["completed"] * 40}
    assert [log(launch, "play", n, file=f"task-{n}.log") for n in range(40)] == ["1\n"] * 40
    assert {len(re.findall(r"starts on port \d+", log(launch, "play", number))) for number in range(40)} == {1}
    until(lambda: not left_behind(launch), 15)


def test_nothing_is_left_after_a_good_end(place):
    launch = submitted(place / "a", [served("play", asked(place / "run", steps=3))])
    assert wait(launch) == {"play": ["completed"]}
    until(lambda: not left_behind(launch), 15)


def test_a_cancelled_job_leaves_nothing(place):
    site = cluster(server={"faults": "delay=0.3"})
    launch = submitted(place / "a", [served("play", asked(place / "run", steps=200))], site)
    until(lambda: "task 0 of 1" in (log(launch, "play") if element(launch, "play").own else ""))
    resubmit.stop(launch, look(launch))
    assert wait(launch) == {"play": ["cancelled"]}
    until(lambda: not left_behind(launch), 15)
