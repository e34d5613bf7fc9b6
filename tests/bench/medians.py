#!/usr/bin/env python3
"""medians.py DIR: the table of what planner.sh has measured, one line for each log."""
import json
import pathlib
import statistics
import sys


def rounds(folder, log, program):
    """Results and times (wall, CPU of the whole command) of all rounds."""
    for file in folder.glob(f"{log}={program}=*.json"):
        wall, user, system = map(float, file.with_suffix(".time").read_text().split())
        yield json.loads(file.read_text()) | {"wall": wall, "cpu": user + system}


def line(folder, log):
    cosy, count = list(rounds(folder, log, "cosy")), list(rounds(folder, log, "count"))
    cells = [log, cosy[0]["jobs"]]
    for key in ("replay_seconds", "wall", "cpu"):
        ours, theirs = (statistics.median(r[key] for r in runs) for runs in (cosy, count))
        least = min(r[key] for r in cosy)
        cells.append(f"{ours * 1000:.1f} ({least * 1000:.1f}) ms, {theirs * 1000:.1f} ms, {theirs / ours:.1f}")
    rate = statistics.median(r["jobs_per_second"] for r in cosy)
    same = abs(cosy[0]["mean_wait"] - count[0]["mean_wait"]) < 0.001
    cells += [f"{rate:.0f}", f"{cosy[0]['mean_wait']:.3f} s, {'the same' if same else 'NOT the same'}"]
    print("| " + " | ".join(map(str, cells)) + " |")


folder = pathlib.Path(sys.argv[1])
print("Each cell: cosy-sim's median (least), the Python counter's median, their ratio.\n")
print("| log | jobs | replay alone | whole command | its CPU | jobs/s | mean wait |")
print("|---|---|---|---|---|---|---|")
for log in sorted({file.name.split("=")[0] for file in folder.glob("*.json")}):
    line(folder, log)
