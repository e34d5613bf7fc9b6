#!/usr/bin/env python3
"""Makes what a release leaves behind, for every later one to read:

    tests/tools/make-state.py PROGRAMS tests/fixtures/state-RELEASE-schema-N
    tests/tools/make-state.py --show PROGRAMS FIXTURE

PROGRAMS is the folder with that release's cosyd, noded and cosy. The first starts six nodes on this
machine, has jobs, reservations, workflows and triggers in every state that commands can bring about,
and keeps

    cosy.db       the controller's database in the middle of all that
    spool-nN/     what node N keeps of its attempts at that moment, two of which end meanwhile
    date          the date then, in seconds
    shown.txt     what the commands of that release show of the database

The second opens a copy of the database with these programs and prints what they show of it; no node
is there, and the date is that of the fixture. tests/tests/state.rs compares the two, and so do tests
beside the store and the spool with every row and every record.

Wants root (jobs of three users), a C compiler and Linux on x86-64, where the date of single processes
is moved by changing the kernel's page of clocks in their memory. Exits with 77 where it cannot be had.
"""

import calendar
import contextlib
import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

COMMANDS = (
    "cosy csub cstat cresv ccancel chist cadm calloc sacct sacctmgr salloc sbatch scancel "
    "scontrol sinfo squeue srun strigger"
).split()
# Paths are part of rows: they are the same wherever the fixture is made.
HOME = pathlib.Path("/tmp/cosy-state")
USERS = {"ann": 54321, "bob": 54322, "cat": 54323}
GROUP = 54300
NODES = 6
PATIENCE = 120
CANNOT = 77
# Jobs that end while there is no controller.
ENDING = ["ends", "ends_too"]
# Of the machine, or of the run of it: put in the place of its own.
BOOT = "00000000-1111-4222-8333-444444444444"

LOOKUP = """#!/bin/sh
case $1 in
0|root) echo root:0:0:/root:/bin/sh:0=root;;
54321|ann) echo ann:54321:54300:/tmp:/bin/sh:54300=users;;
54322|bob) echo bob:54322:54300:/tmp:/bin/sh:54300=users;;
54323|cat) echo cat:54323:54300:/tmp:/bin/sh:54300=users,54303=guests;;
*) exit 2;;
esac
"""

CONTROLLER = """
[cluster]
name = "kept"
admins = ["cat"]
[controller]
state_dir = "{dir}/state"
socket = "{dir}/cosyd.sock"
listen = "127.0.0.1:0"
[policy]
heartbeat = "2s"
node_timeout = "10m"
self_fencing = false
grace = "1s"
keep_ended = "1d"
visibility = "everything"
interactive_per_user = 0
mail_command = ["/bin/true"]
[licenses]
matlab = 5
fluent = 2
[users]
lookup_command = ["{dir}/lookup"]
[reservations]
all_of = []
hold = "2d"
holds = 9
rehold = "off"
no_show = "off"
[reservations.per_user]
open = 99
share = "off"
longest = "off"
ahead = "off"
[account.common]
budget = 5000
[account.physics]
members = ["ann", "@guests"]
budget = 800
[[node_set]]
name = "fast"
nodes = "n[1-2]"
[[queue]]
name = "main"
default = true
default_time = "6h"
nodes = "n[1-5]"
[[queue]]
name = "short"
priority = 50
max_time = "1h"
nodes = "n[1-5]"
[[queue]]
name = "night"
nodes = "n[3-4]"
state = "stopped"
[queue.access]
users = {{ bob = "defer" }}
groups = {{ guests = "prefer" }}
[[queue]]
name = "spare"
nodes = "n6"
"""

NODE = """
allow_root = true
listen = "127.0.0.1:0"
cgroup = "none"
cores = 8
memory = "8G"
disk = "10G"
prolog = ["{dir}/prolog"]
hook_timeout = "10m"
"""

FLOW = """
[workflow]
name = "night"
comment = "größer"
overrun = "replan"
early = true
[defaults]
estimate = "20m"
[tasks.first]
run = "exit 0"
estimate = "1s"
[tasks.left]
run = "exec {dir}/stay"
after = "first"
retries = 2
[tasks.right]
command = ["{dir}/stay"]
after = [{{ task = "first", data = "1M" }}]
[tasks.last]
run = "exit 0"
nodes = 2
after = ["left", "right"]
"""

