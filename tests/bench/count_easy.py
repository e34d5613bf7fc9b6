#!/usr/bin/env python3
"""EASY backfill that only counts processors: what a user could write in an afternoon.

count_easy.py LOG.swf[.gz] PROCESSORS prints JSON: jobs, mean_wait, replay_seconds (wall)
and cpu_seconds, both after reading. Rows count with run > 0 and processors > 0 (requested,
else allocated); the limit is the requested time, else the run, and the run is cut there.
At each instant first ends, then submissions, then one pass.
"""
import gzip, heapq, json, sys, time
from bisect import insort


def read(path, processors):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as rows:
        fields = [row.split() for row in rows if row.strip() and not row.startswith(";")]
    jobs = []
    for f in (list(map(float, row)) for row in fields):
        run, need = int(f[3]), int(f[7] if f[7] > 0 else f[4])
        limit = int(f[8]) if f[8] > 0 else run
        if run > 0 and 0 < need <= processors:
            jobs.append((int(f[1]), need, limit, min(run, limit)))
    return sorted(jobs, key=lambda job: job[0])


def replay(jobs, free):
    ends, expected, queue, waits, next_job = [], [], [], 0, 0
    while ends or next_job < len(jobs):
        now = min(ends[0][0] if ends else jobs[next_job][0],
                  jobs[next_job][0] if next_job < len(jobs) else ends[0][0])
        while ends and ends[0][0] == now:
            _, need, limit_end = heapq.heappop(ends)
            expected.remove((limit_end, need))
            free += need
        while next_job < len(jobs) and jobs[next_job][0] == now:
            queue.append(jobs[next_job])
            next_job += 1
        shadow, extra, left = None, 0, []
        for job in queue:
            submit, need, limit, run = job
            in_time = shadow is None or now + limit <= shadow
            if need <= free and (in_time or need <= extra):
                extra -= 0 if in_time else need
                free -= need
                waits += now - submit
                heapq.heappush(ends, (now + run, need, now + limit))
                insort(expected, (now + limit, need))
                continue
            left.append(job)
            if shadow is None:  # the head: when enough will have ended, and what is left then
                extra = free - need
                for end, freed in expected:
                    if shadow is not None and end > shadow:
                        break
                    extra += freed
                    shadow = end if extra >= 0 and shadow is None else shadow
        queue = left
    return waits


jobs = read(sys.argv[1], int(sys.argv[2]))
wall, cpu = time.perf_counter(), time.process_time()
waits = replay(jobs, int(sys.argv[2]))
print(json.dumps({"jobs": len(jobs), "mean_wait": waits / len(jobs),
                  "replay_seconds": time.perf_counter() - wall,
                  "cpu_seconds": time.process_time() - cpu}))
