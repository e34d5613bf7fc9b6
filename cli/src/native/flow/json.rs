//! The JSON of `cosy flow`. The names are part of the interface: none is changed or taken away, new
//! ones may come.
//!
//! Points in time are there twice: `x` in RFC 3339 (UTC) and `x_ms` in milliseconds since
//! 1970; `null` where there is none. Lengths are in seconds, sums in SU.

use crate::native::record;
use cosy_model::workflow::{FlowInfo, FlowPlan, FlowSpec};
use cosy_view::{flow_plan, workflow};
use serde_json::{Value as Json, json};

/// A plan, with its tasks under `tasks`.
pub fn plan(spec: &FlowSpec, plan: &FlowPlan) -> Json {
    let mut json = record::json_with_ms(&flow_plan::fields(spec, plan));
    let tasks = flow_plan::task_fields(spec, plan);
    json["tasks"] = tasks.map(|task| record::json_with_ms(&task)).collect();
    json
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
