//! `seff`: how well a job used what it held. Source: observed output of Slurm's contributed
//! script.

use super::rows::Row;
use crate::job::{JobView, RequestedMemory};
use crate::times::duration;
use cosy_model::api::JobField as F;
use cosy_model::{JobState, Span};
use cosy_view::phrase;
use std::fmt::Write;

/// The report on one job, out of its records.
pub fn report(rows: &[Row<'_>]) -> String {
    let Some(whole) = rows.iter().find(|r| r.is_whole()) else {
        return String::new();
    };
    let job = &whole.job;
    let mut text = String::new();
    heading(&mut text, whole);
    if job.waits() {
        text.push_str("Efficiency not available for jobs in the PENDING state.\n");
        return text;
    }
    let wall = whole.elapsed().secs();
    let core_wall = wall.saturating_mul(job.cores());
    let used = whole.usage().unwrap_or_default();
    let used = used.user_us.saturating_add(used.system_us) / 1_000_000;
    let clock = |seconds| duration(Span::from_secs(seconds));
    let _ = writeln!(text, "CPU Utilized: {}", clock(used));
    let _ = writeln!(
        text,
        "CPU Efficiency: {}% of {} core-walltime",
        percent(used, core_wall),
        clock(core_wall)
    );
    let _ = writeln!(text, "Job Wall-clock time: {}", clock(wall));
    memory(&mut text, rows, job);
    devices(&mut text, whole);
    if job.our_state() == JobState::Running {
        text.push_str("WARNING: Efficiency statistics may be misleading for RUNNING jobs.\n");
    }
    text
}

fn heading(text: &mut String, whole: &Row<'_>) {
    let job = &whole.job;
    let group = job.around().groups.get(&job.count(F::Gid));
    let gid = job.count(F::Gid).to_string();
    let _ = writeln!(text, "Job ID: {}", job.raw_id());
    if job.number(F::ArrayId).is_some() {
        let _ = writeln!(text, "Array Job ID: {}", job.text(F::Ref));
    }
    let _ = writeln!(text, "Cluster: {}", job.around().cluster);
    let _ = writeln!(text, "User/Group: {}/{}", job.text(F::User), group.unwrap_or(&gid));
    let (code, _) = whole.exit();
    let state = whole.state().name();
    if job.our_state().is_end() {
        let _ = writeln!(text, "State: {state} (exit code {code})");
    } else {
        let _ = writeln!(text, "State: {state}");
    }
    let nodes = job.nodes().max(1);
    if nodes > 1 {
        let _ = writeln!(text, "Nodes: {nodes}");
        let _ = writeln!(text, "Cores per node: {}", job.cores() / nodes);
    } else {
        let _ = writeln!(text, "Cores: {}", job.cores());
    }
}

fn memory(text: &mut String, rows: &[Row<'_>], job: &JobView<'_>) {
    let peak = rows.iter().filter_map(|r| r.usage()).map(|u| u.peak_bytes);
    let peak = peak.max().unwrap_or(0);
    let _ = writeln!(text, "Memory Utilized: {}", size(peak));
    let bytes = |mib: u64, times: i64| {
        let all = mib
            .saturating_mul(times.unsigned_abs())
            .saturating_mul(1 << 20);
        i64::try_from(all).unwrap_or(i64::MAX)
    };
    let (asked, each) = match job.memory() {
        RequestedMemory::PerCore(mib) => {
            (bytes(mib, job.cores()), format!("{}/core", size(bytes(mib, 1))))
        }
        RequestedMemory::PerNode(mib) => {
            (bytes(mib, job.nodes().max(1)), format!("{}/node", size(bytes(mib, 1))))
        }
        RequestedMemory::Nothing => (0, String::new()),
    };
    let each = if each.is_empty() {
        String::new()
    } else {
        format!(" ({each})")
    };
    let _ = writeln!(text, "Memory Efficiency: {}% of {}{each}", percent(peak, asked), size(asked));
}

/// What is known of it, which Slurm's script does not tell.
fn devices(text: &mut String, whole: &Row<'_>) {
    let used = whole.devices();
    if let Some(permille) = used.gpu_busy_permille {
        let gpus = whole.job.count(F::Gpus).max(1).unsigned_abs();
        let gpus = phrase::count(gpus, "GPU", "GPUs");
        let _ = writeln!(text, "GPU Efficiency: {}% of {gpus}", percent(permille, 1000));
    }
    if let Some(bytes) = used.gpu_memory_bytes {
        let _ = writeln!(text, "GPU Memory Utilized: {}", size(bytes));
    }
    if let Some(joules) = used.energy_joules {
        let energy = phrase::energy(joules.unsigned_abs());
        let _ =
            writeln!(text, "Energy: {energy} (estimate: share by cores of what its nodes took)");
    }
}

/// With two decimals; 0 of nothing.
fn percent(part: i64, whole: i64) -> String {
    let hundredths = match whole {
        0 => 0,
        whole => i128::from(part) * 10_000 / i128::from(whole),
    };
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// With two decimals in the largest unit that makes at least 1.
fn size(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    let bytes = i128::from(bytes.max(0));
    let mut at = 0;
    let mut unit = 1024_i128;
    while at + 1 < UNITS.len() && bytes >= unit * 1024 {
        unit *= 1024;
        at += 1;
    }
    let hundredths = bytes * 100 / unit;
    format!("{}.{:02} {}", hundredths / 100, hundredths % 100, UNITS[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ClusterFacts;
    use crate::job::tests::table;
    use crate::sacct::rows::UsedDevices;
    use cosy_model::Time;

    #[test]
    fn reports() {
        let table = table(&[&[
            (F::Id, "12"),
            (F::Ref, "12"),
            (F::User, "ann"),
            (F::State, "completed"),
            (F::Nodes, "n1"),
            (F::NodeCount, "1"),
            (F::Cores, "2"),
            (F::Start, "0"),
            (F::End, "100000"),
            (F::Elapsed, "100000"),
            (F::UserCpu, "140000000"),
            (F::SystemCpu, "10000000"),
            (F::PeakMemory, "157286400"),
            (F::MinMemoryPerNode, "1024"),
            (F::Batch, "1"),
        ]]);
        let around = ClusterFacts {
            cluster: "base".into(),
            groups: [(0, "users".to_owned())].into(),
            ..ClusterFacts::default()
        };
        let view = JobView::new(&table, 0, &around);
        let rows = Row::of_job(view, &[], &[], None, Time(0));
        let want = "Job ID: 12\nCluster: base\nUser/Group: ann/users\n\
            State: COMPLETED (exit code 0)\nCores: 2\nCPU Utilized: 00:02:30\n\
            CPU Efficiency: 75.00% of 00:03:20 core-walltime\nJob Wall-clock time: 00:01:40\n\
            Memory Utilized: 150.00 MB\nMemory Efficiency: 14.64% of 1.00 GB (1.00 GB/node)\n";
        assert_eq!(report(&rows), want);
        assert_eq!(report(&[]), "");
        let mut rows = rows;
        rows.iter_mut().for_each(|row| {
            row.live_devices = Some(UsedDevices {
                energy_joules: Some(4_400_000),
                gpu_busy_permille: Some(459),
                gpu_memory_bytes: Some(3 << 30),
            });
        });
        let more = "GPU Efficiency: 45.90% of 1 GPU\nGPU Memory Utilized: 3.00 GB\n\
            Energy: 1.2 kWh (estimate: share by cores of what its nodes took)\n";
        assert_eq!(report(&rows), format!("{want}{more}"));
    }

    #[test]
    fn jobs_that_have_not_ended() {
        let last = |state: &str| {
            let table = table(&[&[(F::Id, "12"), (F::Ref, "12"), (F::State, state)]]);
            let around = ClusterFacts::default();
            let view = JobView::new(&table, 0, &around);
            let text = report(&Row::of_job(view, &[], &[], None, Time(0)));
            text.lines().last().unwrap_or_default().to_owned()
        };
        let waits = "Efficiency not available for jobs in the PENDING state.";
        assert_eq!(last("waiting"), waits);
        let runs = "WARNING: Efficiency statistics may be misleading for RUNNING jobs.";
        assert_eq!(last("running"), runs);
    }

    #[test]
    fn nothing_divides_nothing() {
        assert_eq!(percent(5, 0), "0.00");
        assert_eq!(size(0), "0.00 KB");
        assert_eq!(size(i64::MAX), "8192.00 PB".replace("8192.00", "8191.99"));
    }
}
