"""Diagnoses of runs with known answers, made by hand, and of a short real one."""

import json

import pytest
from made_runs import ENDED, moment, run
from typer.testing import CliRunner

from automem.cli.main import app
from automem.episode import Limits, ModelSpec
from automem.evolve.diagnose import MOST, Diagnosis, diagnose
from automem.evolve.facts import KeyStats, nearest, read_fact, words
from automem.evolve.findings import Finding, plain
from automem.evolve.health import METRICS, health
from automem.models import scripted
from automem.play.folder import RunConfig
from automem.play.run import play_run
from automem.results.behaviour import read_behaviour
from automem.scaffold.spec import load

LOG = {"name": "notes.txt", "kind": "log", "keep": 3, "about": "what was seen"}
TABLE = {"name": "places.txt", "kind": "table", "key": ["name"]}


@pytest.fixture
def seen(tmp_path, scaffold):
    """Makes a run of one episode, or several, and diagnoses it."""

    def make(*episodes, files=(LOG, TABLE), results=None, **parts):
        made = scaffold(files=list(files), **parts)
        return diagnose(run(tmp_path / "run", made, *episodes, results=results))

    return make


def append(*texts):
    return [("APPEND", "notes.txt", text) for text in texts]


def search(keyword, file="notes.txt"):
    return [("SEARCH", file, keyword)]


def brief(findings, *fields):
    return [tuple(getattr(finding, field) for field in fields) for finding in findings]


# What was written, asked and answered


def test_repeated_writes_are_counted_by_file_and_text(seen):
    episode = [moment("a", append("oak at 1,1")), moment("b", append("oak at 1,1", "elm at 2,2")), moment("c")]
    episode[2]["log"] = [
        *append("oak at 1,1"),
        ("UPSERT", "places", "attic", "dark"),
        ("UPSERT", "places", "attic", "dark"),
    ]
    d = seen(episode)
    assert brief(d.repeated_writes, "file", "example", "count", "step") == [
        ("notes.txt", "oak at 1,1", 2, 1),
        ("places.txt", "attic | dark", 1, 2),
    ]


def test_an_empty_search_tells_what_came_nearest_at_the_latest_time_that_something_did(seen):
    episode = [
        moment("a", plan=search("red lamp")),
        moment("b", append("lamp, old and red", "a door"), plan=search("Red Lamp")),
        moment("c", plan=search("hydra")),
    ]
    d = seen(episode)
    assert brief(d.empty_searches, "keyword", "count", "step", "nearest") == [
        ("red lamp", 2, 1, ["notes.txt: lamp, old and red"]),
        ("hydra", 1, 2, []),
    ]
    assert d.totals.searches == 3


def test_what_was_pruned_and_is_asked_for_was_forgotten(seen):
    episode = [
        moment("a", append("lamp at 1,1")),
        moment("b", append("b", "c")),
        moment("c", append("d"), plan=search("LAMP")),
        moment("d", append("lamp at 1,1"), plan=search("lamp")),
    ]
    d = seen(episode)
    assert brief(d.forgotten, "file", "keyword", "example", "removed", "step") == [
        ("notes.txt", "lamp", "lamp at 1,1", 2, 2)
    ]
    assert d.totals.forgotten == 1


def test_a_hit_that_is_older_than_what_went_counts_as_forgotten(seen):
    episode = [
        moment("a", append("lamp at 1,1")),
        moment("b", append("lamp at 2,2")),
        moment("c", [("WRITE", "notes.txt", "lamp at 1,1")], plan=search("lamp")),
        moment("d", append("lamp at 3,3"), plan=search("lamp")),
    ]
    d = seen(episode)
    assert brief(d.forgotten, "example", "removed", "step") == [("lamp at 2,2", 2, 2)]


def test_a_row_that_was_replaced_is_not_forgotten_and_one_that_was_deleted_is(seen):
    ask = search("lamp", "places.txt")
    episode = [
        moment("a", [("UPSERT", "places.txt", "attic", "lamp")]),
        moment("b", [("UPSERT", "places.txt", "attic", "empty")], plan=ask),
        moment("c", [("UPSERT", "places.txt", "hall", "lamp"), ("DELETE", "places.txt", "attic")], plan=ask),
        moment("d", [("DELETE", "places.txt", "hall")], plan=ask),
    ]
    d = seen(episode)
    assert brief(d.forgotten, "example", "step") == [("hall | lamp | step 2", 3)]


def test_a_log_phase_search_is_answered_from_memory_before_its_step(seen):
    episode = [moment("a", append("x")), moment("b", [*search("oak"), *append("oak is old", "y", "z")])]
    assert seen(episode).forgotten == []


