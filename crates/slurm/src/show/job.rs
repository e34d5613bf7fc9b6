//! `scontrol show job`. Source: scontrol(1), captures of 22.05.
//!
//! What Slurm tells and Cosy does not have is told as Slurm does where it is not in use:
//! `MCS_label=N/A`, `Reboot=0`, `CoreSpec=*`.

use super::{Sheet, clean, held_by_node, mebibytes, or_null};
use crate::job::{JobView, RequestedMemory, exit_text};
use crate::times;
use cosy_model::Time;
use cosy_model::api::JobField;
use jiff::tz::TimeZone;

/// How it is to be told.
#[derive(Clone, Copy, Debug)]
pub struct ShowOptions<'a> {
    /// Zone of all times.
    pub zone: &'a TimeZone,
    /// With what only `-d` tells.
    pub details: bool,
}

/// The fields that a record is made of.
pub const FIELDS: &[JobField] = &[
    JobField::Id,
    JobField::Ref,
    JobField::ArrayId,
    JobField::ArrayTask,
    JobField::ArrayAtOnce,
    JobField::Component,
    JobField::Components,
    JobField::Name,
    JobField::User,
    JobField::Uid,
    JobField::Gid,
    JobField::Priority,
    JobField::Nice,
    JobField::Account,
    JobField::Qos,
    JobField::Wckey,
    JobField::State,
    JobField::Reason,
    JobField::DependencyText,
    JobField::Requeue,
    JobField::Restarts,
    JobField::Apart,
    JobField::Batch,
    JobField::ExitCode,
    JobField::Signal,
    JobField::DerivedExitCode,
    JobField::DerivedSignal,
    JobField::Elapsed,
    JobField::TimeLimit,
    JobField::TimeMin,
    JobField::Submit,
    JobField::Eligible,
    JobField::Begin,
    JobField::Start,
    JobField::End,
    JobField::LatestEnd,
    JobField::PredictedStart,
    JobField::Deadline,
    JobField::SuspendedFor,
    JobField::SuspendedSince,
    JobField::PreemptTime,
    JobField::PreemptEligible,
    JobField::Resized,
    JobField::Queue,
    JobField::Queues,
    JobField::SubmitHost,
    JobField::SubmitSession,
    JobField::Require,
    JobField::Avoid,
    JobField::FailedNodes,
    JobField::Nodes,
    JobField::BatchHost,
    JobField::NodeCount,
    JobField::MinNodes,
    JobField::MaxNodes,
    JobField::Cores,
    JobField::Tasks,
    JobField::AskedTasks,
    JobField::TasksPerNode,
    JobField::CoresPerTask,
    JobField::MemoryPerCore,
    JobField::MinMemoryPerNode,
    JobField::MemoryPerNode,
    JobField::MinDisk,
    JobField::Gpus,
    JobField::Gres,
    JobField::CoreIds,
    JobField::GpuIds,
    JobField::Features,
    JobField::Constraint,
    JobField::Exclusive,
    JobField::Oversubscribe,
    JobField::Contiguous,
    JobField::MaxSwitches,
    JobField::SwitchWait,
    JobField::Segment,
    JobField::Licenses,
    JobField::Reservation,
    JobField::Command,
    JobField::Workdir,
    JobField::Comment,
    JobField::AdminComment,
    JobField::Stdout,
    JobField::Stderr,
    JobField::Stdin,
    JobField::MailTo,
    JobField::MailTypes,
];

/// One job, task, or row of waiting tasks with all it has.
pub fn sheet(job: &JobView<'_>, options: ShowOptions<'_>) -> Sheet {
    let mut sheet = Sheet::new();
    who(&mut sheet, job);
    state(&mut sheet, job, options);
    times(&mut sheet, job, options.zone);
    places(&mut sheet, job);
    amounts(&mut sheet, job, options);
    program(&mut sheet, job);
    sheet
}

