//! What `cosy flow` says as JSON. The names are part of the interface: none is changed or
//! taken away, new ones may come.
//!
//! Points in time are there twice: `x` in RFC 3339 (UTC) and `x_ms` in milliseconds since
//! 1970; `null` where there is none. Lengths are in seconds, sums in SU.

use crate::native::flow::plan;
use crate::native::jobs::json_span;
use crate::native::record::{self, su};
use crate::native::resv::json::with_times;
use cosy_model::workflow::{FlowInfo, FlowPlan, FlowSpec, PlannedTask};
use cosy_view::workflow;
use serde_json::{Value as Json, json};

/// A plan.
pub fn plan(spec: &FlowSpec, plan: &FlowPlan) -> Json {
    let delayed: Vec<_> = plan
        .delayed
        .iter()
        .map(|(job, by, own)| json!({ "job": job.0, "delay": json_span(*by), "own": own }))
        .collect();
    let parents = parents(spec);
    let json = json!({
        "name": spec.name,
        "scheduler": spec.scheduler.word(),
        "slack_policy": spec.slack_policy.word(),
        "length": json_span(plan::end(plan).since(plan.start)),
        "spare": json_span(plan.deadline.since(plan.shortest_end)),
        "price": su(plan.price),
        "delayed": delayed,
        "refusals": plan.refusals,
        "tasks": plan.tasks.iter().map(|t| slot(spec, &parents, t)).collect::<Vec<_>>(),
    });
    let times = [
        ("now", Some(plan.now)),
        ("start", Some(plan.start)),
        ("end", Some(plan::end(plan))),
        ("shortest_end", Some(plan.shortest_end)),
        ("deadline", Some(plan.deadline)),
    ];
    with_times(json, &times)
}

/// Names of the tasks that each task waits for.
fn parents(spec: &FlowSpec) -> Vec<Vec<&str>> {
    let mut parents = vec![Vec::new(); spec.tasks.len()];
    for edge in &spec.edges {
        let from = spec.tasks.get(edge.from as usize);
        if let (Some(of), Some(from)) = (parents.get_mut(edge.to as usize), from) {
            of.push(from.name.as_str());
        }
    }
    parents
}

fn slot(spec: &FlowSpec, parents: &[Vec<&str>], t: &PlannedTask) -> Json {
    let estimate = t.estimate.ms().max(1) as f64;
    let parents = parents.get(t.task as usize).cloned().unwrap_or_default();
    let json = json!({
        "name": plan::name(spec, t),
        "parents": parents,
        "estimate": json_span(t.estimate),
        "spare": json_span(t.spare),
        "spare_percent": (t.spare.ms() as f64 * 1000.0 / estimate).floor() / 10.0,
        "critical": t.critical,
        "set": t.set,
        "nodes": t.nodes,
        "price": su(t.price),
        "delayed_jobs": t.delayed_jobs,
        "total_delay": json_span(t.total_delay),
    });
    with_times(json, &[("start", Some(t.start)), ("end", Some(t.end))])
}

/// A workflow; with its tasks where the controller gave them.
pub fn flow(info: &FlowInfo) -> Json {
    let mut json = record::json_with_ms(&workflow::fields(info));
    if !info.tasks.is_empty() {
        let tasks = info.tasks.iter().map(workflow::task_fields);
        json["tasks"] = tasks.map(|t| record::json_with_ms(&t)).collect();
    }
    json
}

/// Workflows as `{"workflows": [...]}`.
pub fn flows(all: &[FlowInfo]) -> Json {
    json!({ "workflows": all.iter().map(flow).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::list::sample;
    use crate::native::flow::plan::sample as planned;

    fn names(json: &Json) -> String {
        let all = json.as_object().map(|o| o.keys().cloned().collect());
        let all: Vec<String> = all.unwrap_or_default();
        all.join(" ")
    }

    #[test]
    fn names_stay() {
        let plan = plan(&planned::spec(), &planned::plan());
        assert_eq!(
            names(&plan),
            "deadline deadline_ms delayed end end_ms length name now now_ms price refusals \
             scheduler shortest_end shortest_end_ms slack_policy spare start start_ms tasks"
        );
        assert_eq!(
            names(&plan["tasks"][0]),
            "critical delayed_jobs end end_ms estimate name nodes parents price set spare \
             spare_percent start start_ms total_delay"
        );
        let flow = flow(&sample());
        assert_eq!(
            names(&flow),
            "account deadline deadline_ms done_count end end_ms hold_until hold_until_ms id made \
             made_ms name note price state task_count tasks user"
        );
        assert_eq!(
            names(&flow["tasks"][0]),
            "end end_ms estimate failures job name nodes note parents reservation slot_end \
             slot_end_ms slot_start slot_start_ms spare start start_ms state"
        );
    }

    #[test]
    fn figures() {
        let plan = plan(&planned::spec(), &planned::plan());
        assert_eq!((&plan["price"], &plan["spare"]), (&json!(6), &json!(900)));
        let right = &plan["tasks"][2];
        assert_eq!((&right["spare"], &right["spare_percent"]), (&json!(300.5), &json!(100.1)));
        assert_eq!(right["parents"], json!(["first"]));
        assert_eq!(plan["delayed"][0], json!({ "job": 12, "delay": 300, "own": true }));
        let flows = flows(&[sample()]);
        assert_eq!(flows["workflows"][0]["tasks"][0]["state"], "done");
        assert_eq!(flows["workflows"][0]["hold_until"], Json::Null);
    }
}
