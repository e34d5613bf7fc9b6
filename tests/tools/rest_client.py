"""Slurm's REST interface through the client that the OpenAPI generator makes of Slurm's own description:
its models refuse words and types that the description does not have. Then through slurm-requests, which is
written by hand.

usage: rest_client.py ADDRESS TOKEN ENDED_JOB WORKDIR
"""

import asyncio
import sys

import slurm_requests
import slurmrestapi as api

address, token, ended, workdir = sys.argv[1:]
configuration = api.Configuration(host=address, access_token=token)
configuration.api_key["token"] = token
configuration.api_key["user"] = "root"


def check(what, value):
    assert value, what


with api.ApiClient(configuration) as client:
    client.set_default_header("X-SLURM-USER-TOKEN", token)
    client.set_default_header("X-SLURM-USER-NAME", "root")
    slurm, slurmdb = api.SlurmApi(client), api.SlurmdbApi(client)
    for version in ("v0042", "v0043", "v0044"):
        look = lambda family, name, *args, **named: getattr(
            slurm if family == "slurm" else slurmdb, f"{family}_{version}_{name}"
        )(*args, **named)
        for name in (
            "get_ping",
            "get_diag",
            "get_jobs",
            "get_jobs_state",
            "get_nodes",
            "get_partitions",
            "get_reservations",
            "get_licenses",
            "get_shares",
        ):
            answer = look("slurm", name)
            check(name, answer.errors == [] and answer.meta.slurm.cluster)
        for name in (
            "get_jobs",
            "get_users",
            "get_accounts",
            "get_associations",
            "get_qos",
            "get_clusters",
            "get_tres",
            "get_wckeys",
            "get_config",
            "get_diag",
            "get_ping",
        ):
            answer = look("slurmdb", name)
            check(name, answer.errors == [])
        job = look("slurm", "get_job", ended).jobs[0]
        check("its state", job.job_state == ["COMPLETED"])
        check("its node", look("slurm", "get_node", "n1").nodes[0].cpus > 0)
        check("its queue", look("slurm", "get_partition", "main").partitions[0].name == "main")
        kept = look("slurmdb", "get_job", ended).jobs[0]
        check("its record", kept.state.current == ["COMPLETED"] and kept.steps)
        model = lambda name: getattr(api, f"V{version[1:]}{name}")
        number = model("Uint32NoValStruct")(set=True, infinite=False, number=5)
        wanted = model("JobDescMsg")(
            name="made by a client",
            partition="main",
            time_limit=number,
            environment=["PATH=/usr/bin:/bin"],
            current_working_directory=workdir,
            hold=True,
        )
        request = model("JobSubmitReq")(script="#!/bin/sh\nsleep 60\n", job=wanted)
        made = look("slurm", "post_job_submit", request)
        check("a new job", made.job_id > 0)
        job = look("slurm", "get_job", str(made.job_id)).jobs[0]
        check("it is held", job.hold and job.time_limit.number == 5)
        change = model("JobDescMsg")(comment="changed")
        changed = look("slurm", "post_job", str(made.job_id), change)
        check("a change", changed.results[0].error_code == 0)
        check("what is new", look("slurm", "get_job", str(made.job_id)).jobs[0].comment == "changed")
        over = look("slurm", "delete_job", str(made.job_id))
        check("it is cancelled", over.status[0].error.code == 0)
        several = look("slurm", "delete_jobs", model("KillJobsMsg")(jobs=[str(made.job_id)]))
        check("its end is told", [one.error.code for one in several.status] == [2084])


async def by_hand():
    slurm_requests.init_defaults(
        url=address, api_version="v0.0.42", user_name="root", user_token=token
    )
    await slurm_requests.ping()
    await slurm_requests.diagnose()
    job, answer = await slurm_requests.job_submit(
        name="by-hand",
        partition="main",
        working_directory=workdir,
        script="#!/bin/sh\nsleep 600\n",
        environment=["PATH=/usr/bin:/bin"],
        time_limit=5,
    )
    check("a job", job)
    states, reason = await slurm_requests.job_current_state_and_reason(job)
    known = slurm_requests.SLURMJobState
    check("its state", states <= {known.PENDING, known.RUNNING})
    check("its name", "by-hand" in await slurm_requests.jobs_list_names(name_regex="^by"))
    await slurm_requests.job_cancel(job)
    for _ in range(600):
        states, reason = await slurm_requests.job_current_state_and_reason(job)
        if states == {known.CANCELLED}:
            break
        await asyncio.sleep(0.1)
    check("it is cancelled", states == {known.CANCELLED})
    cancelled = await slurm_requests.jobs_list_names(state={known.CANCELLED})
    check("it is found by its state", "by-hand" in cancelled)


asyncio.run(by_hand())
print("fine")