fn text(job: &JobView<'_>, field: JobField) -> String {
    clean(or_null(job.text(field)))
}

fn who(sheet: &mut Sheet, job: &JobView<'_>) {
    let gid = job.count(JobField::Gid);
    let group = job.around().groups.get(&gid);
    let group = group.map_or_else(|| gid.to_string(), |name| clean(name));
    let wckey = match job.text(JobField::Wckey) {
        "" => String::new(),
        key => format!(" WCKey={}", clean(key)),
    };
    sheet
        .line(format!(
            "JobId={}{} JobName={}",
            shown_id(job),
            array(job),
            clean(job.text(JobField::Name))
        ))
        .maybe(job.het().map(|het| format!("HetJobIdSet={}", het.set())))
        .line(format!(
            "UserId={}({}) GroupId={group}({gid}) MCS_label=N/A",
            clean(job.text(JobField::User)),
            job.count(JobField::Uid),
        ))
        .line(format!(
            "Priority={} Nice={} Account={} QOS={}{wckey}",
            job.count(JobField::Priority),
            job.count(JobField::Nice),
            text(job, JobField::Account),
            text(job, JobField::Qos),
        ));
}

/// Its number; of an array's task that is like all others and was never started the array's.
fn shown_id(job: &JobView<'_>) -> i64 {
    let fresh = job.waits() && job.task().is_some() && job.count(JobField::Restarts) == 0;
    match fresh && !job.flag(JobField::Apart) && job.het().is_none() {
        true => job.base_id(),
        false => job.raw_id(),
    }
}

/// What it is a part of.
fn array(job: &JobView<'_>) -> String {
    if let Some(het) = job.het() {
        return format!(" HetJobId={} HetJobOffset={}", het.job, het.offset);
    }
    let Some(base) = job.number(JobField::ArrayId) else {
        return String::new();
    };
    let tasks = match job.folded() {
        Some(tasks) => tasks.spec.to_owned(),
        None => job.count(JobField::ArrayTask).to_string(),
    };
    let at_once = job.number(JobField::ArrayAtOnce);
    let at_once = at_once.filter(|n| *n > 0 && job.waits());
    let at_once = at_once.map_or_else(String::new, |n| format!(" ArrayTaskThrottle={n}"));
    format!(" ArrayJobId={base} ArrayTaskId={tasks}{at_once}")
}

fn state(sheet: &mut Sheet, job: &JobView<'_>, options: ShowOptions<'_>) {
    let derived = || format!("DerivedExitCode={}", exit_text(job.derived_exit()));
    sheet
        .line(format!(
            "JobState={} Reason={} Dependency={}",
            job.state(),
            job.reason().replace(' ', "_"),
            text(job, JobField::DependencyText)
        ))
        .line(format!(
            "Requeue={} Restarts={} BatchFlag={} Reboot=0 ExitCode={}",
            u8::from(job.flag(JobField::Requeue)),
            job.count(JobField::Restarts),
            u8::from(job.flag(JobField::Batch)),
            exit_text(job.exit())
        ))
        .maybe(options.details.then(derived));
}

fn times(sheet: &mut Sheet, job: &JobView<'_>, zone: &TimeZone) {
    let stamp = |at: Option<Time>, without: &str| times::timestamp_or(at, zone, without);
    let limit = job.span(JobField::TimeLimit);
    let minimum = job.span(JobField::TimeMin);
    let eligible = eligible(job);
    let accrued = eligible.filter(|_| job.flag(JobField::Batch));
    let (start, end) = start_and_end(job);
    sheet
        .line(format!(
            "RunTime={} TimeLimit={} TimeMin={}",
            times::duration(job.elapsed()),
            limit.map_or_else(|| "UNLIMITED".to_owned(), times::duration),
            minimum.map_or_else(|| "N/A".to_owned(), times::duration)
        ))
        .line(format!(
            "SubmitTime={} EligibleTime={}",
            stamp(job.time(JobField::Submit), "Unknown"),
            stamp(eligible, "Unknown")
        ))
        .line(format!("AccrueTime={}", stamp(accrued, "Unknown")));
    if let Some(resized) = job.time(JobField::Resized) {
        sheet.line(format!("ResizeTime={}", times::timestamp(resized, zone)));
    }
    sheet
        .line(format!(
            "StartTime={} EndTime={} Deadline={}",
            stamp(start, "Unknown"),
            stamp(end, "Unknown"),
            stamp(job.time(JobField::Deadline), "N/A")
        ))
        .maybe(preemption(job, zone))
        .line(suspended(job, zone));
}

