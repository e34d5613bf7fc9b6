"""What people do with submitit, against the cluster whose commands come first in PATH:
submit, an array, cancel, an error in a job, and a checkpoint with requeue on a signal."""

import os
import sys
import time
from pathlib import Path

import submitit

FOLDER = Path(sys.argv[1])


def executor(**extra):
    made = submitit.AutoExecutor(folder=FOLDER / "%j", cluster="slurm")
    made.update_parameters(timeout_min=5, cpus_per_task=1, mem_gb=1, **extra)
    return made


def until(what, good, seconds=60):
    end = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def add(a, b):
    return a + b


def fail():
    raise ValueError("on purpose")


def place():
    env = submitit.JobEnvironment()
    return env.job_id, env.global_rank, env.num_tasks, env.num_nodes


def nap(seconds):
    time.sleep(seconds)


class Counter(submitit.helpers.Checkpointable):
    """Counts how often it was started; the first time it waits to be told to go on."""

    def __init__(self):
        self.starts = 0

    def __call__(self, marker):
        self.starts += 1
        if self.starts == 1:
            Path(marker).touch()
            time.sleep(120)
        return self.starts


def one_job():
    job = executor(name="one").submit(add, 2, 3)
    assert job.result() == 5
    until("it is COMPLETED", lambda: job.state == "COMPLETED")


def an_error():
    job = executor(name="error").submit(fail)
    assert "on purpose" in str(job.exception())


def an_array():
    jobs = executor(name="array", slurm_array_parallelism=2).map_array(add, range(6), range(6))
    assert [job.result() for job in jobs] == [0, 2, 4, 6, 8, 10]
    assert len({job.job_id for job in jobs}) == 6, [job.job_id for job in jobs]
    assert all(job.job_id.split("_")[0] == jobs[0].job_id.split("_")[0] for job in jobs)


def several_tasks():
    job = executor(name="tasks", tasks_per_node=2, nodes=2).submit(place)
    places = job.results()
    assert [p[1:] for p in places] == [(rank, 4, 2) for rank in range(4)], places
    assert {p[0] for p in places} == {job.job_id}, places


def a_cancelled_job():
    job = executor(name="cancelled").submit(nap, 300)
    until("it runs", lambda: job.state == "RUNNING")
    job.cancel()
    until("it is gone", lambda: job.state.startswith("CANCELLED"))


def a_checkpoint():
    marker = FOLDER / "first"
    job = executor(name="checkpoint").submit(Counter(), str(marker))
    until("the first start", marker.exists)
    job._interrupt(timeout=False)
    assert job.result() == 2


for scenario in (one_job, an_error, an_array, several_tasks, a_cancelled_job, a_checkpoint):
    scenario()
    print(scenario.__name__, "fine", flush=True)
