//! Rows of the store become jobs, and a new configuration takes the place of the old one.

use crate::config::ClusterConfig;
use crate::conversations::attending::expect_again;
use crate::jobs::limits::procedures::count_anew;
use crate::jobs::restore::RowsOfJobs;
use crate::jobs::restore::procedures::{
    build_queues, load_submission, place_all_again, wait_again_for_others,
};
use crate::jobs::shared::InCommon;
use crate::machine::availability::{drain_by_itself, tell_policy, welcome};
use crate::machine::changes::procedures::configured_amounts;
use crate::machine::nodes::NOT_CONFIGURED;
use crate::machine::nodes::procedures::configured_again;
use crate::planning::making_room::room_is_made_again;
use crate::planning::pools::procedures::configure_licenses;
use crate::planning::rebuild::tell_planner;
use crate::procedures::limits::machine_is_measured;
use crate::procedures::policy::books_are_in_the_tree;
use crate::procedures::reviews::{review, review_loaded};
use crate::record::SubmissionRow;
use crate::reservations::inside::procedures::{planner_of, rebuild_insides};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::JobId;
use std::collections::BTreeSet;

pub(crate) fn load_jobs(
    rooms: &mut Rooms,
    turn: &mut Turn,
    mut submissions: Vec<SubmissionRow>,
    rows: RowsOfJobs,
) {
    let now = turn.now();
    submissions.sort_by_key(|row| row.base);
    let mut rows = rows.in_order();
    let mut known = InCommon::default();
    for mut row in submissions {
        row.spec = rooms.jobs.share_of_row(&mut known, row.spec);
        let rows = rows.of(row.base);
        load_submission(rooms, turn, &row, rows);
    }
    wait_again_for_others(&mut rooms.jobs, &rooms.aside);
    rooms.planning.room_mut().ask_all_anew();
    room_is_made_again(&mut rooms.jobs, &mut rooms.planning);
    let ids: Vec<JobId> = rooms.jobs.ids().collect();
    for id in ids {
        review_loaded(rooms, turn, id);
    }
    let attended = rooms.jobs.all().filter(|job| job.spec().attended);
    let attended: Vec<JobId> = attended.map(|job| job.id()).collect();
    for id in attended {
        expect_again(&rooms.config, &rooms.jobs, &mut rooms.conversations, now, id);
    }
}

/// Takes a new configuration. Nodes keep their numbers; what has gone from it stays
/// as a drained node as long as the daemon runs.
pub(crate) fn reconfigure(rooms: &mut Rooms, turn: &mut Turn, mut config: ClusterConfig) {
    rooms.queues.lay_own_queues(turn, &mut config);
    let states = rooms.queues.own_states();
    for spec in config.nodes.clone() {
        let Some(id) = rooms.machine.id_of(&spec.name) else {
            continue;
        };
        let configured = spec.amounts.is_some();
        rooms.machine.node_mut(id).is_configured(spec);
        if configured {
            configured_amounts(&mut rooms.machine, &rooms.jobs, id);
        }
        rooms.machine.node_mut(id).has_features_of_its_own();
    }
    let mut new = BTreeSet::new();
    for spec in &config.nodes {
        if !rooms.machine.has_node(&spec.name) {
            new.insert(spec.name.clone());
            rooms.machine.add(spec.clone());
        }
    }
    rooms.machine.hang_on(&config.switches);
    rooms
        .machine
        .configure_power(&config.power, turn, |name| new.contains(name));
    let named: BTreeSet<&str> = config.nodes.iter().map(|n| n.name.as_str()).collect();
    let (there, gone) = rooms.machine.divided_by(&named);
    rooms.jobs.go_on_at(config.first_job.0);
    let told = welcome(&rooms.config, &rooms.clocks, Vec::new(), Vec::new());
    rooms.config = config;
    rooms.planning.room_mut().ask_all_anew();
    if told != welcome(&rooms.config, &rooms.clocks, Vec::new(), Vec::new()) {
        tell_policy(&rooms.config, &rooms.clocks, &rooms.machine, turn);
    }
    rooms.reservations.configure_accounts(&rooms.config, turn);
    books_are_in_the_tree(rooms, turn);
    rooms.triggers.watch_configuration();
    build_queues(&rooms.config, &rooms.machine, &mut rooms.queues, &states, turn.now());
    configure_licenses(rooms, turn.now());
    count_anew(rooms);
    machine_changed(rooms, turn);
    for id in there {
        configured_again(rooms, turn, id);
    }
    for id in gone {
        drain_by_itself(rooms, turn, id, NOT_CONFIGURED);
    }
}

/// Nodes or queues are not what they were: every job is placed again.
pub(crate) fn machine_changed(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    machine_is_measured(rooms, turn);
    let waiting: Vec<JobId> = rooms
        .jobs
        .all()
        .filter(|j| j.is_waiting())
        .map(|j| j.id())
        .collect();
    for id in &waiting {
        if planner_of(&mut rooms.planning, &mut rooms.reservations, *id).dequeue(*id) {
            rooms.planning.left_inside(*id);
            let base = rooms.jobs.base_of(*id);
            rooms.jobs.count_queued(turn, base, false);
        }
    }
    rooms
        .machine
        .changes_mut()
        .all_placed(now, rooms.jobs.len());
    rooms.queues.part();
    tell_planner(rooms, turn);
    rebuild_insides(rooms, turn);
    place_all_again(rooms);
    for id in waiting {
        review(rooms, turn, id);
    }
}