/// Where it is kept to a number of switches: that, and for how long.
fn switches(job: &JobView<'_>) -> Option<String> {
    let most = job.number(JobField::MaxSwitches)?;
    let wait = job.span(JobField::SwitchWait);
    let wait = wait.map_or_else(String::new, |wait| format!("@{}", times::duration(wait)));
    Some(format!("Switches={most}{wait}"))
}

/// Where jobs may be preempted: from when on this one, and when it was.
fn preemption(job: &JobView<'_>, zone: &TimeZone) -> Option<String> {
    let since = job.time(JobField::PreemptTime);
    let from = job.time(JobField::PreemptEligible);
    let from = from.or_else(|| since.and(job.start()))?;
    // Of one that stands still meanwhile Slurm tells none.
    let at = since.filter(|_| job.our_state() != cosy_model::JobState::Suspended);
    Some(format!(
        "PreemptEligibleTime={} PreemptTime={}",
        times::timestamp_or(Some(from), zone, "None"),
        times::timestamp_or(at, zone, "None"),
    ))
}

/// Since when nothing but nodes is missing; a held job has no such time.
fn eligible(job: &JobView<'_>) -> Option<Time> {
    let held = job.waits() && job.count(JobField::Priority) == 0;
    let known = job.time(JobField::Eligible).filter(|_| !held);
    known.or_else(|| job.time(JobField::Begin).filter(|_| !held))
}

fn start_and_end(job: &JobView<'_>) -> (Option<Time>, Option<Time>) {
    let over = job.our_state().is_end();
    let limit = job.span(JobField::TimeLimit).filter(|l| !l.is_unlimited());
    let start = match job.start() {
        // It never ran.
        None if over => job.end(),
        start => start,
    };
    let planned = || Some(start? + limit?);
    let end = job.end().or_else(|| if over { None } else { planned() });
    (start, end)
}

fn suspended(job: &JobView<'_>, zone: &TimeZone) -> String {
    let since = job.time(JobField::SuspendedSince);
    let before = job.span(JobField::SuspendedFor).map_or(0, |s| s.secs());
    let looked = job.time(JobField::Start).or_else(|| eligible(job));
    let looked = looked.or_else(|| job.time(JobField::Submit));
    let planned = job.waits() && job.count(JobField::Priority) != 0;
    format!(
        "SuspendTime={} SecsPreSuspend={before} LastSchedEval={} Scheduler={}",
        times::timestamp_or(since, zone, "None"),
        times::timestamp_or(looked, zone, "N/A"),
        if planned { "Backfill:*" } else { "Main" }
    )
}

fn places(sheet: &mut Sheet, job: &JobView<'_>) {
    let host = match job.text(JobField::SubmitHost) {
        "" => "localhost",
        host => host,
    };
    let first = job.text(JobField::BatchHost);
    let first = (!first.is_empty()).then(|| format!("BatchHost={}", clean(first)));
    sheet
        .line(format!(
            "Partition={} AllocNode:Sid={}:{}",
            clean(job.partition()),
            clean(host),
            job.count(JobField::SubmitSession)
        ))
        .line(format!("ReqNodeList={} ExcNodeList={}", text(job, JobField::Require), excluded(job)))
        .line(format!("NodeList={}", clean(job.text(JobField::Nodes))))
        .maybe(first);
}