CLOCK = r"""
#define _GNU_SOURCE
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long ahead;

static int shifted(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead;
    return failed;
}

__attribute__((constructor)) static void begin(void) {
    const char *seconds = getenv("TEST_CLOCK");
    char *page = (char *)getauxval(AT_SYSINFO_EHDR);
    if (!seconds || !page) return;
    ahead = atoll(seconds);
    Elf64_Ehdr *head = (Elf64_Ehdr *)page;
    Elf64_Phdr *parts = (Elf64_Phdr *)(page + head->e_phoff);
    Elf64_Dyn *dynamic = 0;
    for (int n = 0; n < head->e_phnum; n++)
        if (parts[n].p_type == PT_DYNAMIC) dynamic = (Elf64_Dyn *)(page + parts[n].p_offset);
    Elf64_Sym *symbols = 0;
    char *names = 0;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = (Elf64_Sym *)(page + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_STRTAB) names = page + dynamic->d_un.d_ptr;
    }
    /* The names stand behind the symbols. */
    for (Elf64_Sym *s = symbols; s && (char *)(s + 1) <= names; s++) {
        if (strcmp(names + s->st_name, "__vdso_clock_gettime")) continue;
        unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
        void *to = (void *)shifted;
        memcpy(jump + 2, &to, 8);
        char *at = page + s->st_value;
        char *from = (char *)((size_t)at & ~4095ul);
        if (mprotect(from, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) &&
            mprotect(from, 4096, PROT_READ | PROT_WRITE | PROT_EXEC)) return;
        memcpy(at, jump, sizeof jump);
    }
}
"""


def now():
    return int(time.time())


class Cluster:
    """Daemons in a folder; nothing of them is left when it is closed."""

    def __init__(self, programs, folder, clock=None):
        self.dir = folder
        self.daemons = {}
        self.clock = clock or {}
        # Its other end closes with this process, however that ends.
        self.lifeline, self.lifeline_end = os.pipe()
        (folder / "bin").mkdir()
        (folder / "state").mkdir()
        for name in ["cosy", "cosyd", "noded"]:
            shutil.copy(pathlib.Path(programs) / name, folder / "bin" / name)
        for name in COMMANDS[1:]:
            os.link(folder / "bin/cosy", folder / "bin" / name)
        self.executable("lookup", LOOKUP)
        (folder / "cosy.toml").write_text(self.text(CONTROLLER) + self.node_entries())

    def text(self, template):
        return template.format(dir=self.dir)

    def node_entries(self):
        more = {1: "cores = 8\nmemory = \"8G\"\ngpus = 2\nother = { fpga = 2 }\n", 2: "login = true\n"}
        names = range(1, NODES + 3)
        return "".join(f'[[node]]\nnames = "n{n}"\n{more.get(n, "")}' for n in names)

    def executable(self, name, text):
        path = self.dir / name
        path.write_text(text)
        path.chmod(0o755)

    def environment(self):
        return {
            "PATH": f"{self.dir}/bin:/usr/bin:/bin",
            "HOME": "/tmp",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "200",
            "COSY_SOCKET": f"{self.dir}/cosyd.sock",
            **self.clock,
        }

    def start(self, name, *args):
        ready, handed = os.pipe()
        program = "cosyd" if name == "cosyd" else "noded"
        log = open(self.dir / f"{name}.log", "ab")
        self.daemons[name] = subprocess.Popen(
            [self.dir / "bin" / program, *args, "--ready-fd", str(handed), "--lifeline-fd", str(self.lifeline)],
            env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            pass_fds=[handed, self.lifeline],
        )
        os.close(handed)
        with os.fdopen(ready, "rb") as told:
            if not told.readline():
                raise SystemExit(f"{name} is not ready:\n{(self.dir / f'{name}.log').read_text()}")

    def start_cosyd(self):
        self.start("cosyd", "--config", str(self.dir / "cosy.toml"))

    def end(self, name, how=signal.SIGTERM):
        daemon = self.daemons.pop(name)
        daemon.send_signal(how)
        daemon.wait(PATIENCE)

    def run(self, line, user=None, code=0, stdin=None):
        """Runs a line of a shell; gives what it printed."""
        who = {"user": USERS[user], "group": GROUP, "extra_groups": []} if user else {}
        done = subprocess.run(
            ["/bin/sh", "-c", line], env=self.environment(), input=stdin, text=True,
            capture_output=True, cwd=self.dir / "work", timeout=PATIENCE, **who,
        )
        if code is not None and done.returncode != code:
            raise SystemExit(f"{line}\n{done.returncode}, not {code}: {done.stdout}{done.stderr}")
        return done.stdout + ("" if code == 0 else done.stderr)

    def until(self, line, good):
        deadline = time.monotonic() + PATIENCE
        while not good(said := self.run(line, code=None)):
            if time.monotonic() > deadline:
                raise SystemExit(f"{line}\nis still: {said}\n{self.run('cstat -A; cstat nodes')}")
            time.sleep(0.1)

    def close(self):
        os.close(self.lifeline_end)
        for name in list(self.daemons):
            with contextlib.suppress(ProcessLookupError):
                self.end(name)
        os.close(self.lifeline)


