//! `scontrol show step`. Source: scontrol(1), captures of 22.05.

use super::{Sheet, clean, or_null};
use crate::step::RunningStep;
use crate::times;
use cosy_model::Span;
use jiff::tz::TimeZone;

/// Id as users write it: `101.batch`, `101_3.0`.
pub fn id(step: &RunningStep) -> String {
    format!("{}.{}", step.job_name, step.step)
}

/// One step with all it has.
pub fn sheet(step: &RunningStep, zone: &TimeZone) -> Sheet {
    let RunningStep {
        // `id` tells these.
        job: _,
        job_name: _,
        step: _,
        name,
        queue,
        // The number stands for it here.
        user: _,
        uid,
        start,
        time_limit,
        nodes,
        node_count,
        tasks,
        cores,
        // `resources` tells it.
        memory: _,
    } = step;
    let mut sheet = Sheet::new();
    sheet
        .line(format!(
            "StepId={} UserId={} StartTime={} TimeLimit={}",
            id(step),
            uid.0,
            times::timestamp_or(*start, zone, "Unknown"),
            times::duration(time_limit.unwrap_or(Span::UNLIMITED))
        ))
        .line(format!(
            "State={} Partition={} NodeList={}",
            step.state(),
            clean(queue),
            or_null(&clean(nodes))
        ))
        .line(format!(
            "Nodes={node_count} CPUs={cores} Tasks={tasks} Name={} Network=(null)",
            clean(name)
        ))
        .line(format!("TRES={}", resources(step).as_deref().unwrap_or("(null)")))
        .line("ResvPorts=(null)")
        .line("CPUFreqReq=Default")
        .line("SrunHost:Pid=(null):0");
    sheet
}

/// `cpu=2,mem=200M,node=1`; none of the batch script, which shares those of the job.
fn resources(step: &RunningStep) -> Option<String> {
    let memory = step.memory.map(|all| format!("mem={}M,", all.0));
    let memory = memory.unwrap_or_default();
    (step.cores > 0).then(|| format!("cpu={},{memory}node={}", step.cores, step.node_count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::tests::script;
    use cosy_model::{MiB, Time};

    #[test]
    fn as_captured() {
        let script = script(Time::from_secs(1_795_227_628));
        let want = "StepId=101.batch UserId=33 StartTime=2026-11-21T02:20:28 TimeLimit=UNLIMITED\n   \
            State=RUNNING Partition=main NodeList=n5\n   \
            Nodes=1 CPUs=0 Tasks=1 Name=batch Network=(null)\n   \
            TRES=(null)\n   ResvPorts=(null)\n   CPUFreqReq=Default\n   \
            SrunHost:Pid=(null):0\n\n";
        assert_eq!(sheet(&script, &TimeZone::UTC).text(false), want);
        let started = RunningStep {
            step: "0".into(),
            cores: 2,
            memory: Some(MiB(200)),
            ..script
        };
        let text = sheet(&started, &TimeZone::UTC).text(true);
        assert!(text.contains(" TRES=cpu=2,mem=200M,node=1 "), "{text}");
    }
}
