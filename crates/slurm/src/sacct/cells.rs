//! The values of records. Source: sacct(1).

use super::fields::Field;
use super::rows::{Part, Row, Usage};
use crate::job::{RequestedMemory, exit_text};
use crate::show::mebibytes;
use crate::times::{TimeWriter, duration};
use crate::tres::Item;
use cosy_model::api::JobField as F;
use cosy_model::{Span, Time, hostlist};

/// How values are shown.
#[derive(Clone, Debug)]
pub struct ValueStyle {
    /// Points of time.
    pub stamps: TimeWriter,
    /// Sizes stay as they are.
    pub raw_sizes: bool,
    /// All sizes in this unit: a letter of `KMGTP`.
    pub unit: Option<char>,
}

/// Codes that shells make of signals are told as those: 143 is `15:0` (`recordings/preempt.txt`).
const fn accounted((code, signal): (i64, i64)) -> (i64, i64) {
    match code {
        128.. => (code - 128, signal),
        _ => (code, signal),
    }
}

/// The value of `field`.
pub fn cell(field: Field, row: &Row<'_>, look: &ValueStyle) -> String {
    let job = &row.job;
    let whole = |text: String| if row.is_whole() { text } else { String::new() };
    let text = |f: F| clean(job.text(f));
    match field {
        Field::Account => text(F::Account),
        Field::AllocCPUS | Field::NCPUS => number(allocated(row, row.cores())),
        Field::AllocNodes => number(allocated(row, row.node_count())),
        Field::NNodes => number(row.node_count()),
        Field::AllocTRES => allocated_tres(row),
        Field::ReqTRES => whole(job.tres_asked().by_name()),
        Field::AssocID | Field::DBIndex | Field::WCKeyID => whole("0".to_owned()),
        Field::Cluster => job.around().cluster.clone(),
        Field::Comment => whole(text(F::Comment)),
        Field::Constraints => whole(text(F::Constraint)),
        Field::CPUTime => duration(Span::from_secs(cpu_seconds(row))),
        Field::CPUTimeRAW => number(cpu_seconds(row)),
        Field::DerivedExitCode => whole(exit_text(job.derived_exit())),
        Field::Elapsed => duration(row.elapsed()),
        Field::ElapsedRaw => number(row.elapsed().secs()),
        Field::Eligible => whole(stamp(job.time(F::Eligible), look, "Unknown")),
        Field::Start => stamp(row.start(), look, never(row)),
        Field::End => stamp(row.end(), look, "Unknown"),
        Field::Submit => match row.is_whole() {
            true => stamp(job.time(F::Submit), look, "Unknown"),
            false => stamp(row.start(), look, "Unknown"),
        },
        Field::ExitCode => exit_text(accounted(row.exit())),
        Field::FailedNode => whole(text(F::FailedNodes)),
        Field::Flags => whole(String::new()),
        Field::GID => whole(number(job.count(F::Gid))),
        Field::Group => {
            let name = job.around().groups.get(&job.count(F::Gid));
            whole(name.map_or_else(|| number(job.count(F::Gid)), |n| clean(n)))
        }
        Field::JobID => row.id(),
        Field::JobIDRaw => row.raw_id(),
        Field::JobName => clean(row.name()),
        Field::Layout => match row.is_whole() {
            true => String::new(),
            false => "Unknown".to_owned(),
        },
        Field::NodeList if row.nodes().is_empty() => "None assigned".to_owned(),
        Field::NodeList => row.nodes().to_owned(),
        Field::NTasks => row.tasks().map_or_else(String::new, number),
        Field::Partition => whole(job.partition().to_owned()),
        Field::Planned | Field::Reserved => whole(duration(planned(row))),
        Field::PlannedCPU | Field::ResvCPU => {
            let seconds = planned(row).secs().saturating_mul(job.cores());
            whole(duration(Span::from_secs(seconds)))
        }
        Field::PlannedCPURAW | Field::ResvCPURAW => {
            whole(number(planned(row).secs().saturating_mul(job.cores())))
        }
        Field::Priority => whole(number(job.count(F::Priority))),
        Field::QOS => whole(text(F::Qos)),
        Field::QOSRAW => whole("0".to_owned()),
        Field::Reason => whole(job.reason().to_owned()),
        Field::ReqCPUS => number(row.cores()),
        Field::ReqMem => whole(memory(row, look)),
        Field::ReqNodes => number(row.node_count()),
        Field::Reservation => whole(reservation(row)),
        Field::ReservationId => whole(job.number(F::Reservation).map_or_else(String::new, number)),
        Field::State => row.state_text(),
        Field::SubmitLine => whole(text(F::SubmitLine)),
        Field::Suspended => {
            let span = job.span(F::SuspendedFor).unwrap_or(Span(0));
            duration(span)
        }
        Field::Timelimit => whole(limit(row)),
        Field::TimelimitRaw => whole(match job.limit() {
            Some(span) if !span.is_unlimited() => number(span.secs() / 60),
            Some(_) => "UNLIMITED".to_owned(),
            None => "Partition_Limit".to_owned(),
        }),
        Field::UID => whole(number(job.count(F::Uid))),
        Field::User => whole(text(F::User)),
        Field::WCKey => whole(text(F::Wckey)),
        Field::WorkDir => whole(text(F::Workdir)),
        Field::TotalCPU | Field::UserCPU | Field::SystemCPU => processor(field, row),
        other => used(other, row, look),
    }
}

