//! `cstat ID --node NODE`: what a running job used over time on one of its nodes.

use crate::launch::{start, usage};
use crate::native::over_time;
use crate::native::resv::chart::ChartStyle;
use crate::{Context, exit};
use anyhow::anyhow;
use cosy_model::api::JobRef;
use cosy_model::limits;

/// The job on each of these nodes, one after the other. The job's first node asks them.
///
/// # Errors
/// Several jobs or too many nodes, JSON, one that is not the job's, or no way there.
pub fn text(
    context: &Context,
    (ids, nodes): (&[JobRef], &[String]),
    as_json: bool,
) -> anyhow::Result<String> {
    if as_json {
        let text = "--node with a job draws it: programs read \
                    /api/v1/jobs/ID/samples?node=NODE of the page";
        return Err(exit::usage(text));
    }
    let [job] = ids else {
        return Err(exit::usage("with --node one job is shown on its nodes: name one job"));
    };
    if nodes.len() > limits::SUMMARY_NODES {
        let most = limits::SUMMARY_NODES;
        let text = format!("{} nodes: at most {most} are asked at once", nodes.len());
        return Err(exit::usage(text));
    }
    let [id] = start::ids_of(context, *job)?[..] else {
        return Err(anyhow!("job {job} does not run, or is several: name one that runs"));
    };
    let mut text = String::new();
    for node in nodes {
        let told = usage::samples_on(context, id, node)?;
        text.push_str(&format!("job {job} on {node}\n"));
        let lines = over_time::lines(&told, ChartStyle::has_blocks());
        let width = lines.iter().map(|(title, _)| title.len()).max();
        for (title, line) in &lines {
            text.push_str(&format!("  {title:width$}  {line}\n", width = width.unwrap_or(0)));
        }
        if lines.is_empty() {
            text.push_str(match told.interval.ms() {
                0 => "  it is not measured there ('sample_interval' in noded.toml)\n",
                _ => "  it has not been measured twice yet\n",
            });
        }
    }
    Ok(text)
}