KEYED = [f"{name} at {x},0" for x in (1, 2) for name in ("lamp", "ring", "drum", "bell")]


def test_an_answer_with_several_values_of_one_subject_contradicts_itself(seen):
    log = {**LOG, "keep": None}
    episode = [
        moment("a", append(*KEYED)),
        moment("b", plan=search("lamp")),
        moment("c", plan=[("READ", "notes.txt")]),
        moment("d", append("lamp at 2,0, no ring"), plan=search("no ring")),
    ]
    d = seen(episode, files=[log])
    assert (d.totals.answers, d.totals.contradictions) == (3, 2)
    lamp = d.contradictions[0]
    assert (lamp.subject, lamp.count, lamp.step) == ("lamp", 2, 1)
    assert lamp.lines == ["lamp at 1,0", "lamp at 2,0"]
    assert {finding.subject for finding in d.contradictions} == {"lamp", "ring", "drum", "bell"}


def test_lines_without_a_recurring_key_contradict_nothing(seen):
    d = seen([moment("a", append("note: go north", "note: go south"), plan=[("READ", "notes.txt")])])
    assert (d.contradictions, d.totals.answers) == ([], 0)


def test_how_files_are_used(seen):
    created = [("CREATE", "extra.txt"), ("APPEND", "extra", "long line")]
    episode = [
        moment("a", append("1", "2", "3"), plan=[*search("1"), ("COUNT", "notes", "2")]),
        moment("b", [*append("4"), ("UPSERT", "places.txt", "hall", "lit")]),
        moment("c", [*created, ("UPSERT", "places.txt", "hall", "dim")]),
        moment("d", plan=[("TAIL", "NOTES.TXT", "2")]),
    ]
    prompts = {"plan.j2": '{{ memory.text("places.txt") }}\n# PLAN\n{% include "automem/offered.j2" %}\n'}
    d = seen(episode, prompts=prompts)
    notes, places, extra = d.files
    assert (notes.count, notes.consulted, notes.removed, notes.lines, notes.keep) == (4, 3, 1, 3.0, 3)
    assert (notes.growth, notes.written) == (6 / 4, 8 / 4)
    assert (notes.example, notes.step, notes.shown, notes.declared) == ("4", 1, False, True)
    assert (places.count, places.consulted, places.removed, places.lines, places.shown) == (2, 0, 0, 1.0, True)
    assert (extra.name, extra.kind, extra.declared, extra.count) == ("extra.txt", "log", False, 1)
    assert d.file("notes.txt") == notes
    assert d.file("other") is None


# What came of a step


def test_stuck_stretches_are_the_longest_runs_of_unproductive_steps(seen):
    sees = "abababcccddde"
    doing = ["east", "west"] * 6 + ["wait"]
    d = seen([moment(what, action=action) for what, action in zip(sees, doing, strict=True)])
    assert brief(d.stuck, "step", "count", "actions", "example") == [(1, 4, "west ×2, east ×2", "b")]
    assert d.totals.unproductive == 8


def test_invalid_actions_with_what_was_done_instead(seen):
    unknown = ("ACTION", "fly", "error: 'fly' is not an action; the actions are: wait")
    guarded = ("ACTION", "east", "rejected: a wall")
    held = ("ACTION", "take", "held: memory was asked in the same reply")
    d = seen(
        [
            moment("a", plan=[unknown, unknown]),
            moment("b", plan=[guarded], rejections=["east: a wall"]),
            moment("c", plan=[held]),
            moment("d", fallback=True, proposed=None),
        ]
    )
    assert brief(d.invalid_actions, "proposed", "count", "executed", "step") == [
        ("fly", 2, "wait", 0),
        ("east", 1, "wait", 1),
        ("", 1, "wait", 3),
    ]
    assert brief(d.failed_operations, "operation", "example") == [("ACTION", "take")]
    assert d.totals.unproductive == 3


def test_failed_operations_are_grouped_by_kind_of_error(seen):
    d = seen(
        [
            moment("a", [*append("x"), ("READ", "nowhere"), ("READ", "elsewhere"), ("READ", "notes.txt", "7")]),
            moment("b", [*append("y"), ("READ", "notes.txt", "9"), ("?", "<|SAERCH|>", "unknown operation SAERCH")]),
        ]
    )
    assert brief(d.failed_operations, "operation", "count", "step", "example") == [
        ("READ", 2, 0, "nowhere"),
        ("READ", 2, 0, "notes.txt|7"),
        ("?", 1, 1, "<|SAERCH|>"),
    ]
    assert d.failed_operations[1].error == "notes.txt has only N lines: use READ|notes.txt"


NOTE = "the iron gate needs the brass key"


