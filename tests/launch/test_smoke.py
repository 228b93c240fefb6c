"""The experiment `smoke`, whole: every stage is played, and loop 2 trains."""

import pytest

from automem.train.ledger import Ledger

pytestmark = pytest.mark.slow


def test_every_stage_on_this_machine(automem, tmp_path):
    pytest.importorskip("trl")
    code, _, err = automem("launch", "smoke", "--on", "local", "-o", "smoke")
    assert code == 0, err
    code, out, err = automem("table", "smoke", "--paper", "--check")
    assert code == 0, out + err
    (row,) = Ledger(tmp_path / "smoke/train/short-pocket").rows
    assert row.rows > 0 and row.trained.supervised_tokens > 0
    assert (len(row.after), len(row.report)) == (4, 4)
    again = automem("launch", "smoke", "--on", "local", "-o", "smoke")
    assert again[0] == 0 and "train: 1 of 1" not in again[2]
