"""dask-jobqueue's SLURMCluster: grows to two workers, computes, shrinks to none."""

import subprocess
import sys
import time

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def jobs():
    text = subprocess.run(["squeue", "-h", "-o", "%i"], check=True, capture_output=True, text=True)
    return text.stdout.split()


def until(what, good, seconds=90):
    end = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def main():
    cluster = SLURMCluster(
        cores=1,
        memory="1GB",
        walltime="00:05:00",
        interface="lo",
        local_directory=sys.argv[1],
        log_directory=sys.argv[1],
        job_extra_directives=["--comment='two words'"],
    )
    with cluster, Client(cluster) as client:
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=90)
        assert len(jobs()) == 2, jobs()
        assert client.submit(sum, range(100)).result(timeout=60) == 4950
        assert client.gather(client.map(lambda n: n * n, range(10))) == [n * n for n in range(10)]
        cluster.scale(jobs=1)
        until("one job is left", lambda: len(jobs()) == 1)
        cluster.scale(0)
        until("no job is left", lambda: not jobs())
    print("dask fine")


if __name__ == "__main__":
    main()
