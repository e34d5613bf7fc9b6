//! The tree of shares follows the policy: it grows where users came, and is planted anew where accounts,
//! shares or qualities of service are others.

use super::{Holder, Shares};
use crate::queues::scores::layout::{Layout, Standing};
use crate::queues::scores::places::{Member, Places};
use cosy_model::Time;
use cosy_policy::fair_tree::{FairTree, Place};
use cosy_policy::meter::Meter;
use std::collections::BTreeMap;

impl Shares {
    /// Accounts and users are so from now on. Gives the new places of those who had one, if it had to move
    /// them: where only users came the tree grows.
    pub fn laid_out(&mut self, layout: Layout) -> BTreeMap<Place, Place> {
        let grows = self.grows_to(&layout);
        self.accounts = layout.accounts;
        for holder in self.holders.values_mut() {
            holder.standing = Standing::default();
        }
        for user in layout.users {
            let place = self.places.exactly(user.member());
            let place = place.unwrap_or_else(|| self.add(user.member(), user.standing));
            if let Some(holder) = self.holders.get_mut(&place) {
                holder.standing = user.standing;
            }
        }
        let priorities = self.holders.values().map(|holder| holder.standing.priority);
        self.most_priority = priorities.max().unwrap_or(0);
        if grows {
            return BTreeMap::new();
        }
        self.qos.told(layout.qos, self.forgotten);
        self.plant()
    }

    /// Whether nothing but new users tells this layout from what there is.
    fn grows_to(&self, layout: &Layout) -> bool {
        let usual = Standing::default().shares;
        let has_own = |standing: &Standing| standing.shares != usual;
        let mut known = 0;
        let same = layout.users.iter().all(|user| {
            let place = self.places.exactly(user.member());
            let holder = place.and_then(|place| self.holders.get(&place));
            known += usize::from(holder.is_some() && has_own(&user.standing));
            holder.is_none_or(|holder| holder.standing.shares == user.standing.shares)
        });
        // Whoever is in no account any more goes on with one share: nobody who had others.
        let others = || {
            self.holders
                .values()
                .filter(|own| has_own(&own.standing))
                .count()
        };
        same && self.accounts == layout.accounts && self.qos.are(&layout.qos) && others() == known
    }

    /// Makes the tree anew: the accounts of the policy, everybody who is in one, and those who have used
    /// something. Gives the new places of those who had one.
    pub(super) fn plant(&mut self) -> BTreeMap<Place, Place> {
        let before_tree = std::mem::replace(&mut self.tree, FairTree::new(self.ties));
        self.places = Places::default();
        for account in &self.accounts {
            let above = self.places.account(&account.above);
            let above = above.unwrap_or(Place::ROOT);
            let place = self.tree.add_account(above, account.shares);
            self.places.set_account(&account.name, place);
        }
        let mut before: Vec<(Place, Box<Holder>)> =
            std::mem::take(&mut self.holders).into_iter().collect();
        before.sort_by(|a, b| a.1.member().cmp(&b.1.member()));
        let mut moved = BTreeMap::new();
        for (old, holder) in before {
            let place = self.grow(holder);
            self.tree.stood(place, before_tree.standing_of(old));
            moved.insert(old, place);
        }
        let at = |place: &Place| moved.get(place).copied().unwrap_or(*place);
        for charge in self.runs.values_mut() {
            charge.place = at(&charge.place);
        }
        self.unsaved = self.unsaved.iter().map(at).collect();
        self.sum_anew();
        moved
    }

    /// A user grows below the account.
    fn grow(&mut self, holder: Box<Holder>) -> Place {
        let above = match &*holder.account {
            "" => Place::ROOT,
            account => self.account(account),
        };
        let place = self.tree.add_user(above, holder.standing.shares);
        self.places.set(holder.member(), place);
        self.holders.insert(place, holder);
        place
    }

    pub(super) fn add(&mut self, member: Member<'_>, standing: Standing) -> Place {
        self.grow(Box::new(Holder {
            account: member.account.into(),
            user: member.user.into(),
            queue: member.queue.into(),
            standing,
            since: Time(i64::MIN),
            meter: Meter::default(),
        }))
    }
}
