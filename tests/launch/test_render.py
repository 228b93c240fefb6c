"""Scripts: readable, clean, and with what was asked for, no more."""

import itertools
import shlex
from pathlib import Path

import pytest
from made import MODEL, bash_takes, cluster, directives, job, script, served, shellcheck

from automem.launch.cluster import load_cluster, shipped

KINDS = {
    "alone": {},
    "scripted": {"server": {"model": "scripted:courier"}},
    "vllm": {"server": {"model": MODEL}},
    "adapters": {"server": {"model": MODEL, "adapters": {"memory": "/runs/l2/best", "other": "/it's/here"}}},
}
SITES = {
    "bare": {"resources": {"cpu": {}}},
    "apptainer": {
        "resources": {"cpu": {"gpus": 2}},
        "setup": {"modules": ["cuda/12.8"], "commands": ["ulimit -n 65536"]},
        "container": {"kind": "apptainer", "image": "/images/vllm.sif", "mounts": ["/data"], "options": ["--cleanenv"]},
        "hub": {"home": "/scratch/hf"},
        "server": {"start": "vllm", "max_model_len": 32768, "args": ["--seed", "1"]},
    },
    "pyxis": {
        "resources": {"cpu": {"gpus": 4}},
        "container": {"kind": "pyxis", "image": "nvcr.io#nvidia/pytorch", "mounts": ["/a:/b"]},
        "server": {"start": "module"},
    },
    "endpoint": {"resources": {"cpu": {}}, "endpoint": {"url": "http://node7:8000/v1"}},
}
TASKS = (("automem", "run", "it's", "a $HOME", "-s", 'a="b c"', "ünï"), ("true",), ("false",))


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """Scripts of every stage, every kind of server on every kind of site."""
    folder = tmp_path_factory.mktemp("scripts")
    made = {}
    others = itertools.product(("loop1", "loop2", "aggregate"), ("alone", "adapters"), ("apptainer",))
    for stage, kind, site in (*itertools.product(("evaluate",), KINDS, SITES), *others):
        name = f"{stage}-{kind}-{site}"
        made[name] = folder / f"{name}.sh"
        made[name].write_text(script(job(name, TASKS, stage, **KINDS[kind]), cluster(**SITES[site])))
    return made


def test_all_are_shell_without_a_complaint(scripts):
    assert len(scripts) == 22
    for file in scripts.values():
        bash_takes(file.read_text())
    shellcheck(*scripts.values())


def test_the_library_is_without_a_complaint():
    root = Path(__file__).parents[1]
    shellcheck("-x", shipped() / "lib/job.sh", *sorted((root / "slurm").glob("*.sh")))


def test_commands_stand_there_as_they_are_run(scripts):
    for file in scripts.values():
        for number, words in enumerate(TASKS):
            assert f"    {number}) run {shlex.join(words)} ;;\n" in file.read_text()


def test_what_is_not_set_is_not_printed():
    assert directives(script(job(), cluster())) == [
        "--job-name=made.play",
        "--chdir=/home/me/work",
        "--output=/scratch/me/runs/made/jobs/play/logs/slurm-%j.out",
        "--open-mode=append",
        "--signal=B:USR2@90",
        "--requeue",
    ]


def test_what_is_set_is_printed():
    gpu = {"cpus": 8, "memory": "4G", "memory_as": "mem-per-cpu", "gpus": 2, "gpu_type": "a100", "time": "1-00:00:00"}
    site = cluster(
        partition="gpu",
        account="lab",
        qos="high",
        resources={"cpu": gpu},
        extra_directives=["--constraint=a100&nvlink", "--exclusive"],
        parallel=3,
        restarts=0,
        signal_lead=120,
    )
    assert directives(script(job(tasks=TASKS), site)) == [
        "--job-name=made.play",
        "--partition=gpu",
        "--account=lab",
        "--qos=high",
        "--time=1-00:00:00",
        "--cpus-per-task=8",
        "--mem-per-cpu=4G",
        "--gres=gpu:a100:2",
        "--array=0-2%3",
        "--chdir=/home/me/work",
        "--output=/scratch/me/runs/made/jobs/play/logs/slurm-%A_%a.out",
        "--open-mode=append",
        "--signal=B:USR2@120",
        "--no-requeue",
        "--constraint=a100&nvlink",
        "--exclusive",
    ]


@pytest.mark.parametrize(
    ("keys", "wanted", "unwanted"),
    [
        ({"gpus": 2, "gpus_as": "gpus-per-node"}, "--gpus-per-node=2", "--gres"),
        ({"gpus": 2}, "--gres=gpu:2", "--gpus-per-node"),
        ({"memory": "8G"}, "--mem=8G", "--mem-per-cpu"),
        ({"memory": "8G", "memory_as": "none"}, "--requeue", "--mem"),
    ],
)
def test_sites_ask_for_gpus_and_memory_in_their_way(keys, wanted, unwanted):
    found = directives(script(job(), cluster(resources={"cpu": keys})))
    assert wanted in found
    assert not any(line.startswith(unwanted) for line in found)


