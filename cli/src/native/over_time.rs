//! What a running job used over time, in three lines: cores, memory, disks.

use crate::units::bytes;
use cosy_model::step::{JobSamples, NodeSummary};
use cosy_model::{MiB, Span};
use cosy_view::phrase::{count, energy};

/// From nothing to all.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Where a terminal shows no others.
const PLAIN: [char; 8] = ['_', '.', '.', ':', ':', '|', '|', '#'];
/// Columns of a curve.
const WIDTH: usize = 40;

/// Title and text of each line; none before there are two measurements.
pub fn lines(all: &JobSamples, blocks: bool) -> Vec<(String, String)> {
    let levels = if blocks { &LEVELS } else { &PLAIN };
    let stretches: Vec<_> = all.stretches().collect();
    let Some(last) = stretches.last() else {
        return Vec::new();
    };
    let busy: Vec<f64> = stretches.iter().map(|s| s.busy_cores).collect();
    let memory: Vec<f64> = stretches.iter().map(|s| s.memory_bytes as f64).collect();
    let most_busy = busy.iter().copied().fold(0.0, f64::max);
    let cores = f64::from(all.cores);
    let busy_line = format!(
        "{}  {:.1} of {} now, {most_busy:.1} at most",
        curve(&busy, cores.max(most_busy), levels),
        last.busy_cores,
        all.cores,
    );
    let given = all.memory.map(MiB::bytes);
    let scale = given.unwrap_or(all.peak_bytes).max(all.peak_bytes);
    let of = all.memory.map_or_else(String::new, |m| format!(" of {m}"));
    let memory_line = format!(
        "{}  {}{of} now, {} at most",
        curve(&memory, scale as f64, levels),
        size(last.memory_bytes),
        size(all.peak_bytes),
    );
    let mut lines = vec![
        ("cores".to_owned(), busy_line),
        ("memory".to_owned(), memory_line),
    ];
    let latest = all.samples.last();
    lines.extend(gpus(all, levels));
    if let Some(joules) = all.devices.energy_joules() {
        let text = format!("{} so far, estimated from what the node takes", energy(joules));
        lines.push(("energy".to_owned(), text));
    }
    let disks = latest.and_then(|s| Some((s.read_bytes?, s.written_bytes?)));
    if let Some((read, written)) = disks.filter(|(read, written)| read + written > 0) {
        lines.push(("disks".to_owned(), format!("{} read, {} written", size(read), size(written))));
    }
    if let Some(stall) = latest
        .and_then(|s| s.memory_stall)
        .filter(|stall| *stall >= 100)
    {
        let text = format!("{}% of the last minute it waited for memory", stall / 10);
        lines.push((String::new(), text));
    }
    lines.extend(others(all));
    if let Some((title, _)) = lines.first_mut() {
        let from = all.samples.first().zip(latest);
        let since = from.map_or(Span::ZERO, |(first, last)| last.at.since(first.at));
        *title = format!("cores, {}", crate::units::brief(since));
    }
    lines
}

/// How a job of several nodes uses them: on which it needs most and least.
fn others(all: &JobSamples) -> Option<(String, String)> {
    if all.others.is_empty() {
        return None;
    }
    let nodes: Vec<NodeSummary> = std::iter::once(all.summary())
        .chain(all.others.iter().cloned())
        .collect();
    let most = nodes.iter().max_by_key(|node| node.peak_bytes)?;
    let least = nodes.iter().min_by_key(|node| node.peak_bytes)?;
    let mut text = format!(
        "{} had most memory ({}), {} least ({})",
        most.node,
        size(most.peak_bytes),
        least.node,
        size(least.peak_bytes)
    );
    let busy = nodes.iter().filter(|node| node.busy_millicores.is_some());
    let cores = |node: &NodeSummary| {
        let tenths = node.busy_millicores.unwrap_or(0) / 100;
        let all = count(node.cores.into(), "core", "cores");
        format!("{}.{} of {all}", tenths / 10, tenths % 10)
    };
    let most = busy.clone().max_by_key(|node| node.busy_millicores);
    let least = busy.min_by_key(|node| node.busy_millicores);
    if let Some((most, least)) = most.zip(least) {
        let (most_cores, least_cores) = (cores(most), cores(least));
        text.push_str(&format!(
            "; {} was busiest ({most_cores}), {} least ({least_cores})",
            most.node, least.node
        ));
    }
    Some((format!("of {} nodes", nodes.len()), text))
}

/// How busy its GPUs were, and their memory; `None` where that is not known.
fn gpus(all: &JobSamples, levels: &[char; 8]) -> Option<(String, String)> {
    let known: Vec<f64> = all
        .samples
        .iter()
        .filter_map(|s| Some(f64::from(s.gpu_busy?)))
        .collect();
    let latest = all.samples.last()?;
    let memory = latest.gpu_memory_bytes.map(|used| {
        let of = all
            .gpu_memory_bytes
            .map_or_else(String::new, |all| format!(" of {}", size(all)));
        format!("{}{of} of memory", size(used))
    });
    let busy = latest
        .gpu_busy
        .map(|busy| format!("{}% busy now", busy / 10));
    let text: Vec<String> = busy.into_iter().chain(memory).collect();
    if all.gpus == 0 || text.is_empty() {
        return None;
    }
    let curve = curve(&known, 1000.0, levels);
    let space = if curve.is_empty() { "" } else { "  " };
    let title = if all.gpus == 1 { "GPU" } else { "GPUs" };
    Some((title.to_owned(), format!("{curve}{space}{}", text.join(", "))))
}

