//! Reservations and accounts are loaded, and accounts set by the configuration.

use crate::controller::Controller;
use crate::record::{ReservationRow, ShareRow};
use crate::reservations::Reservation;
use crate::reservations::admission::figures::Figures;
use crate::reservations::admission::hours::HourPrices;
use crate::reservations::books::Books;
use crate::reservations::load::LoadedReservations;
use cosy_model::reservation::ReservationState;
use cosy_model::{NodeShare, Time};

impl Controller {
    /// To be called when the machine is known and before the jobs are loaded.
    pub(crate) fn load_reservations(&mut self, now: Time, loaded: LoadedReservations) {
        let it = &mut self.reservations;
        it.next = loaded.next.max(1);
        it.books = Books::restore(loaded.accounts, loaded.last_entry);
        it.figures = Figures::restore(loaded.figures);
        it.hours = HourPrices::restore(loaded.hour_prices);
        for row in loaded.rows {
            self.load_reservation(row);
        }
        self.configure_accounts(now);
    }

    fn load_reservation(&mut self, row: ReservationRow) {
        let id = row.id;
        let shares: Vec<NodeShare> = row.shares.iter().filter_map(|s| self.share(s)).collect();
        let (live, active) = (row.state.is_live(), row.state == ReservationState::Active);
        let reservation = Reservation {
            short: shares.len() < row.shares.len(),
            row,
            shares,
            planner: None,
        };
        let due = self.due_of(&reservation);
        if live {
            self.reservations.add_delays(&reservation.row.delays);
            self.planning.cluster_mut().add_block(reservation.block());
        }
        self.reservations.all.insert(id, reservation);
        self.reservations.set_due(id, due);
        if active {
            self.open_inside(id);
        }
    }

    /// A share by number; none when the node is no longer configured.
    fn share(&self, row: &ShareRow) -> Option<NodeShare> {
        Some(NodeShare {
            bundle: 0,
            node: self.machine.id_of(&row.node)?,
            tasks: row.tasks,
            amounts: row.amounts.clone(),
        })
    }

    pub(crate) fn share_rows(&self, shares: &[NodeShare]) -> Vec<ShareRow> {
        let row = |share: &NodeShare| ShareRow {
            node: self.machine.name(share.node).to_owned(),
            tasks: share.tasks,
            amounts: share.amounts.clone(),
        };
        shares.iter().map(row).collect()
    }

    /// Accounts of the configuration that are new get their first grant.
    pub(crate) fn configure_accounts(&mut self, now: Time) {
        let accounts = &self.config.accounts;
        let records = self.reservations.books.configure(now, accounts);
        records.into_iter().for_each(|r| self.record(r));
    }
}