/// What a step has used: of a whole job only energy, as Slurm tells the rest of steps alone.
fn used(field: Field, row: &Row<'_>, look: &ValueStyle) -> String {
    if let (Field::ConsumedEnergy | Field::ConsumedEnergyRaw, Some(joules)) =
        (field, row.energy_joules())
    {
        return match field {
            Field::ConsumedEnergy => in_thousands(joules),
            _ => number(joules),
        };
    }
    let Some(usage) = row.usage().filter(|_| !row.is_whole()) else {
        return String::new();
    };
    let tasks = row.tasks().unwrap_or(1).max(1);
    let spent = usage.user_us.saturating_add(usage.system_us);
    let node = || hostlist::first(row.nodes()).unwrap_or_default();
    match field {
        Field::MaxRSS | Field::AveRSS => size(usage.peak_bytes, look),
        Field::MaxRSSNode | Field::MinCPUNode => node(),
        Field::MaxRSSTask | Field::MinCPUTask => "0".to_owned(),
        Field::AveCPU | Field::MinCPU => duration(Span::from_secs(spent / tasks / 1_000_000)),
        Field::TRESUsageInMax | Field::TRESUsageInAve | Field::TRESUsageInTot => {
            tres_in(row, &usage, look)
        }
        Field::TRESUsageOutMax | Field::TRESUsageOutAve | Field::TRESUsageOutTot => {
            let energy = row.energy_joules().map(|joules| format!("energy={joules}"));
            let disk = usage.written_bytes.map(|n| format!("fs/disk={n}"));
            energy.into_iter().chain(disk).collect::<Vec<_>>().join(",")
        }
        Field::MaxDiskRead | Field::AveDiskRead => disk(usage.read_bytes, field, tasks),
        Field::MaxDiskWrite | Field::AveDiskWrite => disk(usage.written_bytes, field, tasks),
        Field::MaxDiskReadNode if usage.read_bytes.is_some() => node(),
        Field::MaxDiskWriteNode if usage.written_bytes.is_some() => node(),
        Field::MaxDiskReadTask if usage.read_bytes.is_some() => "0".to_owned(),
        Field::MaxDiskWriteTask if usage.written_bytes.is_some() => "0".to_owned(),
        Field::ConsumedEnergy | Field::ConsumedEnergyRaw => "0".to_owned(),
        Field::ReqCPUFreq | Field::ReqCPUFreqGov | Field::ReqCPUFreqMax | Field::ReqCPUFreqMin => {
            "0".to_owned()
        }
        _ => String::new(),
    }
}