fn size(n: u64) -> String {
    bytes(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Figures as a row of characters; of many, several share one, which shows the largest.
fn curve(figures: &[f64], most: f64, levels: &[char; 8]) -> String {
    let each = figures.len().div_ceil(WIDTH).max(1);
    let level = |chunk: &[f64]| {
        let largest = chunk.iter().copied().fold(0.0, f64::max);
        let part = if most > 0.0 { largest / most } else { 0.0 };
        // From 0 to 8; what is all belongs to the last level.
        let at = (part * 8.0).floor().clamp(0.0, 7.0) as usize;
        levels.get(at).copied().unwrap_or(' ')
    };
    figures.chunks(each).map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Time;
    use cosy_model::step::Sample;

    fn samples(figures: &[(u64, u64)]) -> JobSamples {
        let sample = |(at, (cpu_s, mib)): (usize, &(u64, u64))| Sample {
            at: Time(at as i64 * 30_000),
            cpu_us: cpu_s * 1_000_000,
            memory_bytes: mib << 20,
            read_bytes: Some(3 << 20),
            written_bytes: Some(0),
            ..Sample::default()
        };
        JobSamples {
            node: "n1".to_owned(),
            cores: 4,
            memory: Some(MiB(1024)),
            interval: Span::from_secs(30),
            peak_bytes: 1 << 30,
            samples: figures.iter().enumerate().map(sample).collect(),
            ..JobSamples::default()
        }
    }

    fn told(all: &JobSamples) -> Vec<String> {
        let lines = lines(all, true).into_iter();
        lines
            .map(|(title, text)| format!("{title}: {text}"))
            .collect()
    }

    #[test]
    fn cores_and_memory() {
        let all = samples(&[(0, 0), (120, 256), (150, 1024), (150, 512)]);
        let want = [
            "cores, 1m30s: █▃▁  0.0 of 4 now, 4.0 at most",
            "memory: ▃█▅  512M of 1G now, 1.0G at most",
            "disks: 3.0M read, 0B written",
        ];
        assert_eq!(told(&all), want);
        let mut stalls = all;
        stalls.samples.last_mut().unwrap().memory_stall = Some(873);
        assert_eq!(told(&stalls).last().unwrap(), ": 87% of the last minute it waited for memory");
    }

    #[test]
    fn gpus_that_are_known() {
        let mut all = samples(&[(0, 0), (1, 1), (2, 2)]);
        (all.gpus, all.gpu_memory_bytes) = (2, Some(32 << 30));
        assert!(!told(&all).iter().any(|line| line.starts_with("GPU")));
        for (sample, busy) in all.samples.iter_mut().zip([Some(1000), None, Some(490)]) {
            (sample.gpu_busy, sample.gpu_memory_bytes) = (busy, Some(3 << 30));
        }
        assert_eq!(told(&all)[2], "GPUs: █▄  49% busy now, 3.0G of 32.0G of memory");
        // Slices tell their memory only.
        all.gpus = 1;
        all.samples
            .iter_mut()
            .for_each(|sample| sample.gpu_busy = None);
        assert_eq!(told(&all)[2], "GPU: 3.0G of 32.0G of memory");
    }

    #[test]
    fn the_other_nodes() {
        let mut all = samples(&[(0, 0), (60, 1)]);
        let other = |node: &str, busy_millicores, peak_bytes| NodeSummary {
            node: node.to_owned(),
            cores: 4,
            busy_millicores,
            peak_bytes,
        };
        all.others = vec![other("n2", Some(3960), 3 << 20), other("n3", None, 5 << 30)];
        let want = "of 3 nodes: n3 had most memory (5.0G), n2 least (3.0M); n2 was busiest \
                    (3.9 of 4 cores), n1 least (2.0 of 4 cores)";
        assert_eq!(told(&all).last().unwrap(), want);
    }

    #[test]
    fn energy_that_is_measured() {
        let mut all = samples(&[(0, 0), (1, 1)]);
        all.devices.energy_uj = Some(7_200_000_000);
        let told = told(&all);
        assert_eq!(told[2], "energy: 2.0 Wh so far, estimated from what the node takes");
    }

    #[test]
    fn nothing_is_told_before_there_is_something() {
        assert!(told(&samples(&[])).is_empty());
        assert!(told(&samples(&[(0, 0)])).is_empty());
    }

    #[test]
    fn long_runs_fit() {
        let figures: Vec<f64> = (0..200).map(f64::from).collect();
        let drawn = curve(&figures, 199.0, &LEVELS);
        assert_eq!(drawn.chars().count(), 40);
        assert!(drawn.starts_with('▁') && drawn.ends_with('█'));
        assert_eq!(curve(&[1.0, 0.0], 0.0, &PLAIN), "__");
    }
}
