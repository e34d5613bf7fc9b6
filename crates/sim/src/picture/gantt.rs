//! The Gantt chart: nodes from top to bottom, time from left to right.
//!
//! A node has one row for each of its processors. Jobs that share a node get its first free
//! rows; the planner itself does not tell the processors of a node apart.

use super::axis::{Area, words};
use super::{MAX_BARS, PictureError, frame};
use crate::machine::counted;
use crate::replay::{JobRun, Machine, Replay};
use crate::workload::{Job, Workload};
use cosy_model::{NodeShare, Time};
use cosy_svg::{Anchor, Length, Svg};
use std::collections::BTreeMap;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 56.0;

/// Rows of one job that lie together: from the first to before the last.
type Rows = (u64, u64);

/// Draws what each job held. The replay must have kept it.
///
/// # Errors
/// [`PictureError`]: nothing was kept, or there would be too many bars.
pub fn gantt(
    machine: Machine,
    workload: &Workload,
    replay: &Replay,
) -> Result<String, PictureError> {
    let bars = bars(machine, replay)?;
    let (from, to) = frame(workload, replay);
    let area = Area {
        left: LEFT,
        top: TOP,
        width: WIDTH - LEFT - 20.0,
        height: (machine.size() as f64 * 14.0).clamp(112.0, 640.0),
        from,
        to,
    };
    let title = format!("Jobs on {machine}");
    let mut svg = Svg::new(WIDTH, area.bottom() + 46.0, super::STYLE, &title);
    legend(&mut svg);
    area.draw(&mut svg);
    rows(&mut svg, &area, machine);
    for (at, part) in bars {
        if let Some(ran) = replay.job_runs[at] {
            bar(&mut svg, &area, machine, &workload.jobs[at], ran, part);
        }
    }
    Ok(svg.finish())
}

/// All bars, with the index of their job, by start.
fn bars(machine: Machine, replay: &Replay) -> Result<Vec<(usize, Rows)>, PictureError> {
    let jobs = replay.job_runs.iter().enumerate();
    let mut jobs: Vec<(Time, usize)> = jobs
        .filter_map(|(at, ran)| Some(((*ran)?.start, at)))
        .collect();
    jobs.sort_unstable();
    let mut free = BTreeMap::new();
    let mut bars = Vec::new();
    for (_, at) in &jobs {
        let shares = replay.shares.get(*at).ok_or(PictureError::NoShares)?;
        let ran = replay.job_runs[*at].filter(|_| bars.len() <= MAX_BARS);
        let ran = ran.ok_or(PictureError::TooMany { jobs: jobs.len() })?;
        bars.extend(held(machine, shares, ran, &mut free).map(|rows| (*at, rows)));
    }
    if bars.len() > MAX_BARS {
        return Err(PictureError::TooMany { jobs: jobs.len() });
    }
    Ok(bars)
}

/// The rows that a job holds, as few parts as there are. `free` says since when each row of
/// a shared node is free.
fn held(
    machine: Machine,
    shares: &[NodeShare],
    ran: JobRun,
    free: &mut BTreeMap<u32, Vec<Time>>,
) -> impl Iterator<Item = Rows> {
    let mut all: Vec<Rows> = Vec::new();
    let cores = u64::from(machine.cores);
    for share in shares {
        let first = u64::from(share.node.0) * cores;
        if share.amounts.cores >= machine.cores {
            all.push((first, first + cores));
            continue;
        }
        let node = free.entry(share.node.0);
        let node = node.or_insert_with(|| vec![Time(i64::MIN); machine.cores as usize]);
        let rows = node.iter_mut().enumerate();
        let rows = rows.filter(|(_, since)| **since <= ran.start);
        for (row, since) in rows.take(share.amounts.cores as usize) {
            *since = ran.end;
            all.push((first + row as u64, first + row as u64 + 1));
        }
    }
    joined(all).into_iter()
}