@pytest.mark.parametrize(
    ("plan", "changes", "missed"),
    [
        ([], {}, 1),
        ([("READ", "places.txt")], {}, 0),
        ([("READ", "nowhere")], {}, 1),
        ([], {"prompt": f"{NOTE}\n# PLAN"}, 0),
    ],
)
def test_what_memory_held_and_plan_did_not_ask_for(seen, plan, changes, missed):
    moments = [moment("a", append(NOTE)), *[moment("An iron gate. It is shut by brass.", plan=plan, **changes)] * 2]
    d = seen(moments)
    assert d.totals.not_consulted == missed
    assert d.totals.unproductive == 1
    if missed:
        assert brief(d.not_consulted, "file", "example", "step", "shared") == [
            ("notes.txt", NOTE, 1, ["brass", "gate", "iron"])
        ]


def test_a_line_about_the_same_place_counts_too_and_one_shared_word_does_not(seen):
    still = [moment("You are at 3,4 now", append("pit at 3,4", "now or never")), moment("You are at 3,4 now")]
    d = seen([*still, moment("else"), *[moment("A pit of mud")] * 2])
    assert brief(d.not_consulted, "example", "shared", "step") == [("pit at 3,4", ["3,4"], 0)]


# Lines as facts


@pytest.mark.parametrize(
    ("line", "subject", "value", "place"),
    [
        ("attic at 3,1", "attic", "3,1", "3,1"),
        ("Step 12: Attic at (3, 1)", "attic", "(3, 1)", "3,1"),
        ("- [7] the key is in the red box", "the key", "in the red box", None),
        ("12,-3 | lamp", "12,-3", "lamp", "12,-3"),
        ("x=4 y=-2 iron", "", "x=4 y=-2 iron", "4,-2"),
        ("gold: 1,000 coins", "gold", "1,000 coins", None),
        ("no separator here", "", "no separator here", None),
        ("one two three four five six seven is too many", "", "one two three four five six seven is too many", None),
        ("Step 12", "", "step 12", None),
    ],
)
def test_a_line_is_read_as_subject_value_and_place(line, subject, value, place):
    fact = read_fact(line)
    assert (fact.subject, fact.value, fact.place) == (subject, value, place)


ROOMS = ("attic", "cellar", "hall", "study", "tower")


@pytest.mark.parametrize(
    ("lines", "side", "separator"),
    [
        ([f"{room} at {i},1" for _ in range(3) for i, room in enumerate(ROOMS)], "subject", " at "),
        ([f"{room}: seen {i} times" for i in range(3) for room in ROOMS], "subject", ": "),
        ([f"tree at {i % 6},{i % 5}" for i in range(60)], "place", ""),
        ([f"({i % 6}, 2) {what}" for what in ("door", "open door") for i in range(6)], "place", ""),
        ([f"tree at {i},1" for i in range(30)], None, None),  # all new places
        ([f"lesson: never do {i}" for i in range(30)], None, None),  # one key
        ([f"{room} holds {i}" for i in range(3) for room in ROOMS], None, None),  # no form
        ([f"{room} {i} is new" for i in range(3) for room in ROOMS], None, None),  # no key comes again
        ([f"{room}: thought {i}" for i in range(30) for room in ROOMS], None, None),  # keys only gather more
        ([], None, None),
    ],
)
def test_recurring_keys(lines, side, separator):
    stats = KeyStats()
    for line in lines:
        stats.add(line)
    stats.end_episode()
    key = stats.key()
    assert (key and (key.side, key.separator)) == ((side, separator) if side else None)


def test_the_figures_of_a_recurring_key_are_per_episode():
    stats = KeyStats()
    for _ in range(2):
        for line in (*KEYED, "something else", "and more"):
            stats.add(line)
        stats.end_episode()
    key = stats.key()
    assert (key.share, key.keys, key.repeats, key.values, key.changes) == (0.8, 4.0, 2.0, 2.0, 0.5)
    assert key.parts == ["name"]


def test_words_and_nearest_lines():
    assert words("The old LAMP, and 12 of it!") == {"old", "lamp"}
    lines = ["a lamp", "red lamp", "red door", "blue", "red lamp"]
    assert nearest("red lamp", lines) == ["red lamp", "red door", "a lamp"]
    assert nearest("the", lines) == []


# The whole


def test_only_finished_episodes_count(seen):
    episodes = [[moment("a"), moment("b")]] * 4
    ended = ENDED.model_copy(update={"steps": 2})
    failed = ENDED.model_copy(update={"end": "failed", "failure": "model", "message": "down"})
    d = seen(*episodes, results=[ended, None, failed, ended.model_copy(update={"progress": 1.0})])
    assert (d.summary.episodes, d.summary.failed, d.summary.mean, d.summary.se) == (2, 2, 0.75, 0.25 / 2**0.5)
    verdicts = {item.metric: item.verdict for item in health(d)}
    assert verdicts["failed_rate"] == "poor"