/// GPUs are measured of the job as a whole, and told with its script.
fn tres_in(row: &Row<'_>, usage: &Usage, look: &ValueStyle) -> String {
    let spent = usage.user_us.saturating_add(usage.system_us);
    let mut parts = vec![format!(
        "cpu={}",
        duration(Span::from_secs(spent / 1_000_000))
    )];
    parts.extend(usage.read_bytes.map(|n| format!("fs/disk={n}")));
    parts.push(format!("mem={}", size(usage.peak_bytes, look)));
    if matches!(row.part, Part::Batch) {
        let used = row.devices();
        let memory = used.gpu_memory_bytes.map(|n| size(n, look));
        parts.extend(memory.map(|size| format!("gres/gpumem={size}")));
        let busy = used.gpu_busy_permille.map(|permille| permille / 10);
        parts.extend(busy.map(|percent| format!("gres/gpuutil={percent}")));
    }
    parts.join(",")
}

/// Bytes of disks as Slurm tells them: MiB with two decimals, larger units from 1024 of them on, and
/// nothing where it is not known.
fn disk(bytes: Option<i64>, field: Field, tasks: i64) -> String {
    let Some(all) = bytes else {
        return String::new();
    };
    let each = matches!(field, Field::AveDiskRead | Field::AveDiskWrite);
    let mut amount = all as f64 / if each { tasks as f64 } else { 1.0 } / 1_048_576.0;
    if amount <= 0.0 {
        return "0".to_owned();
    }
    let mut units = ["M", "G", "T"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while amount >= 1024.0
        && let Some(next) = units.next()
    {
        (amount, unit) = (amount / 1024.0, next);
    }
    format!("{amount:.2}{unit}")
}

/// `999`, `1K`, `12.35M`: in steps of a thousand, with two decimals where there are some.
fn in_thousands(n: i64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let mut size = 1_i64;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    while n / size >= 1000
        && let Some(next) = units.next()
    {
        (size, unit) = (size.saturating_mul(1000), next);
    }
    match n % size {
        0 => format!("{}{unit}", n / size),
        _ => format!("{:.2}{unit}", n as f64 / size as f64),
    }
}

fn clean(text: &str) -> String {
    crate::show::clean(text)
}

fn number(n: i64) -> String {
    n.to_string()
}

/// Nothing is allocated to a job that waits or never ran.
fn allocated(row: &Row<'_>, n: i64) -> i64 {
    if row.job.text(F::Nodes).is_empty() {
        0
    } else {
        n
    }
}

fn cpu_seconds(row: &Row<'_>) -> i64 {
    let cores = allocated(row, row.cores());
    row.elapsed().secs().saturating_mul(cores)
}

fn stamp(at: Option<Time>, look: &ValueStyle, without: &str) -> String {
    at.map_or_else(|| without.to_owned(), |at| look.stamps.text(at))
}

/// What is told as start of what has none.
fn never(row: &Row<'_>) -> &'static str {
    if row.job.our_state().is_end() {
        "None"
    } else {
        "Unknown"
    }
}

fn allocated_tres(row: &Row<'_>) -> String {
    let Some(held) = row.job.tres_held() else {
        return String::new();
    };
    if row.is_whole() {
        return held.by_name();
    }
    let memory = match held.memory {
        0 => String::new(),
        mib => format!(",{}", Item::memory(mib)),
    };
    format!("cpu={}{memory},node={}", row.cores(), row.node_count())
}

fn planned(row: &Row<'_>) -> Span {
    let from = row
        .job
        .time(F::Eligible)
        .or_else(|| row.job.time(F::Submit));
    let until = row
        .job
        .time(F::Start)
        .or(row.job.time(F::End))
        .unwrap_or(row.now);
    from.map_or(Span(0), |from| until.since(from))
}

fn limit(row: &Row<'_>) -> String {
    match row.job.limit() {
        Some(span) => duration(span),
        None => "Partition_Limit".to_owned(),
    }
}

fn reservation(row: &Row<'_>) -> String {
    match row.job.number(F::Reservation) {
        Some(id) => match row.job.around().reservations.get(&id) {
            Some(name) => clean(name),
            None => number(id),
        },
        None => String::new(),
    }
}

fn memory(row: &Row<'_>, look: &ValueStyle) -> String {
    let job = &row.job;
    let times = |mib: u64, n: i64| mib.saturating_mul(n.unsigned_abs());
    let mib = match job.memory() {
        RequestedMemory::PerCore(mib) => times(mib, job.cores()),
        RequestedMemory::PerNode(mib) => times(mib, job.nodes().max(1)),
        RequestedMemory::Nothing => return String::new(),
    };
    match (look.unit, look.raw_sizes) {
        (Some(_), _) => size(signed(mib.saturating_mul(1 << 20)), look),
        (None, true) => format!("{mib}M"),
        (None, false) => mebibytes(mib),
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Bytes: in the unit that was asked for, as they are, or in KiB and upwards as long as
/// nothing is lost.
fn size(bytes: i64, look: &ValueStyle) -> String {
    const UNITS: [char; 6] = ['B', 'K', 'M', 'G', 'T', 'P'];
    let bytes = bytes.max(0);
    if let Some(at) = look.unit.and_then(|u| UNITS.iter().position(|x| *x == u)) {
        let divisor = 1_i64 << (10 * at);
        let hundredths = i128::from(bytes) * 100 / i128::from(divisor);
        let (units, rest) = (hundredths / 100, hundredths % 100);
        let fraction = if rest == 0 {
            String::new()
        } else {
            format!(".{rest:02}")
        };
        return format!("{units}{fraction}{}", UNITS[at]);
    }
    if bytes == 0 || look.raw_sizes {
        return bytes.to_string();
    }
    let mut kib = bytes.saturating_add(1023) / 1024;
    let mut at = 1;
    while at + 1 < UNITS.len() && kib % 1024 == 0 {
        kib /= 1024;
        at += 1;
    }
    format!("{kib}{}", UNITS[at])
}

fn processor(field: Field, row: &Row<'_>) -> String {
    let usage = row.usage().unwrap_or_default();
    let spent = match field {
        Field::UserCPU => usage.user_us,
        Field::SystemCPU => usage.system_us,
        _ => usage.user_us.saturating_add(usage.system_us),
    };
    spent_text(spent)
}

/// `00:00.015`, `01:00:05`, `1-02:03:04`.
pub(crate) fn spent_text(microseconds: i64) -> String {
    let (seconds, rest) = (microseconds.max(0) / 1_000_000, microseconds.max(0) % 1_000_000);
    if seconds >= 3600 {
        return duration(Span::from_secs(seconds));
    }
    format!("{:02}:{:02}.{:03}", seconds / 60, seconds % 60, rest / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::table;
    use crate::job::{ClusterFacts, JobView};
    use crate::sacct::fields::columns;
    use crate::sacct::form::{Form, heading, line};
    use crate::sacct::rows::UsedDevices;
    use crate::times::TimeFormat;
    use cosy_model::api::{JobRef, StepRow};
    use cosy_model::step::StepRecord;
    use cosy_model::{Attempt, DeviceUse, End, EndCause, JobId, MiB, StepId};

    fn look() -> ValueStyle {
        let now: jiff::Zoned = "2026-11-21T02:20:31+00:00[+00:00]".parse().unwrap();
        ValueStyle {
            stamps: TimeWriter::new(&now, TimeFormat::Standard),
            raw_sizes: false,
            unit: None,
        }
    }

    fn step() -> StepRow {
        StepRow {
            job: JobRef {
                job: JobId(7),
                task: Some(0),
            },
            attempt: Attempt(1),
            record: StepRecord {
                step: StepId(0),
                name: "hostname".into(),
                nodes: "n[1-2]".into(),
                tasks: 2,
                cores: 4,
                end: End {
                    cause: EndCause::Exited,
                    exit_code: 3,
                    signal: 0,
                    start: Some(Time(1_795_227_628_000)),
                    end: Time(1_795_227_630_000),
                    user_cpu_us: 1_500_000,
                    system_cpu_us: 500_000,
                    peak_memory_bytes: 4 << 20,
                    devices: DeviceUse::default(),
                },
            },
        }
    }

    #[test]
    fn job_and_steps() {
        let table = table(&[&[
            (F::Id, "8"),
            (F::Ref, "7_0"),
            (F::ArrayId, "7"),
            (F::Name, "a-rather-long-name"),
            (F::State, "cancelled"),
            (F::Queue, "main"),
            (F::Account, "phys"),
            (F::Nodes, "n[1-2]"),
            (F::NodeCount, "2"),
            (F::Cores, "8"),
            (F::BatchHost, "n1"),
            (F::Batch, "1"),
            (F::Signal, "15"),
            (F::Start, "1795227628000"),
            (F::End, "1795227638000"),
            (F::Elapsed, "10000"),
            (F::UserCpu, "15000"),
            (F::SystemCpu, "0"),
            (F::PeakMemory, "1536"),
            (F::TimeLimit, "3600000"),
        ]]);
        let around = ClusterFacts {
            default_memory: [("main".to_owned(), MiB(100))].into(),
            ..ClusterFacts::default()
        };
        let steps = [step()];
        let view = JobView::new(&table, 0, &around);
        let rows = Row::of_job(view, &steps, &[], Some(33), Time(1_795_227_640_000));
        let check = |format: &str, want: &str| {
            let columns = columns(format).unwrap();
            let form = Form::Between("|".to_owned());
            let mut text = heading(&columns, &form);
            for row in &rows {
                let cells = columns.iter().map(|c| cell(c.field, row, &look()));
                text.push_str(&line(&columns, &form, cells));
            }
            assert_eq!(text, want, "{format}");
        };
        check(
            "jobid,jobidraw,state,exitcode",
            "JobID|JobIDRaw|State|ExitCode\n7_0|8|CANCELLED by 33|0:0\n\
             7_0.batch|8.batch|CANCELLED|0:15\n\
             7_0.0|8.0|FAILED|3:0\n",
        );
        check(
            "jobname,partition,account,alloccpus,ntasks,nodelist,elapsed",
            "JobName|Partition|Account|AllocCPUS|NTasks|NodeList|Elapsed\n\
             a-rather-long-name|main|phys|8||n[1-2]|00:00:10\nbatch||phys|4|1|n1|00:00:10\n\
             hostname||phys|4|2|n[1-2]|00:00:02\n",
        );
        check(
            "maxrss,totalcpu,reqmem,alloctres,timelimitraw",
            "MaxRSS|TotalCPU|ReqMem|AllocTRES|TimelimitRaw\n\
             |00:00.015|800M|billing=8,cpu=8,mem=800M,node=2|60\n\
             2K|00:00.015||cpu=4,mem=800M,node=1|\n\
             4M|00:02.000||cpu=4,mem=800M,node=2|\n",
        );
        check("maxrssnode,mincpunode", "MaxRSSNode|MinCPUNode\n|\nn1|n1\nn1|n1\n");
    }

    /// A job with its script and a step, as `format` has them.
    #[track_caller]
    fn check_job(more: &[(F, &str)], live: Option<UsedDevices>, format: &str, want: &[&str]) {
        let mut fields = vec![
            (F::Id, "8"),
            (F::Ref, "8"),
            (
                F::State,
                if live.is_some() {
                    "running"
                } else {
                    "completed"
                },
            ),
            (F::Nodes, "n[1-2]"),
            (F::NodeCount, "2"),
            (F::Cores, "8"),
            (F::BatchHost, "n1"),
            (F::Batch, "1"),
            (F::Start, "1795227628000"),
            (F::Elapsed, "10000"),
            (F::UserCpu, "15000"),
            (F::PeakMemory, "1536"),
        ];
        fields.extend(more);
        let table = table(&[&fields]);
        let around = ClusterFacts::default();
        let steps = [step()];
        let view = JobView::new(&table, 0, &around);
        let mut rows = Row::of_job(view, &steps, &[], None, Time(1_795_227_640_000));
        let columns = columns(format).unwrap();
        let form = Form::Between("|".to_owned());
        let told = rows.iter_mut().map(|row| {
            row.live_devices = live;
            row.live = live.map(|_| Usage {
                read_bytes: Some(3 << 29),
                written_bytes: Some(4096),
                ..Usage::default()
            });
            let cells = columns.iter().map(|c| cell(c.field, row, &look()));
            line(&columns, &form, cells).trim_end().to_owned()
        });
        assert_eq!(told.collect::<Vec<_>>(), want, "{format}");
    }

    #[test]
    fn energy_is_shared_by_cores_and_time() {
        let energy = "consumedenergy,consumedenergyraw,tresusageouttot";
        // The script has 4 of 8 cores all the time, the step 4 for 2 of 10 seconds.
        let known = [(F::Energy, "123456")];
        check_job(
            &known,
            None,
            energy,
            &[
                "123.46K|123456|",
                "61.73K|61728|energy=61728",
                "12.35K|12345|energy=12345",
            ],
        );
        check_job(&[], None, energy, &["||", "0|0|", "0|0|"]);
        // Of one that runs the first node is known: the script has all that the job has there.
        let live = UsedDevices {
            energy_joules: Some(1000),
            ..UsedDevices::default()
        };
        let disk = "energy=1000,fs/disk=4096";
        let step = "energy=100,fs/disk=4096";
        check_job(
            &[],
            Some(live),
            energy,
            &[
                "1K|1000|",
                &format!("1K|1000|{disk}"),
                &format!("100|100|{step}"),
            ],
        );
    }

    #[test]
    fn gpus_are_told_with_the_script() {
        let known = [(F::GpuBusy, "459"), (F::GpuMemory, "3221225472")];
        let want = [
            "",
            "cpu=00:00:00,mem=2K,gres/gpumem=3G,gres/gpuutil=45",
            "cpu=00:00:02,mem=4M",
        ];
        check_job(&known, None, "tresusageinmax", &want);
    }

    #[test]
    fn disks_while_it_runs() {
        let live = Some(UsedDevices::default());
        let all =
            "maxdiskread,avediskread,maxdiskreadnode,maxdiskreadtask,maxdiskwrite,tresusageintot";
        let script = "1.50G|1.50G|n1|0|0.00M|cpu=00:00:00,fs/disk=1610612736,mem=0";
        let step = "1.50G|768.00M|n1|0|0.00M|cpu=00:00:00,fs/disk=1610612736,mem=0";
        check_job(&[], live, all, &["|||||", script, step]);
        check_job(&[], None, "maxdiskread,maxdiskreadnode", &["|", "|", "|"]);
        assert_eq!(disk(Some(0), Field::MaxDiskRead, 1), "0");
    }

    #[test]
    fn thousands() {
        let check = |n: i64, want: &str| assert_eq!(in_thousands(n), want);
        check(0, "0");
        check(999, "999");
        check(1000, "1K");
        check(12_345_678, "12.35M");
        check(i64::MAX, "9223372.04T");
    }

    #[test]
    fn sizes() {
        let check = |bytes: i64, unit: Option<char>, raw: bool, want: &str| {
            let look = ValueStyle {
                unit,
                raw_sizes: raw,
                ..look()
            };
            assert_eq!(size(bytes, &look), want);
        };
        check(0, None, false, "0");
        check(1536, None, false, "2K");
        check(1 << 30, None, false, "1G");
        check(1536 << 10, Some('M'), false, "1.50M");
        check(1 << 30, Some('K'), false, "1048576K");
        check(2048, None, true, "2048");
        check(i64::MAX, Some('P'), false, "8191.99P");
    }

    #[test]
    fn processor_time() {
        assert_eq!(spent_text(15_000), "00:00.015");
        assert_eq!(spent_text(61_000_000), "01:01.000");
        assert_eq!(spent_text(3_605_000_000), "01:00:05");
    }
}