class Making(Cluster):
    """The cluster that fills a database."""

    def __init__(self, programs):
        HOME.mkdir()
        super().__init__(programs, HOME)
        (HOME / "work").mkdir()
        (HOME / "work").chmod(0o777)
        self.executable("stay", f"#!/bin/sh\nwhile [ -e {HOME}/busy ] && ! [ -e {HOME}/end-$COSY_JOB_ID ]; do sleep 0.2; done\nexit 4\n")
        self.executable("prolog", f"#!/bin/sh\nwhile [ -e {HOME}/hold-$COSY_NODENAME ]; do sleep 0.2; done\n")
        self.executable("program", f"#!/bin/sh\nwhile [ -e {HOME}/busy ]; do sleep 0.2; done\n")
        (HOME / "busy").touch()
        self.ids = {}

    def start_node(self, n):
        self.start(f"n{n}", "--config", str(self.dir / f"n{n}/noded.toml"))

    def join(self, n):
        token = json.loads(self.run(f"cadm node token n{n} --json"))["token"]
        folder = self.dir / f"n{n}"
        folder.mkdir()
        listen = (self.dir / "state/listen.addr").read_text().strip()
        subprocess.run(
            [self.dir / "bin/noded", "join", "--controller", listen, "--name", f"n{n}", "--token", "-",
             "--config", folder / "noded.toml", "--key", folder / "key", "--spool-dir", folder / "spool"],
            input=token, text=True, check=True, env=self.environment(), stdout=subprocess.DEVNULL,
        )
        more = {1: "gpus = 2\nother = { fpga = 2 }\n", 2: 'features = ["fast", "ib"]\n'}
        with open(folder / "noded.toml", "a") as config:
            config.write(self.text(NODE) + more.get(n, ""))

    def job(self, name, line, user="ann", how="csub --parsable"):
        """Submits; the id is remembered under that name."""
        said = self.run(f"{how} -J {name} {line}", user)
        self.ids[name] = said.strip().split(";")[0].split("+")[0]
        return self.ids[name]

    def state(self, name, state):
        self.until(f"squeue -h -j {self.ids[name]} -o %T", lambda said: said.strip() == state)

    def ended(self, *names):
        for name in names:
            self.run(f"cosy wait {self.ids[name]}", code=None)

    def restored(self):
        """The database is put back to what it was before its last jobs."""
        self.job("doubtful", f"-t 9h --require n1 -- {HOME}/stay")
        self.state("doubtful", "RUNNING")
        self.job("perhaps", "-N 5 --exclusive -- true")
        self.end("cosyd")
        shutil.copytree(self.dir / "state", self.dir / "old-state")
        self.start_cosyd()
        self.until("sinfo -h -N -o %T -n n2", lambda said: said.split()[:1] in (["idle"], ["mixed"], ["planned"]))
        seen = self.dir / "n2/spool/n2/seen"
        before = seen.read_bytes()
        self.job("forgotten", "-t 1h --require n2 -- true")
        self.job("unknown", f"-t 1h --require n2 -- {HOME}/stay")
        self.ended("forgotten")
        wait_for(lambda: seen.read_bytes() != before)
        before = seen.read_bytes()
        self.run("cadm node drain n6 -r 'never told'")
        wait_for(lambda: seen.read_bytes() != before)
        self.end("cosyd", signal.SIGKILL)
        shutil.rmtree(self.dir / "state")
        (self.dir / "old-state").rename(self.dir / "state")
        self.start_cosyd()
        self.until("cadm events", lambda said: "store_restored" in said)

    def ended_jobs(self):
        self.job("good", "--comment 'ünï \N{SNOWMAN} \"quoted\"' -- true")
        self.job("bad", "-- false")
        self.job("killed", "-- sh -c 'kill -9 $$'")
        self.job("late", "-t 1s -- sleep 600")
        self.job("nowhere", "-D /nowhere -- true")
        self.job("gone", f"-- {HOME}/stay")
        self.state("gone", "RUNNING")
        self.run(f"ccancel {self.ids['gone']}", "cat")
        self.job("unwanted", "--hold -- true")
        self.run(f"ccancel {self.ids['unwanted']}", "ann")
        self.run("cat > steps.sh", stdin="#!/bin/sh\ncosy run -n 2 true\ncosy run sh -c 'exit 7'\nexit 0\n")
        self.job("steps", "-n 2 steps.sh")
        self.job("tasks", "-a 1-4 -- sh -c 'exit $((COSY_ARRAY_TASK % 2))'", "bob")
        self.job("parts", "-o parts.out -n1 : -n2 --wrap true", how="sbatch --parsable")
        self.job("down", f"-q spare --no-requeue -- {HOME}/stay")
        self.state("down", "RUNNING")
        self.job("never", f"-d afterok:{self.ids['bad']} -- true")
        self.ended("good", "bad", "killed", "late", "nowhere", "gone", "unwanted", "steps", "tasks", "parts")

    def running_jobs(self):
        stay = f"{HOME}/stay"
        self.job("run", f"-t 5h --mail-type ALL --mail-user ann@example.org --signal B:USR1@90 -- {stay}")
        self.job("two", f"-N 2 -n 4 --mem 100M -t 2h -- {stay}")
        self.job("devices", f"--gpus 1 --other fpga=1 -- {stay}")
        self.job("het", f"-n1 -t 60 : -n2 -t 60 --comment second --wrap {stay}", how="sbatch --parsable")
        self.job("licensed", f"-L matlab:2,fluent --wrap {stay}", "bob", "sbatch --parsable")
        for name in ENDING:
            self.job(name, f"-- {stay}")
        self.job("stopped", f"--require n5 -- {stay}")
        self.state("stopped", "RUNNING")
        self.run(f"scontrol suspend {self.ids['stopped']}")
        self.job("again", f"-- {stay}", "bob")
        self.state("again", "RUNNING")
        self.run(f"cosy requeue {self.ids['again']}", "bob")
        self.state("again", "RUNNING")
        self.job("again_held", f"-- {stay}", "bob")
        self.state("again_held", "RUNNING")
        self.run(f"scontrol requeuehold state=SpecialExit {self.ids['again_held']}", "bob")
        self.job("some", f"-a 1-6%2 -- {stay}")
        self.until(f"squeue -h -r -t R -j {self.ids['some']} -o %i", lambda said: len(said.split()) == 2)
        alloc = self.run("calloc --no-shell -N 2 -n 2 -t 3h -J kept 2>&1", "ann")
        self.ids["alloc"] = re.search(r"\d+", alloc).group(0)
        self.steps = subprocess.Popen(
            ["/bin/sh", "-c", f"cosy run --job {self.ids['alloc']} true; exec cosy run --job {self.ids['alloc']} -n 2 {stay}"],
            env=self.environment(), cwd=self.dir / "work", user=USERS["ann"], group=GROUP, extra_groups=[],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for name in ["run", "two", "devices", "licensed", "het"]:
            self.until(f"squeue -h -j {self.ids[name]} -o %T", lambda said: set(said.split()) == {"RUNNING"})

    def waiting_jobs(self):
        run = self.ids["run"]
        self.job("held", "--hold --nice 5 -- true")
        self.job("admin_held", "--begin now+30d -- true", "bob")
        self.run(f"cosy hold {self.ids['admin_held']}")
        self.job("later", "--begin now+20d -t 10 -- true")
        self.job("wide", "-N 5 --exclusive -t 1h --prefer n1 -- true")
        self.job("wanting", "-L matlab:5 --wrap true", "bob", "sbatch --parsable")
        self.job("closed", "-q night -- true", "cat")
        self.job("after", f"-d after:{run} --begin now+10d -- true")
        self.job("afterany", f"-d afterany:{run},afternotok:{self.ids['two']} -- true")
        self.job("afterok", f"-d afterok:{run}:{self.ids['some']}_3 --mem-per-core 50M -c 2 -- true")
        self.job("single", "-d singleton -- true", "bob")
        self.job("corr", f"-d aftercorr:{self.ids['some']} -a 1-6 --wrap true", how="sbatch --parsable")
        self.job("delayed", f"-d after:{run}+600?afterok:{self.ids['two']} --wrap true", how="sbatch --parsable")
        self.job("stuck", f"-d afterok:{self.ids['bad']} --kill-on-invalid-dep=no --wrap true", how="sbatch --parsable")
        many = self.job("many", "--hold -a 1-9 -- true")
        self.run(f"cosy change {many}_2 --time 30 --comment 'other ö'", "ann")
        self.run(f"cosy change {many}_3 --queue short --time 20", "ann")
        self.run(f"cosy release {many}_4", "ann")
        self.run(f"cosy change {many} --at-once 3", "ann")
        self.run(f"cosy change {many}_[5-6] --nodes 2 --begin now+9d", "ann")
        self.job("whole", "--hold -a 1-5 -- true", "bob")
        self.run(f"cosy change {self.ids['whole']} --comment all --nice 7", "bob")
        self.job("lastfirst", "-H -a 1-3 --wrap true", how="sbatch --parsable")
        self.job("dir", "-D /tmp/cosy-state/work -o out-%j -e err-%j -i /dev/null --open-mode append --login --env A=1,B=ö --hold -- printf 'a b'")

    def queues_and_nodes(self):
        self.run("scontrol create PartitionName=made Nodes=n[1-2] MaxTime=60 AllowGroups=users")
        self.run("scontrol update PartitionName=short MaxTime=90")
        self.run("cadm queue drain spare")
        self.run("cadm node drain n5 -r 'disk, später'")
        # Programs of triggers run on n2, where users log in.
        self.run("cadm node resume n2")
        self.run("cadm node down n6 -r smoke")
        self.until("cadm events", lambda said: "triggered" in said)
        self.run("scontrol update NodeName=n4 Features=slow")
        self.run("cadm node token n7 --valid 90d")
        self.run("cadm node revoke n8 -r stolen")
        self.ended("down")

    def reservations(self):
        self.run("cadm account create lab --members ann,bob --budget 2000")
        self.run("cadm account grant common 77")
        self.run("cadm account withdraw lab 10")
        book = "cresv book --parsable -N 1 -n 1 -t 2h"
        self.ids["r-active"] = self.run(f"{book} -A lab --soonest --name now --share-users bob --share-groups guests", "ann").strip()
        self.ids["r-short"] = self.run("cresv book --parsable -N 1 -t 1h --soonest --name brief", "cat").strip()
        self.run(f"{book} --at now+3d --name later --account physics -- true", "ann")
        self.run(f"{book} --finish-by now+5d --not-before now+4d --name deadline", "bob")
        self.run("cresv hold -N 2 --exclusive -t 3h --at now+6d --name perhaps --account lab", "bob")
        self.run("cresv book -N 1 -t 90 --name course --at now+7d --repeat 'FREQ=WEEKLY;COUNT=3' --zone Europe/Berlin", "cat")
        gone = self.run(f"{book} --at now+8d --name unwanted", "ann").strip()
        self.run(f"cresv cancel {gone}", "ann")
        self.run("scontrol create reservation reservationname=maint starttime=now+12days duration=60 users=root nodes=n[1,3] flags=maint,ignore_jobs")
        longer = self.run(f"{book} --at now+9d --name longer --account lab", "ann").strip()
        self.run(f"cresv extend {longer} --by 30m", "ann")
        self.until(f"cresv show {self.ids['r-active']}", lambda said: "active" in said)
        self.until(f"cresv show {self.ids['r-short']}", lambda said: "active" in said)
        done = self.run("cresv book --parsable -N 1 -n 1 -t 1h --soonest --name done -- true", "ann").strip()
        self.until(f"cresv show {done}", lambda said: "ended" in said)
        self.job("inside", f"--reservation {self.ids['r-active']} -- {HOME}/stay", "ann")
        self.job("inside_waits", f"--reservation {self.ids['r-active']} -n 8 -- true", "bob")
        self.job("inside_ended", f"--reservation {self.ids['r-short']} -- true", "cat")
        self.ended("inside_ended")
        self.run(f"cresv cancel {self.ids['r-short']}", "cat")
        self.run("cresv quote -N 2 -t 2h --until now+12h", "bob", code=None)

    def workflows(self):
        (self.dir / "work/night.toml").write_text(self.text(FLOW))
        submit = "cosy flow submit --parsable night.toml --account physics"
        self.ids["slots"] = self.run(f"{submit} --slack 300%", "ann").strip()
        self.ids["held-slots"] = self.run(f"{submit} --not-before now+2d --finish-by now+3d --hold --name held", "ann").strip()
        self.ids["plain"] = self.run("cosy flow submit --parsable night.toml --name plain", "ann").strip()
        self.ids["over"] = self.run("cosy flow submit --parsable night.toml --name over", "bob").strip()
        self.run(f"cosy flow cancel {self.ids['over']}", "bob")
        self.until(f"cosy flow show {self.ids['over']}", lambda said: "cancelled" in said)
        for name, code in [("well", 0), ("ill", 1)]:
            flow = self.dir / f"work/{name}.toml"
            flow.write_text(f"[workflow]\nname = '{name}'\n[tasks.one]\nrun = 'exit {code}'\nestimate = '1s'\n")
            self.run(f"cosy flow submit --wait {name}.toml", "cat", code=None)
        self.until(f"cosy flow show {self.ids['plain']}", lambda said: "running" in said)

    def triggers(self):
        program = f"-p {HOME}/program"
        self.run(f"strigger --set --fini -j {self.ids['run']} {program}", "ann")
        self.run(f"strigger --set --time -j {self.ids['run']} --offset=-600 {program}", "ann")
        self.run(f"strigger --set --down --flags=perm {program}")
        self.run(f"strigger --set --up --node=n3 {program}")

    def unreadable(self):
        """A submission that no release reads: it is set aside at the next start."""
        base = int(self.job("broken", "--hold -- true"))
        self.end("cosyd")
        with contextlib.closing(sqlite3.connect(self.dir / "state/cosy.db")) as db:
            db.execute("UPDATE submissions SET row = x'c1' WHERE base = ?", [base])
            db.commit()
        self.start_cosyd()

    def fill(self):
        self.start_cosyd()
        for n in [*range(1, NODES + 1), 8]:
            self.join(n)
        for n in range(1, NODES + 1):
            self.start_node(n)
        self.ended_jobs()
        self.restored()
        self.running_jobs()
        self.triggers()
        self.reservations()
        self.queues_and_nodes()
        self.workflows()
        self.waiting_jobs()
        self.unreadable()

    def keep(self, out):
        """Database and spools, while all goes on."""
        out.mkdir(parents=True)
        # Neither started nor prepared: its prolog does not end.
        (HOME / "hold-n1").touch()
        self.job("prolog", f"-t 10 --require n1 -- {HOME}/stay")
        self.until("ls /tmp/cosy-state/n1/spool/n1", lambda said: self.ids["prolog"] + ".1" in said)
        self.end("cosyd")
        (out / "date").write_text(f"{now() + 2}\n")
        keep_database(self.dir / "state/cosy.db", out / "cosy.db")
        # These end while there is no controller.
        for name in ENDING:
            (HOME / f"end-{self.ids[name]}").touch()
        for name in ENDING:
            wait_for(lambda: list(self.dir.glob(f"n*/spool/n*/{self.ids[name]}.*/outcome")))
        for n in range(1, NODES):
            self.end(f"n{n}", signal.SIGKILL)
            keep_spool(self.dir / f"n{n}/spool/n{n}", out / f"spool-n{n}")

    def close(self):
        for name in ["busy", *(f"hold-n{n}" for n in range(1, NODES + 1))]:
            with contextlib.suppress(FileNotFoundError):
                (HOME / name).unlink()
        super().close()
        left = [p for p in pathlib.Path("/proc").glob("[0-9]*") if of_home(p)]
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)
        shutil.rmtree(HOME)