/// Nodes that it does not go to: as it was asked, and because it was lost with them.
fn excluded(job: &JobView<'_>) -> String {
    let failed = match job.our_state().is_end() {
        true => "",
        false => job.text(JobField::FailedNodes),
    };
    let both = [job.text(JobField::Avoid), failed];
    let lists: Vec<&str> = both.into_iter().filter(|list| !list.is_empty()).collect();
    match lists.is_empty() {
        true => text(job, JobField::Avoid),
        false => clean(&lists.join(",")),
    }
}

fn amounts(sheet: &mut Sheet, job: &JobView<'_>, options: ShowOptions<'_>) {
    let each = job.count(JobField::CoresPerTask).max(1);
    let tres = job.tres_held().unwrap_or_else(|| job.tres_asked());
    sheet
        .line(format!(
            "NumNodes={} NumCPUs={} NumTasks={} CPUs/Task={each} ReqB:S:C:T=0:0:*:*",
            nodes(job),
            job.cores(),
            job.count(JobField::Tasks).max(1)
        ))
        .line(format!("TRES={tres}"))
        .line(format!(
            "Socks/Node=* NtasksPerN:B:S:C={}:0:*:* CoreSpec=*",
            job.count(JobField::TasksPerNode)
        ));
    if options.details && !job.text(JobField::Nodes).is_empty() {
        held_by_node::details(sheet, job);
    }
    sheet.line(format!(
        "MinCPUsNode={} {} MinTmpDiskNode={}",
        job.cores_per_node(),
        memory(job.memory()),
        short_size(job.count(JobField::MinDisk).unsigned_abs())
    ));
}

fn nodes(job: &JobView<'_>) -> String {
    let Some(least) = job.number(JobField::MinNodes).filter(|_| job.waits()) else {
        return job.nodes().to_string();
    };
    let most = job.number(JobField::MaxNodes).unwrap_or(least);
    format!("{least}-{most}")
}

fn memory(asked: RequestedMemory) -> String {
    match asked {
        RequestedMemory::PerCore(mib) => format!("MinMemoryCPU={}", short_size(mib)),
        RequestedMemory::PerNode(mib) => format!("MinMemoryNode={}", short_size(mib)),
        RequestedMemory::Nothing => "MinMemoryNode=0".to_owned(),
    }
}

fn short_size(mib: u64) -> String {
    if mib == 0 {
        "0".to_owned()
    } else {
        mebibytes(mib)
    }
}

fn program(sheet: &mut Sheet, job: &JobView<'_>) {
    let features = match job.text(JobField::Constraint) {
        "" => job.text(JobField::Features),
        constraint => constraint,
    };
    let comment = job.text(JobField::Comment);
    let admin = job.text(JobField::AdminComment);
    let reservation = job.number(JobField::Reservation);
    let reservation = reservation.map(|id| {
        let name = job.around().reservations.get(&id);
        let name = name.map_or_else(|| id.to_string(), |name| clean(name));
        format!("Reservation={name}")
    });
    sheet
        .line(format!("Features={} DelayBoot=00:00:00", clean(or_null(features))))
        .maybe(reservation)
        .line(format!(
            "OverSubscribe={} Contiguous={} Licenses={} Network=(null)",
            job.oversubscribe(),
            job.count(JobField::Contiguous),
            text(job, JobField::Licenses)
        ))
        .line(format!("Command={}", text(job, JobField::Command)))
        .line(format!("WorkDir={}", clean(job.text(JobField::Workdir))))
        .maybe((!admin.is_empty()).then(|| format!("AdminComment={} ", clean(admin))))
        .maybe((!comment.is_empty()).then(|| format!("Comment={} ", clean(comment))));
    if job.flag(JobField::Batch) {
        files(sheet, job);
    }
    let gres = job.text(JobField::Gres);
    let gres = (!gres.is_empty()).then(|| format!("TresPerNode=gres:{}", clean(gres)));
    sheet
        .maybe(switches(job))
        .maybe(
            job.number(JobField::Segment)
                .map(|size| format!("SegmentSize={size}")),
        )
        .line("Power=")
        .maybe(gres)
        .line(mail(job));
}

