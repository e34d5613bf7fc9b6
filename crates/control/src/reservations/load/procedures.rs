//! Reservations and accounts are loaded, and accounts set by the configuration.

use crate::config::ClusterConfig;
use crate::machine::Machine;
use crate::planning::pools::procedures::know_licenses;
use crate::record::{ReservationRow, ShareRow};
use crate::reservations::admission::figures::Figures;
use crate::reservations::admission::hours::HourPrices;
use crate::reservations::booked::due_of;
use crate::reservations::books::Books;
use crate::reservations::inside::procedures::open_inside;
use crate::reservations::load::LoadedReservations;
use crate::reservations::{Reservation, Reservations};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::NodeShare;
use cosy_model::reservation::ReservationState;

/// To be called when the machine is known and before the jobs are loaded.
pub(crate) fn load_reservations(rooms: &mut Rooms, turn: &mut Turn, loaded: LoadedReservations) {
    let it = &mut rooms.reservations;
    it.next = loaded.next.max(1);
    it.books = Books::restore(loaded.accounts, loaded.last_entry);
    it.figures = Figures::restore(loaded.figures);
    it.hours = HourPrices::restore(loaded.hour_prices);
    for row in loaded.rows {
        load_reservation(rooms, turn, row);
    }
    rooms.reservations.configure_accounts(&rooms.config, turn);
}

fn load_reservation(rooms: &mut Rooms, turn: &mut Turn, row: ReservationRow) {
    let id = row.id;
    let shares: Vec<NodeShare> = row
        .shares
        .iter()
        .filter_map(|s| share(&rooms.machine, s))
        .collect();
    let (live, active) = (row.state.is_live(), row.state == ReservationState::Active);
    let reservation = Reservation {
        short: shares.len() < row.shares.len(),
        row,
        shares,
        planner: None,
    };
    let due = due_of(&rooms.config, &reservation);
    if live {
        rooms.reservations.add_delays(&reservation.row.delays);
        know_licenses(&mut rooms.planning, &reservation.row.ask.licenses);
        let block = reservation.block(rooms.planning.pools());
        rooms.planning.cluster_mut().add_block(block);
    }
    rooms.reservations.all.insert(id, reservation);
    rooms.reservations.set_due(id, due);
    if active {
        open_inside(rooms, turn, id);
    }
}

/// A share by number; none when the node is no longer configured.
fn share(machine: &Machine, row: &ShareRow) -> Option<NodeShare> {
    Some(NodeShare {
        component: 0,
        node: machine.id_of(&row.node)?,
        tasks: row.tasks,
        amounts: row.amounts.clone(),
    })
}

impl Reservations {
    /// Accounts of the configuration that are new get their first grant.
    pub(crate) fn configure_accounts(&mut self, config: &ClusterConfig, turn: &mut Turn) {
        let now = turn.now();
        let accounts = &config.accounts;
        let records = self.books.configure(now, accounts);
        records.into_iter().for_each(|r| turn.record(r));
    }
}