def of_home(process):
    """One of the processes that live from our folder."""
    try:
        return str(HOME).encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def wait_for(good):
    deadline = time.monotonic() + PATIENCE
    while not good():
        if time.monotonic() > deadline:
            raise SystemExit("what was waited for does not come")
        time.sleep(0.1)


def keep_spool(path, to):
    """Records only: programs of MPI, sockets and locks are no part of it."""
    for file in sorted(path.rglob("*")):
        kept = file.name in ("launch", "outcome", "next", "limit", "notes", "alone", "epilog", "boot")
        if kept and file.is_file() and "spare." not in str(file):
            target = to / file.relative_to(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            data = file.read_bytes()
            target.write_bytes(BOOT.encode() if file.name == "boot" else data)


def keep_database(path, to):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("VACUUM")
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    data = path.read_bytes()
    for of_machine, instead in [(boot, BOOT), (boot.replace("-", ""), BOOT.replace("-", ""))]:
        data = data.replace(of_machine.encode(), instead.encode())
    if boot[:8].encode() in data or boot[-12:].encode() in data:
        raise SystemExit("the run of this machine is named in the database: make it again")
    to.write_bytes(data)


SHOWN = """
cadm ping
cstat -A -E
cstat -A -E --array --json
cstat queues --json
cstat nodes --json
cstat nodes
chist -A --since {since} --json
chist -A --since {since}
chist -A --cost --since {since} --json
chist --steps --json {jobs}
cresv list -A -E --json
cresv list -A -E --cost
cosy flow list -A -E --json
{flows}
cadm events --json --after 0 --most 1000
cadm account list --json
cadm account ledger --json
cstat --script {script}
squeue -a -r -o "%i|%j|%u|%T|%r|%P|%D|%C|%l|%S|%E|%Q|%q|%v|%k|%Y|%A|%F|%K|%m|%f|%W"
squeue -a -s -o "%i|%j|%P|%u|%N"
sacct -a -P -S {slurm_since} -o {fields}
sacct -a -P -S {slurm_since} -E now -s CD,F,TO,CA,NF -o JobID,Eligible,Elapsed,CPUTimeRAW,Planned
scontrol show job
scontrol show partition
scontrol show node
scontrol show reservation
scontrol show licenses
sinfo -a -N -o "%N|%P|%T|%c|%m|%d|%f|%G|%E"
sinfo -R
strigger --get
"""


class Shown(Cluster):
    """A controller with a copy of a database, and the date of it."""

    def __init__(self, programs, folder, fixture):
        date = int((fixture / "date").read_text())
        if platform.machine() != "x86_64":
            raise Cannot("the date of a process cannot be moved on this kind of machine")
        (folder / "clock.c").write_text(CLOCK)
        library = folder / "clock.so"
        try:
            compiler = ["cc", "-shared", "-fPIC", "-O1", "-o", library, folder / "clock.c"]
            subprocess.run(compiler, check=True)
        except FileNotFoundError:
            raise Cannot("cc is not installed") from None
        clock = {"LD_PRELOAD": str(library), "TEST_CLOCK": str(date - now())}
        super().__init__(programs, folder, clock)
        (folder / "work").mkdir()
        shutil.copy(fixture / "cosy.db", folder / "state/cosy.db")
        self.date = date
        shown = subprocess.run(["date", "+%s"], env=self.environment(), text=True, capture_output=True)
        if not date <= int(shown.stdout) < date + PATIENCE:
            raise Cannot("the date of a process cannot be moved on this kernel")

    def all(self):
        day = 86400
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.date - day))
        with contextlib.closing(sqlite3.connect(self.dir / "state/cosy.db")) as db:
            number = lambda query: [str(n) for (n,) in db.execute(query)]
            jobs = number("SELECT base FROM submissions ORDER BY base")
            flows = number("SELECT id FROM flows ORDER BY id")
            [script] = number("SELECT base FROM submissions WHERE name = 'steps.sh' OR name = 'steps'")
        self.start_cosyd()
        fields = subprocess.run(["sacct", "-e"], env=self.environment(), text=True, stdout=subprocess.PIPE).stdout
        passing = ("Elapsed", "CPUTime", "Planned", "Reserved", "ResvCPU", "Eligible")
        # What the earlier releases that are compared with did not have.
        passing += ("FailedNode",)
        shown = SHOWN.format(
            fields=",".join(f for f in fields.split() if not f.startswith(passing)),
            since=stamp + "Z", slurm_since=stamp, jobs=" ".join(jobs), script=script,
            flows="\n".join(f"cosy flow show --json {flow}" for flow in flows),
        )
        for line in shown.strip().splitlines():
            done = subprocess.run(
                ["/bin/sh", "-c", line], env=self.environment(), text=True, cwd=self.dir / "work",
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE,
            )
            text = self.without_now(short(done.stdout.replace(str(self.dir), "/DIR")))
            yield f"$ {line}\n{text}[{done.returncode}]\n"

    def without_now(self, text):
        """Without what depends on when exactly the command ran."""
        text = re.sub(r'"elapsed": [0-9.]+', '"elapsed": "PASSED"', text)
        text = re.sub(r"\bRunTime=[0-9:-]+", "RunTime=PASSED", text)
        text = re.sub(r"( running| suspended| starting) +[0-9][0-9:-]*", r"\1 PASSED", text)
        return re.sub(r"\b\d{4}-\d\d-\d\dT(\d\d:){2}\d\d(\.\d+)?Z?", self.other_date, text)

    def other_date(self, found):
        seconds = calendar.timegm(time.strptime(found.group(0)[:19], "%Y-%m-%dT%H:%M:%S"))
        return "NOW" if self.date <= seconds < self.date + 2 * PATIENCE else found.group(0)