fn files(sheet: &mut Sheet, job: &JobView<'_>) {
    let path = |field| {
        let given = job.text(field);
        let absolute = given.starts_with('/') || given.is_empty();
        let folder = if absolute {
            ""
        } else {
            job.text(JobField::Workdir)
        };
        let slash = if absolute { "" } else { "/" };
        clean(&format!("{folder}{slash}{given}"))
    };
    let or = |given: String, other: &str| {
        if given.is_empty() {
            other.to_owned()
        } else {
            given
        }
    };
    let stdout = path(JobField::Stdout);
    sheet
        .line(format!("StdErr={}", or(path(JobField::Stderr), &stdout)))
        .line(format!("StdIn={}", or(path(JobField::Stdin), "/dev/null")))
        .line(format!("StdOut={stdout}"));
}

/// The last line; empty when no mail is wanted.
fn mail(job: &JobView<'_>) -> String {
    let types = job.text(JobField::MailTypes);
    if types.is_empty() {
        return String::new();
    }
    let to = match job.text(JobField::MailTo) {
        "" => job.text(JobField::User),
        to => to,
    };
    let types = types.to_ascii_uppercase();
    format!("MailUser={} MailType={}", clean(to), clean(&types))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ClusterFacts;
    use crate::job::tests::table;
    use JobField as F;

    fn around() -> ClusterFacts {
        ClusterFacts {
            default_memory: [("main".to_owned(), cosy_model::MiB(100))].into(),
            groups: [(33, "www-data".to_owned())].into(),
            ..ClusterFacts::default()
        }
    }

    fn shown(row: &[(F, &str)], details: bool) -> String {
        let (table, around) = (table(&[row]), around());
        let zone = &TimeZone::UTC;
        sheet(&JobView::new(&table, 0, &around), ShowOptions { zone, details }).text(false)
    }

    /// As `scontrol-show-job-held` has it, but for the submit host.
    const HELD: &[(F, &str)] = &[
        (F::Id, "103"),
        (F::Name, "heldjob"),
        (F::User, "www-data"),
        (F::Uid, "33"),
        (F::Gid, "33"),
        (F::Priority, "0"),
        (F::State, "waiting"),
        (F::Reason, "held_by_user"),
        (F::Requeue, "1"),
        (F::Batch, "1"),
        (F::TimeLimit, "3600000"),
        (F::Submit, "1795227628000"),
        (F::Eligible, "1795227628000"),
        (F::Queue, "main"),
        (F::NodeCount, "2"),
        (F::MinNodes, "2"),
        (F::Cores, "2"),
        (F::Tasks, "2"),
        (F::Command, "/w/noop.sh"),
        (F::Workdir, "/w"),
        (F::Stdout, "slurm-103.out"),
    ];

    #[test]
    fn a_held_job() {
        let want = "JobId=103 JobName=heldjob\n   \
            UserId=www-data(33) GroupId=www-data(33) MCS_label=N/A\n   \
            Priority=0 Nice=0 Account=(null) QOS=(null)\n   \
            JobState=PENDING Reason=JobHeldUser Dependency=(null)\n   \
            Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n   \
            RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A\n   \
            SubmitTime=2026-11-21T02:20:28 EligibleTime=Unknown\n   \
            AccrueTime=Unknown\n   \
            StartTime=Unknown EndTime=Unknown Deadline=N/A\n   \
            SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-21T02:20:28 Scheduler=Main\n   \
            Partition=main AllocNode:Sid=localhost:0\n   \
            ReqNodeList=(null) ExcNodeList=(null)\n   \
            NodeList=\n   \
            NumNodes=2-2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n   \
            TRES=cpu=2,mem=200M,node=2,billing=2\n   \
            Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*\n   \
            MinCPUsNode=1 MinMemoryCPU=100M MinTmpDiskNode=0\n   \
            Features=(null) DelayBoot=00:00:00\n   \
            OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)\n   \
            Command=/w/noop.sh\n   WorkDir=/w\n   \
            StdErr=/w/slurm-103.out\n   StdIn=/dev/null\n   StdOut=/w/slurm-103.out\n   \
            Power=\n   \n\n";
        assert_eq!(shown(HELD, false), want);
    }

    #[test]
    fn lines_of_others() {
        let check = |row: &[(F, &str)], want: &str| {
            let text = shown(row, true);
            assert!(text.contains(want), "{want} in {text}");
        };
        let running = [
            (F::Id, "7"),
            (F::State, "running"),
            (F::Nodes, "n[5-6]"),
            (F::BatchHost, "n5"),
            (F::NodeCount, "2"),
            (F::MemoryPerNode, "1600"),
            (F::CoreIds, "n5:0-15;n6:0-15"),
            (F::Start, "0"),
            (F::LatestEnd, "60000"),
            (F::Comment, "abc"),
            (F::MailTypes, "begin,end"),
            (F::User, "ann"),
        ];
        check(&running, "\n   NodeList=n[5-6]\n   BatchHost=n5\n   NumNodes=2 ");
        check(&running, "\n   JOB_GRES=(null)\n     Nodes=n[5-6] CPU_IDs=0-15 Mem=1600 GRES=\n");
        let task = |state, restarts| {
            let task = [
                (F::ArrayId, "7"),
                (F::ArrayTask, "2"),
                (F::Restarts, restarts),
            ];
            [&[(F::Id, "9"), (F::State, state)][..], &task].concat()
        };
        check(&task("waiting", "0"), "JobId=7 ArrayJobId=7 ArrayTaskId=2 ");
        let mut apart = task("waiting", "0");
        apart.push((F::Apart, "1"));
        check(&apart, "JobId=9 ArrayJobId=7 ArrayTaskId=2 ");
        check(&task("waiting", "1"), "JobId=9 ArrayJobId=7 ArrayTaskId=2 ");
        check(&task("running", "0"), "JobId=9 ArrayJobId=7 ArrayTaskId=2 ");
        let mut with_gpus = running.to_vec();
        with_gpus.extend([(F::GpuIds, "n5:0-1;n6:2"), (F::Gres, "gpu:2")]);
        check(
            &with_gpus,
            "\n   JOB_GRES=gpu:3\n     Nodes=n5 CPU_IDs=0-15 Mem=1600 GRES=gpu:2(IDX:0-1)\n     \
             Nodes=n6 CPU_IDs=0-15 Mem=1600 GRES=gpu:1(IDX:2)\n",
        );
        check(&running, "\n   StartTime=1970-01-01T00:00:00 EndTime=1970-01-01T00:01:00 ");
        check(&running, "\n   Comment=abc \n   Power=\n");
        let mut noted = running.to_vec();
        noted.push((F::AdminComment, "look here"));
        check(&noted, "\n   AdminComment=look here \n   Comment=abc \n");
        check(&running, "\n   Power=\n   MailUser=ann MailType=BEGIN,END\n\n");
        check(&running, "\n   DerivedExitCode=0:0\n");
        let array = [
            (F::Id, "5"),
            (F::Ref, "5_[1-20%3]"),
            (F::ArrayId, "5"),
            (F::ArrayAtOnce, "3"),
            (F::State, "waiting"),
            (F::Name, "arr"),
        ];
        check(&array, "JobId=5 ArrayJobId=5 ArrayTaskId=1-20%3 ArrayTaskThrottle=3 JobName=arr\n");
        let never_ran = [(F::State, "cancelled"), (F::End, "0")];
        check(&never_ran, "\n   StartTime=1970-01-01T00:00:00 EndTime=1970-01-01T00:00:00 ");
    }
}