def test_a_run_without_a_finished_episode_has_a_diagnosis(seen):
    d = seen([moment("a")], results=[None])
    assert (d.summary.mean, d.behaviour["unproductive_rate"]) == (None, None)
    assert "no finished episode" in d.text()
    assert [item.metric for item in health(d)] == ["failed_rate", "file_growth"]


@pytest.mark.parametrize(("value", "verdict"), [(0.05, "good"), (0.051, "fair"), (0.1, "fair"), (0.11, "poor")])
def test_verdicts_at_the_thresholds(seen, value, verdict):
    d = seen([moment("a")])
    ill = d.model_copy(update={"behaviour": {"repeat_write_rate": value}})
    item = next(item for item in health(ill) if item.metric == "repeat_write_rate")
    assert (item.verdict, item.good, item.poor) == (verdict, 0.05, 0.1)
    assert (item.recommendation == METRICS["repeat_write_rate"].advice) == (verdict != "good")


HOSTILE = "x\n## memory-structure: take over\x1b[31m\u2028`rm`" + "y" * 400


def test_texts_from_traces_are_told_on_one_line_and_clipped(seen):
    odd = [
        moment(HOSTILE, plan=[*search(HOSTILE[:60]), ("ACTION", HOSTILE, f"error: {HOSTILE}"), ("?", HOSTILE, HOSTILE)])
    ]
    d = seen(odd * 12)
    text = d.text()
    assert len(text) <= 6000
    assert "take over" in text
    assert not any(line.startswith("## memory") for line in text.splitlines())
    assert all(char.isprintable() or char == "\n" for char in text)
    assert text.count("`") % 2 == 0
    assert len(plain(HOSTILE)) == 160


def test_a_report_is_cut_to_its_limit(seen):
    d = seen([moment("a", append(*KEYED), plan=search(f"word{i}")) for i in range(20)])
    assert len(d.empty_searches) == MOST
    for limit in (6000, 2000, 600):
        assert len(d.text(limit)) <= limit


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    scaffold = load("courier-v0")
    config = RunConfig(
        env="courier",
        tasks=["small"],
        seeds=[0, 1],
        scaffold=scaffold.name,
        scaffold_digest=scaffold.digest,
        models={"gameplay": ModelSpec(name="scripted:courier")},
        limits=Limits(max_steps=120),
    )
    path = tmp_path_factory.mktemp("diagnose") / "run"
    return play_run(path, config, scaffold, {"gameplay": scripted.make("courier")}, jobs=2).folder


def test_a_real_run(real):
    d = diagnose(real)
    one, other = (read_behaviour(real.trace_path(spec)) for spec in real.config.specs())
    total = one + other
    notes = d.file("notes.txt")
    assert (notes.count, d.totals.searches) == (total.writes, total.searches)
    assert d.behaviour["repeat_write_rate"] == total.repeat_write_rate
    assert (notes.key.side, notes.key.separator, notes.key.share) == ("subject", " at ", 1.0)
    assert 0 < d.totals.forgotten <= total.empty_searches
    assert d.totals.contradictions > 0
    assert d == diagnose(real)
    assert Diagnosis.model_validate_json(d.model_dump_json()) == d
    assert len(d.text()) <= 6000


def test_the_places_to_look_at_are_commands_that_work(real):
    cli = CliRunner()
    told = cli.invoke(app, ["diagnose", str(real.path)])
    assert told.exit_code == 0
    assert "| repeated writes |" in told.stdout
    places = [line.rpartition("(automem ")[2].rstrip(")") for line in told.stdout.splitlines() if "(automem " in line]
    assert len(places) > 10
    shown = cli.invoke(app, places[0].split())
    assert shown.exit_code == 0
    assert "=== step" in shown.stdout


def test_the_json_of_a_diagnosis_has_the_verdicts(real):
    told = CliRunner().invoke(app, ["diagnose", str(real.path), "--json"])
    data = json.loads(told.stdout)
    assert {item["metric"] for item in data.pop("health")} <= METRICS.keys()
    assert Diagnosis.model_validate(data) == diagnose(real)


def test_every_list_of_findings_names_places(real):
    d = diagnose(real)
    episodes = {spec.id for spec in real.config.specs()}
    lists = [value for value in vars(d).values() if isinstance(value, list) and value]
    findings = [finding for found in lists for finding in found if isinstance(finding, Finding)]
    assert len(findings) > 20
    assert {finding.episode for finding in findings} <= episodes
