//! Small trees, and what is tied in them.

use super::*;

fn user(tree: &mut FairTree, account: Place, shares: u32, used: u128) -> Place {
    let place = tree.add_user(account, Shares::Of(shares));
    tree.has_used(place, Usage(used));
    place
}

fn ranks(tree: &mut FairTree, users: &[Place]) -> Vec<u32> {
    tree.rank();
    users.iter().map(|user| tree.rank_of(*user)).collect()
}

#[test]
fn accounts_come_before_what_users_did() {
    let mut tree = FairTree::new(Ties::Merged);
    let physics = tree.add_account(Place::ROOT, Shares::Of(50));
    let biology = tree.add_account(Place::ROOT, Shares::Of(50));
    let users = [
        user(&mut tree, physics, 1, 900),
        user(&mut tree, physics, 1, 0),
        user(&mut tree, biology, 1, 300),
        user(&mut tree, biology, 1, 100),
    ];
    assert_eq!(ranks(&mut tree, &users), [1, 2, 3, 4]);
    assert_eq!(tree.rank(), Moved::default(), "nothing has changed");
    tree.has_used(users[3], Usage(700));
    // biology is at 1,000 now, and physics at 900
    let moved = tree.rank();
    assert_eq!(moved.ranks, [users[1], users[0], users[2], users[3]]);
    assert_eq!(moved.ordinals.len(), 2, "two of four go on in the same order");
    assert_eq!(ranks(&mut tree, &users), [3, 4, 2, 1]);
    tree.has_used(users[3], Usage(701));
    assert_eq!(tree.rank(), Moved::default(), "use without a change of ranks tells nobody");
}

#[test]
fn no_shares_no_use_and_parents() {
    let mut tree = FairTree::new(Ties::Merged);
    let outside = tree.add_account(Place::ROOT, Shares::Of(1));
    let inside = tree.add_account(outside, Shares::Parent);
    let users = [
        user(&mut tree, outside, 0, 0),
        user(&mut tree, outside, 3, 30),
        user(&mut tree, inside, 1, 5),
        user(&mut tree, inside, 1, 0),
        tree.add_user(inside, Shares::Parent),
    ];
    tree.has_used(users[4], Usage(1000));
    // 30 / 3 is more than 5 / 1: who is inside stands beside who is outside
    assert_eq!(ranks(&mut tree, &users), [1, 2, 3, 5, 5]);
    assert_eq!(tree.shares_of(users[2]), (Shares::Of(1), 5));
    assert_eq!(tree.level_of(users[3]), outside);
    assert_eq!(tree.usage_of(Place::ROOT), Usage(1035));
}

#[test]
fn tied_accounts() {
    let check = |ties, want: [u32; 5]| {
        let mut tree = FairTree::new(ties);
        let one = tree.add_account(Place::ROOT, Shares::Of(10));
        let two = tree.add_account(Place::ROOT, Shares::Of(10));
        let users = [
            user(&mut tree, one, 1, 300),
            user(&mut tree, one, 1, 100),
            user(&mut tree, two, 1, 250),
            user(&mut tree, two, 1, 150),
            user(&mut tree, Place::ROOT, 10, 400),
        ];
        assert_eq!(ranks(&mut tree, &users), want, "{ties:?}");
    };
    // the user of the root is tied with both accounts, whose best user has its rank
    check(Ties::Merged, [1, 5, 2, 3, 5]);
    // the second account's best takes the rank of the first one's last
    check(Ties::OneByOne, [3, 5, 1, 3, 5]);
}

#[test]
fn children_of_tied_accounts_may_overtake_each_other_in_no_line() {
    let mut tree = FairTree::new(Ties::Merged);
    let [one, two] = [10, 10].map(|shares| tree.add_account(Place::ROOT, Shares::Of(shares)));
    let users = [(one, 300), (one, 100), (two, 250), (two, 150)]
        .map(|(account, used)| user(&mut tree, account, 1, used));
    assert_eq!(ranks(&mut tree, &users), [1, 4, 2, 3]);
    tree.has_used(users[0], Usage(240));
    tree.has_used(users[1], Usage(160));
    assert_eq!(ranks(&mut tree, &users), [2, 3, 1, 4]);
}

#[test]
fn accounts_without_users_count_as_siblings_only() {
    let mut tree = FairTree::new(Ties::Merged);
    let idle = tree.add_account(Place::ROOT, Shares::Of(90));
    let used = tree.add_account(Place::ROOT, Shares::Of(10));
    let ann = user(&mut tree, used, 1, 5);
    assert_eq!(ranks(&mut tree, &[ann]), [1]);
    assert_eq!(tree.line_of(Place::ROOT), [used]);
    assert_eq!(tree.shares_of(used), (Shares::Of(10), 100));
    let bob = user(&mut tree, idle, 1, 0);
    assert_eq!(ranks(&mut tree, &[ann, bob]), [1, 2]);
}