def test_each_part_of_a_long_array_has_its_own_tasks():
    many = job(tasks=[("play", str(n)) for n in range(25)])
    texts = [script(many, cluster(), 10, number) for number in range(3)]
    assert [d for text in texts for d in directives(text) if "--array" in d] == [
        "--array=0-9",
        "--array=0-9",
        "--array=0-4",
    ]
    assert [text.count(") run play ") for text in texts] == [10, 10, 5]
    assert "JOB_FIRST=20 JOB_PER=1 JOB_TASKS=25" in texts[2]
    assert "sbatch /scratch/me/runs/made/jobs/play/job-3.sh" in texts[2]


def serves(text):
    """The words of the command that serves, joined over its lines."""
    body = text.split("serve() {\n", 1)[1].split("\n}\n", 1)[0]
    return " ".join(body.replace("\\\n", " ").split())


def test_automem_serves_by_default():
    site = cluster(resources={"cpu": {"gpus": 4}}, models={MODEL: {"path": "/w/qwen", "max_model_len": 8192}})
    assert serves(script(served(adapters={"memory": "/runs/best"}), site)) == (
        "run automem serve /w/qwen --lora memory=/runs/best --tensor-parallel 4 --max-model-len 8192 --deadline 1800 "
        f'--host "$1" --port "$2" --log "$3" -- --served-model-name {MODEL} /w/qwen'
    )


def test_vllm_itself_gets_what_it_needs():
    site = cluster(
        resources={"cpu": {"gpus": 4}}, server={"start": "module", "tensor_parallel": 2, "args": ["--seed", "1"]}
    )
    assert serves(script(served(adapters={"memory": "/runs/best"}), site)) == (
        f"run python -m vllm.entrypoints.openai.api_server --model {MODEL} --served-model-name {MODEL} "
        '--tensor-parallel-size 2 --enable-prefix-caching --seed 1 --host "$1" --port "$2" --enable-lora --max-loras 1 '
        '--max-lora-rank "$(lora_rank /runs/best)" --lora-modules memory=/runs/best'
    )
    assert "--enable-lora" not in script(served(), site)


def test_a_stand_in_is_served_by_us_with_its_faults():
    text = script(served("scripted:courier"), cluster(server={"faults": "die_at=3"}))
    assert serves(text) == 'run automem serve scripted:courier --faults die_at=3 --host "$1" --port "$2"'


def test_an_endpoint_is_used_where_there_is_one(scripts):
    text = scripts["evaluate-vllm-endpoint"].read_text()
    assert "export ENDPOINT=http://node7:8000/v1\n" in text
    assert "serve()" not in text
    # Adapters are ours alone: nobody else serves them.
    assert "serve()" in scripts["evaluate-adapters-endpoint"].read_text()
    assert "ENDPOINT" not in scripts["evaluate-alone-endpoint"].read_text()


def test_loop2_serves_and_trains_by_turns():
    site = cluster(resources={"cpu": {"gpus": 8}})
    text = script(served(stage="loop2"), site)
    assert "export AUTOMEM_TRAIN_SERVE=vllm\n" in text
    assert "serve()" not in text
    there = script(served(stage="loop2"), cluster(endpoint={"url": "http://node7:8000/v1"}))
    assert "AUTOMEM_TRAIN_SERVE" not in there
    assert "export ENDPOINT=http://node7:8000/v1\n" in there
    assert "serve()" in script(served("scripted:courier", stage="loop2"), site)


def test_containers_wrap_commands_and_server(scripts):
    text = scripts["evaluate-vllm-apptainer"].read_text()
    wrap = (
        "apptainer exec --nv --cleanenv --bind /home/me/work --bind /scratch/me/runs/made --bind /data /images/vllm.sif"
    )
    assert f'run() {{ become {wrap} "$@"; }}\n' in text
    text = scripts["evaluate-vllm-pyxis"].read_text()
    assert "run() { become srun --overlap --ntasks=1 '--container-image=nvcr.io#nvidia/pytorch' " in text
    assert "/scratch/me/runs/made:/scratch/me/runs/made,/a:/b" in text
    assert 'run() { become "$@"; }\n' in scripts["evaluate-vllm-bare"].read_text()


def test_offline_where_there_is_a_cache(scripts):
    assert "export HF_HUB_OFFLINE=1" in scripts["evaluate-vllm-apptainer"].read_text()
    assert "OFFLINE" not in scripts["evaluate-vllm-bare"].read_text()


@pytest.mark.parametrize("name", ["ci", "example", "local"])
def test_shipped_clusters_make_clean_scripts(name, tmp_path):
    file = tmp_path / "job.sh"
    file.write_text(script(served(resources="serve"), load_cluster(name)))
    shellcheck(file)