/// Joins rows that are neighbours.
fn joined(mut parts: Vec<Rows>) -> Vec<Rows> {
    parts.sort_unstable();
    let mut all: Vec<Rows> = Vec::new();
    for part in parts {
        match all.last_mut().filter(|last| last.1 == part.0) {
            Some(last) => last.1 = part.1,
            None => all.push(part),
        }
    }
    all
}

/// Bars too small for an outline have none.
fn bar(svg: &mut Svg, area: &Area, machine: Machine, job: &Job, ran: JobRun, rows: Rows) {
    let row = area.height / machine.size() as f64;
    let (x, y) = (area.x(ran.start), area.top + row * rows.0 as f64);
    let width = (area.x(ran.end) - x).max(0.7);
    let height = row * (rows.1 - rows.0) as f64;
    let class = match ran.backfilled {
        _ if width < 2.0 || height < 2.0 => "s",
        true => "b",
        false => "j",
    };
    let tip = tip(area, machine, job, ran, rows);
    svg.filled_bar(class, &colour(job.id), [x, y, width, height.max(0.7)], &tip);
    let name = job.id.to_string();
    if width > 7.0 * name.len() as f64 && height > 9.0 {
        svg.words(x + width / 2.0, y + height / 2.0 + 3.0, Anchor::Middle, "n", &name);
    }
}

/// What is known of a bar in words; times since the first submission.
fn tip(area: &Area, machine: Machine, job: &Job, ran: JobRun, rows: Rows) -> String {
    let cores = u64::from(machine.cores);
    let (first, last) = (rows.0 / cores, (rows.1 - 1) / cores);
    let nodes = match first == last {
        true => format!("node {first}"),
        false => format!("nodes {first}-{last}"),
    };
    let at = |time: Time| words(time.since(area.from));
    let backfilled = if ran.backfilled { "\nbackfilled" } else { "" };
    format!(
        "job {}: {}, {nodes}\nsubmitted {}\nstarted {}\nended {}{backfilled}",
        job.id,
        counted(machine.processors(job), "processor"),
        at(job.submit),
        at(ran.start),
        at(ran.end),
    )
}

/// Jobs with numbers close to each other get hues far from each other (the golden angle).
fn colour(job: u64) -> String {
    let hue = (job % 360_000) * 137_508 % 360_000 / 1000;
    format!("hsl({hue},55%,70%)")
}

fn legend(svg: &mut Svg) {
    let x = WIDTH - 330.0;
    svg.filled_bar("j", &colour(4), [x, 14.0, 22.0, 12.0], "a job in its turn");
    svg.words(x + 28.0, 24.0, Anchor::Start, "", "in its turn");
    svg.filled_bar("b", &colour(4), [x + 110.0, 14.0, 22.0, 12.0], "a backfilled job");
    let words = "started before an earlier job";
    svg.words(x + 138.0, 24.0, Anchor::Start, "", words);
    let words = "time since the first submission; numbers are those of the jobs";
    svg.words(LEFT, 46.0, Anchor::Start, "", words);
}

/// Some nodes get their number.
fn rows(svg: &mut Svg, area: &Area, machine: Machine) {
    let most = (area.height / 14.0).max(1.0) as u32;
    let step = machine.nodes.div_ceil(most).max(1);
    let height = area.height / f64::from(machine.nodes);
    for node in (0..machine.nodes).step_by(step as usize) {
        let y = area.top + height * (f64::from(node) + 0.5) + 4.0;
        svg.words(LEFT - 6.0, y, Anchor::End, "", &node.to_string());
    }
    let y = (area.top + area.height / 2.0).px();
    svg.turned_words(&format!("translate(16 {y}) rotate(-90)"), "node");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one() {
        let check = |parts: &[Rows], want: &[Rows]| assert_eq!(joined(parts.to_vec()), want);
        check(&[], &[]);
        check(&[(3, 4), (0, 1), (1, 2)], &[(0, 2), (3, 4)]);
    }
}
