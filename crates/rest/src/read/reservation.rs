//! A reservation as `slurm/.../reservations` tells it: in the words of `scontrol show reservation`.

use crate::tree::{Tree, number, seconds, texts};
use cosy_model::reservation::{ReservationInfo, Sharing};
use cosy_slurm::json_yaml::Data;
use cosy_slurm::show::reservation;
use cosy_view::words::counted;

/// The record of a reservation.
pub fn of_reservation(r: &ReservationInfo) -> Data {
    let Sharing {
        users,
        groups,
        accounts,
    } = &r.sharing;
    let users = match r.sharing == Sharing::default() {
        true => r.user.clone(),
        false => users.join(","),
    };
    let mut tree = Tree::default();
    tree.set("accounts", accounts.join(","))
        .set("core_count", number(r.cores))
        .set("end_time", seconds(Some(r.end)))
        .set("flags", texts(reservation::flag_words(r)))
        .set("groups", groups.join(","))
        .set("licenses", counted::write(&r.licenses))
        .set("name", reservation::name(r))
        .set("node_count", number(r.node_count))
        .set("node_list", r.nodes.as_str())
        .set("partition", if r.named { "" } else { r.queue.as_str() })
        .set("start_time", seconds(Some(r.start)))
        .set("tres", format!("cpu={}", r.cores))
        .set("users", users);
    tree.done()
}
