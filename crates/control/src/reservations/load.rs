//! Reservations out of the store.

pub(crate) mod procedures;

use crate::record::{AccountRow, FiguresRow, HourPriceRow, ReservationRow};

/// What the store has of reservations.
pub(crate) struct LoadedReservations {
    pub rows: Vec<ReservationRow>,
    pub next: u64,
    pub accounts: Vec<AccountRow>,
    pub last_entry: u64,
    pub figures: Vec<FiguresRow>,
    pub hour_prices: Vec<HourPriceRow>,
}
