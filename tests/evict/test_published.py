"""The published numbers: what is claimed follows from the tables, as they are written down."""

from pathlib import Path

import pytest
import yaml

from automem.evict.bench import FIXED, LEARNED

FILE = Path(__file__).parents[2] / "experiments" / "lre" / "expected.yaml"
PUBLISHED = yaml.safe_load(FILE.read_text(encoding="utf-8"))
APPWORLD, RANKING, ANSWERS = PUBLISHED["appworld"], PUBLISHED["ranking"], PUBLISHED["answers"]
POLICIES, PEAK = APPWORLD["policies"], APPWORLD["max_peak"]


def recovery(data):
    """How much of the supervised lead over chance is there without annotation."""
    return (RANKING[data]["self"] - 0.5) / (RANKING[data]["supervised"] - 0.5)


DERIVED = {
    "easy_over_full": POLICIES["lre"]["easy"] / POLICIES["full"]["easy"],
    "tgc_of_full": POLICIES["lre"]["tgc"] / POLICIES["full"]["tgc"],
    "max_peak_under_acon": 1 - PEAK["lre"] / PEAK["acon"],
    "max_peak_under_full": 1 - PEAK["lre"] / PEAK["full"],
    "mean_peak_under_full": 1 - POLICIES["lre"]["peak"] / POLICIES["full"]["peak"],
    "recovery_longmemeval": recovery("longmemeval"),
    "recovery_locomo": recovery("locomo"),
    "tokens_under_full_locomo": 1 - ANSWERS["locomo"]["supervised"]["context"] / ANSWERS["locomo"]["full"]["context"],
    "f1_under_full_locomo": ANSWERS["locomo"]["full"]["score"] - ANSWERS["locomo"]["supervised"]["score"],
}


def test_every_claim_is_derived():
    assert set(PUBLISHED["claims"]) == set(DERIVED)


@pytest.mark.parametrize("claim", DERIVED)
def test_a_claim_follows_from_the_tables(claim):
    written = PUBLISHED["claims"][claim]["value"]
    digits = len(str(written).partition(".")[2])
    assert DERIVED[claim] == pytest.approx(written, abs=0.6 * 10**-digits)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_levels_make_the_whole(policy):
    row, tasks = POLICIES[policy], APPWORLD["tasks"]
    assert sum(tasks.values()) == 168
    solved = sum(row[level] * count / 100 for level, count in tasks.items())
    assert solved == pytest.approx(row["tgc"] * 168 / 100, abs=0.15)
    assert all(abs(row[level] * n / 100 - round(row[level] * n / 100)) < 0.04 for level, n in tasks.items())


def test_the_bench_has_the_published_scorers():
    for data in ("longmemeval", "locomo"):
        assert {*FIXED, *LEARNED} <= set(RANKING[data])


def test_every_table_names_its_source():
    tables = [value for value in PUBLISHED.values() if isinstance(value, dict) and "claims" not in value]
    assert all("2606.20954" in table["source"] for table in tables if "setting" in table)
    assert all(claim["source"] for claim in PUBLISHED["claims"].values())
