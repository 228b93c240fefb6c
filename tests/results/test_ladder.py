from handmade import call, ended, failed, op, play, run, write

from automem.results.ladder import ladder, to_markdown


def scored(path, values):
    return run(path, {seed: ended(value) for seed, value in enumerate(values)})


def test_a_gain_is_the_paired_difference_to_the_run_before(tmp_path):
    none = scored(tmp_path / "a", [0.1, 0.2, 0.3, 0.4])
    some = scored(tmp_path / "b", [0.3, 0.4, 0.5, 0.6])
    more = scored(tmp_path / "c", [0.5, 0.4, 0.5, 0.8])
    first, second, third = ladder([("none", none), ("some", some), ("more", more)])
    assert first.gain is None
    assert (second.gain.n, round(second.gain.mean, 6), round(second.gain.low, 6)) == (4, 0.2, 0.2)
    assert round(third.gain.mean, 6) == 0.1
    assert third.gain.low <= 0.1 <= third.gain.high
    assert (first.name, round(first.row.mean, 6), first.row.n) == ("none", 0.25, 4)


def test_only_episodes_that_both_have_finished_are_pairs(tmp_path):
    before = run(tmp_path / "a", {0: ended(0.2), 1: ended(0.9), 2: None})
    after = run(tmp_path / "b", {0: ended(0.4), 1: None, 2: ended(0.1)})
    gain = ladder([("before", before), ("after", after)])[1].gain
    assert (gain.n, round(gain.mean, 6), gain.low) == (1, 0.2, None)


def test_the_page_tells_failures_behaviour_and_what_a_gain_is(tmp_path):
    made = run(tmp_path / "a", {0: None, 1: ended(0.5), 2: failed()})
    spec = made.config.specs()[0]
    made.trace_path(spec).unlink()
    log = call("log", op("SEARCH", "f", "x", hits=1), op("APPEND", "f", "x", changed=True, repeat=True), op("DONE"))
    write(made.trace_path(spec), play(["a", "b"], calls=[[log]]), ended(0.7, 1), spec)
    page = to_markdown(ladder([("one", made), ("two", scored(tmp_path / "b", [0.6, 0.9]))]))
    assert "| one | courier-v0 | 60.0 ± 7.1 | 2 (1 failed) | – | 1.00 | 100.0 |" in page
    assert "| two | courier-v0 | 75.0 ± 10.6 | 2 | +15.0 (-10.0 to +40.0) |" in page
    assert "90% interval" in page