def short(text):
    """JSON with a line for each of the things that it lists, without what is null; all else as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    line = lambda value: json.dumps(without_null(value), ensure_ascii=False)
    if isinstance(value, dict) and value and all(isinstance(v, list) for v in value.values()):
        return "".join(f"{key}\n" + "".join(line(item) + "\n" for item in v) for key, v in value.items())
    return "".join(line(item) + "\n" for item in (value if isinstance(value, list) else [value]))


def without_null(value):
    if isinstance(value, dict):
        return {key: without_null(v) for key, v in value.items() if v is not None}
    return [without_null(v) for v in value] if isinstance(value, list) else value


class Cannot(Exception):
    """Something that is needed cannot be had on this machine."""


def show(programs, fixture):
    with tempfile.TemporaryDirectory(prefix="cosy-shown-") as folder:
        os.chmod(folder, 0o755)
        cluster = Shown(programs, pathlib.Path(folder), fixture)
        try:
            return "".join(cluster.all())
        finally:
            cluster.close()


def own_name():
    """Requests name the host that they come from."""
    new_uts = 0x04000000
    if ctypes.CDLL(None, use_errno=True).unshare(new_uts):
        raise Cannot("only root can have a host's name of its own")
    socket.sethostname("login1")


def make(programs, out):
    own_name()
    cluster = Making(programs)
    try:
        cluster.fill()
        cluster.keep(out)
    finally:
        cluster.close()
    (out / "shown.txt").write_text(show(programs, out))


def main():
    words = sys.argv[1:]
    try:
        if words[:1] == ["--show"]:
            sys.stdout.write(show(words[1], pathlib.Path(words[2])))
        else:
            make(words[0], pathlib.Path(words[1]))
    except Cannot as why:
        print(why, file=sys.stderr)
        return CANNOT
    return 0


if __name__ == "__main__":
    sys.exit(main())

