"""The experiment `smoke` on the real scheduler, by the commands of its README."""

from pathlib import Path

from automem.train.ledger import Ledger

CLUSTER = Path(__file__).parents[2] / "slurm/clusters/ci.yaml"


def test_every_stage_in_jobs(automem, place):
    code, _, err = automem("launch", "smoke", "--on", "slurm", "--cluster", CLUSTER, "-o", "smoke")
    assert code == 0, err
    code, out, _ = automem("job", "watch", "smoke", "--exit-when-done")
    assert code == 0, out
    code, out, err = automem("table", "smoke", "--paper", "--check")
    assert code == 0, out + err
    (row,) = Ledger(place / "smoke/train/short-pocket").rows
    assert row.rows > 0 and row.trained.supervised_tokens > 0
