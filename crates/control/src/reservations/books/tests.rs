//! The books: who pays, what is refused, and that they balance whatever is asked of them.

use super::*;
use cosy_model::reservation::{AccountAction, LedgerEntry};
use cosy_model::{Group, limits};
use proptest::prelude::*;

const NOW: Time = Time(1_000_000);

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|name| Group {
        name: (*name).to_owned(),
        ..Group::default()
    });
    User {
        name: name.to_owned(),
        groups: groups.collect(),
        ..User::default()
    }
}

fn create(members: &[&str], budget: Option<i64>) -> AccountAction {
    AccountAction::Create {
        members: members.iter().map(|m| (*m).to_owned()).collect(),
        budget: budget.map(Su::whole),
    }
}

/// `lab` (ann, 100 SU), `open` (everyone, counted), `zoo` (@keepers, 5 SU).
fn three() -> Books {
    let mut books = Books::default();
    let accounts = [
        ("zoo", create(&["@keepers"], Some(5))),
        ("lab", create(&["ann"], Some(100))),
        ("open", create(&[], None)),
    ];
    for (name, action) in accounts {
        books.control(NOW, name, &action, "root", false).unwrap();
    }
    books
}

fn lines(records: &[Record]) -> Vec<String> {
    let line = |record: &Record| match record {
        Record::Ledger(l) => Some(format!("{} {}>{} {} {}", l.seq, l.from, l.to, l.sum, l.why)),
        _ => None,
    };
    records.iter().filter_map(line).collect()
}

#[test]
fn who_pays() {
    let books = three();
    let check = |name: &str, groups: &[&str], asked, wanted: Result<&str, &str>| {
        let got = books.payer(&user(name, groups), asked);
        let got = got.map(|payer| payer.unwrap()).map_err(|r| r.message);
        let wanted = wanted.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(got, wanted, "{name} {groups:?} {asked:?}");
    };
    check("ann", &[], None, Ok("lab"));
    check("bob", &[], None, Ok("open"));
    check("bob", &["keepers"], None, Ok("open"));
    check("bob", &["keepers"], Some("zoo"), Ok("zoo"));
    let no = "bob is no member of account zoo and may not charge it";
    check("bob", &["keeper"], Some("zoo"), Err(no));
    check(
        "keepers",
        &[],
        Some("zoo"),
        Err("keepers is no member of account zoo and may not charge it"),
    );
    check("ann", &[], Some("gym"), Err("there is no account 'gym'"));
    assert!(books.is_member("lab", &user("ann", &[])));
    assert!(!books.is_member("lab", &user("bob", &[])));
    assert!(!books.is_member("gym", &user("ann", &[])));
}

#[test]
fn without_accounts_a_name_is_only_recorded() {
    let mut books = Books::default();
    let ann = user("ann", &[]);
    assert_eq!(books.payer(&ann, None), Ok(None));
    assert_eq!(books.payer(&ann, Some("lab")), Ok(Some("lab".to_owned())));
    let held = books.hold(NOW, "lab", ReservationId(1), Su::whole(5), "ann");
    assert_eq!(held, Ok(Vec::new()));
    assert_eq!(books, Books::default());
    let all = create(&["bob"], None);
    books.control(NOW, "lab", &all, "root", false).unwrap();
    let refused = books.payer(&ann, None).unwrap_err();
    assert_eq!(
        refused.message,
        "ann may charge none of the 1 accounts: ask an administrator to be made a member of one"
    );
    // What was booked before there were accounts is in no book.
    let r = ReservationId(1);
    assert!(
        books
            .charge(NOW, "lab", r, Su::whole(5), "charge", "ann")
            .is_empty()
    );
    assert!(books.release(NOW, "lab", r, Su::whole(5), "ann").is_empty());
    assert!(
        books
            .give_back(NOW, "lab", r, Su::whole(5), "ann")
            .is_empty()
    );
}

#[test]
fn a_booking_in_lines() {
    let mut books = three();
    let r = ReservationId(7);
    let mut all = books.hold(NOW, "lab", r, Su::whole(30), "ann").unwrap();
    assert_eq!(books.left("lab"), Some(Su::whole(70)));
    all.extend(books.charge(NOW, "lab", r, Su::whole(20), "charge", "ann"));
    all.extend(books.charge(NOW, "lab", r, Su::whole(4), "extra", "ann"));
    all.extend(books.release(NOW, "lab", r, Su::whole(6), "ann"));
    all.extend(books.give_back(NOW, "lab", r, Su::whole(5), "ann"));
    all.extend(books.release(NOW, "lab", r, Su::ZERO, "ann"));
    let wanted = [
        "3 lab>lab:held 30 hold",
        "4 lab:held>income 20 charge",
        "5 lab:held>income 4 extra",
        "6 lab:held>lab 6 return",
        "7 income>lab 5 return",
    ];
    assert_eq!(lines(&all), wanted);
    assert_eq!(all.len(), 10, "a row for each line");
    assert_eq!(books.left("lab"), Some(Su::whole(81)));
    assert_eq!(books.left("open"), None);
    assert_eq!(books.left("gym"), None);
    let infos = books.infos(&[], |row| row.name != "zoo");
    let lab = &infos[0];
    assert_eq!(infos.len(), 2);
    assert_eq!((lab.granted, lab.held), (Su::whole(100), Su::ZERO));
    assert_eq!((lab.charged, lab.available), (Su::whole(19), Su::whole(81)));
    assert_eq!(books.check(), Ok(()));
}

#[test]
fn what_cannot_be_held() {
    let books = three();
    let check = |account: &str, sum: Su, wanted: Result<usize, &str>| {
        let mut books = books.clone();
        let got = books.hold(NOW, account, ReservationId(1), sum, "ann");
        let got = got.map(|records| records.len()).map_err(|r| r.message);
        assert_eq!(got, wanted.map_err(str::to_owned));
    };
    check("lab", Su::whole(100), Ok(2));
    check("lab", Su::ZERO, Ok(0));
    check("lab", Su(100_000_001), Err("account lab has 100 SU left, 100.000001 SU are needed"));
    check("lab", Su(-1), Err("a sum of -0.000001 SU cannot be held"));
    check(
        "lab",
        Su(i64::MAX),
        Err("account lab has 100 SU left, 9223372036854.775807 SU are needed"),
    );
    check("gym", Su::whole(1), Err("there is no account 'gym'"));
    check("open", Su::MOST, Ok(2));
    check(
        "open",
        Su(i64::MAX),
        Err(
            "account open would have 9223372036854.775807 SU held and charged in all, the books hold at most 1000000000000 SU",
        ),
    );
}

#[test]
fn what_administrators_do() {
    let mut books = three();
    books
        .hold(NOW, "zoo", ReservationId(1), Su::whole(2), "ann")
        .unwrap();
    let check = |name: &str, action: AccountAction, in_use, wanted: Result<&[&str], &str>| {
        let mut changed = books.clone();
        let got = changed.control(NOW, name, &action, "root", in_use);
        let got = got.map(|records| lines(&records)).map_err(|r| r.message);
        let wanted = wanted.map(|w| w.iter().map(|l| (*l).to_owned()).collect());
        assert_eq!(got, wanted.map_err(str::to_owned), "{name} {action:?}");
        assert_eq!(changed.check(), Ok(()));
        if got.is_err() {
            assert_eq!(changed, books);
        }
    };
    use AccountAction::{Grant, Members, Remove, Withdraw};
    let bad = |name: &str| {
        format!(
            "'{name}' is no name of an account: use 1 to 255 characters without spaces, ':', ',' and '@', and not 'grants' or 'income'"
        )
    };
    check("gym", create(&[], Some(3)), false, Ok(&["4 grants>gym 3 grant"]));
    check("gym", create(&[], Some(0)), false, Ok(&[]));
    check("gym", create(&[], None), false, Ok(&[]));
    for name in [
        "", "a:b", "lab:held", "income", "grants", "a b", "@lab", "a\n",
    ] {
        check(name, create(&[], None), false, Err(&bad(name)));
    }
    check("lab", create(&[], None), false, Err("there is an account lab already"));
    check(
        "gym",
        create(&[], Some(-1)),
        false,
        Err("-1 SU cannot be granted: give a sum above 0, at most 1000000000000 SU"),
    );
    check(
        "gym",
        create(&["@"], None),
        false,
        Err("'@' is no member of an account: give user names, and groups as @group"),
    );
    check("lab", Grant(Su::whole(1)), false, Ok(&["4 grants>lab 1 grant"]));
    check(
        "lab",
        Grant(Su::ZERO),
        false,
        Err("0 SU cannot be granted: give a sum above 0, at most 1000000000000 SU"),
    );
    check(
        "lab",
        Grant(Su::MOST),
        false,
        Err(
            "account lab would have 1000000000100 SU granted in all, the books hold at most 1000000000000 SU",
        ),
    );
    check("lab", Withdraw(Su::whole(100)), false, Ok(&["4 lab>grants 100 withdraw"]));
    check(
        "lab",
        Withdraw(Su::whole(101)),
        false,
        Err("account lab has 100 SU left, 101 SU cannot be withdrawn"),
    );
    check(
        "zoo",
        Withdraw(Su::whole(4)),
        false,
        Err("account zoo has 3 SU left, 4 SU cannot be withdrawn"),
    );
    check(
        "open",
        Withdraw(Su::whole(1)),
        false,
        Err("account open has no budget, nothing can be withdrawn from it"),
    );
    check("gym", Withdraw(Su::whole(1)), false, Err("there is no account 'gym'"));
    check("lab", Members(vec!["bob".to_owned()]), false, Ok(&[]));
    let crowd = vec!["a".to_owned(); limits::SHARING + 1];
    check(
        "lab",
        Members(crowd),
        false,
        Err("an account has at most 1000 members, not 1001: name groups as @group"),
    );
    check("lab", Remove, false, Ok(&["4 lab>grants 100 withdraw"]));
    check(
        "lab",
        Remove,
        true,
        Err(
            "live reservations are charged to account lab (0 SU held): wait until they have ended, or cancel them",
        ),
    );
    check(
        "zoo",
        Remove,
        false,
        Err(
            "live reservations are charged to account zoo (2 SU held): wait until they have ended, or cancel them",
        ),
    );
    check("open", Remove, false, Ok(&[]));
    check("gym", Remove, false, Err("there is no account 'gym'"));
}

#[test]
fn what_was_only_counted_is_granted_with_the_first_budget() {
    let mut books = three();
    let r = ReservationId(1);
    books.hold(NOW, "open", r, Su::whole(9), "ann").unwrap();
    books.charge(NOW, "open", r, Su::whole(7), "charge", "ann");
    let mut closed = books.clone();
    let grant = AccountAction::Grant(Su::whole(4));
    let records = books.control(NOW, "open", &grant, "root", false).unwrap();
    assert_eq!(lines(&records), ["5 grants>open 9 grant", "6 grants>open 4 grant"]);
    assert_eq!(books.left("open"), Some(Su::whole(4)));
    assert_eq!(books.check(), Ok(()));
    closed.release(NOW, "open", r, Su::whole(2), "ann");
    let records = closed.control(NOW, "open", &AccountAction::Remove, "root", false);
    assert_eq!(lines(&records.unwrap()), ["6 grants>open 7 grant"]);
    assert_eq!(closed.check(), Ok(()));
}

#[test]
fn configured_accounts() {
    let config = |members: &[&str], budget: i64| {
        let members = members.iter().map(|m| (*m).to_owned()).collect();
        let budget = Some(Su::whole(budget));
        BTreeMap::from([
            ("lab".to_owned(), AccountConfig { members, budget }),
            ("a:b".to_owned(), AccountConfig::default()),
            ("tea".to_owned(), AccountConfig::default()),
        ])
    };
    let mut books = Books::default();
    let records = books.configure(NOW, &config(&["ann"], 10));
    assert_eq!(lines(&records), ["1 grants>lab 10 grant"]);
    assert_eq!(records.len(), 3, "one line, two rows: 'a:b' is no name");
    assert!(books.configure(NOW, &config(&["ann"], 10)).is_empty());
    // The budget was granted once; members follow.
    let records = books.configure(NOW, &config(&["bob"], 99));
    assert_eq!((records.len(), books.left("lab")), (1, Some(Su::whole(10))));
    assert!(books.is_member("lab", &user("bob", &[])));
    let refused = |books: &mut Books, action| {
        let refusal = books.control(NOW, "lab", &action, "root", false);
        refusal.unwrap_err().message
    };
    assert_eq!(
        refused(&mut books, AccountAction::Remove),
        "account lab is in the configuration: take it out there first"
    );
    assert_eq!(
        refused(&mut books, AccountAction::Members(Vec::new())),
        "account lab is in the configuration: change its members there"
    );
    assert!(books.configure(NOW, &BTreeMap::new()).is_empty());
    let removed = books.control(NOW, "lab", &AccountAction::Remove, "root", false);
    assert!(removed.is_ok());
    let most = AccountConfig {
        budget: Some(Su(i64::MAX)),
        ..AccountConfig::default()
    };
    books.configure(NOW, &BTreeMap::from([("big".to_owned(), most)]));
    assert_eq!(books.left("big"), Some(Su::MOST));
    assert_eq!(books.check(), Ok(()));
}

#[test]
fn disagreements_are_found() {
    let check = |spoil: fn(&mut Books), wanted: &str| {
        let mut books = three();
        assert_eq!(books.check(), Ok(()));
        spoil(&mut books);
        let found = books.check().unwrap_err();
        assert!(found.contains(wanted), "{found}");
    };
    check(|b| b.grants += 1, "off by 1 millionths");
    check(|b| b.income -= 5, "off by -5 millionths");
    check(|b| spoil_lab(b, |r| r.held = Su(-1)), "below zero");
    check(|b| spoil_lab(b, |r| r.charged = Su::whole(101)), "overdrawn");
    check(|b| spoil_lab(b, |r| r.granted = Su::whole(99)), "off by");
    check(|b| spoil_lab(b, |r| r.name.clear()), "is called");
}

fn spoil_lab(books: &mut Books, spoil: fn(&mut AccountRow)) {
    spoil(books.accounts.get_mut("lab").unwrap());
}

#[derive(Clone, Debug)]
enum Step {
    Control(AccountAction, bool),
    Hold(Su),
    Charge(Su),
    Release(Su),
    GiveBack(Su),
    Configure(Option<Su>),
    Restart,
}

fn sums() -> impl Strategy<Value = Su> {
    prop_oneof![
        8 => (0i64..2000).prop_map(Su),
        1 => any::<i64>().prop_map(Su),
        1 => prop_oneof![Just(Su(i64::MIN)), Just(Su(i64::MAX)), Just(Su::MOST), Just(Su(-1))],
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    use AccountAction::{Grant, Remove, Withdraw};
    let act = |action, used| Step::Control(action, used);
    let members = Vec::new;
    prop_oneof![
        2 => prop::option::of(sums()).prop_map(move |budget| {
            act(AccountAction::Create { members: members(), budget }, false)
        }),
        2 => sums().prop_map(move |sum| act(Grant(sum), false)),
        2 => sums().prop_map(move |sum| act(Withdraw(sum), false)),
        1 => any::<bool>().prop_map(move |used| act(Remove, used)),
        6 => sums().prop_map(Step::Hold),
        4 => sums().prop_map(Step::Charge),
        3 => sums().prop_map(Step::Release),
        3 => sums().prop_map(Step::GiveBack),
        1 => prop::option::of(sums()).prop_map(Step::Configure),
        1 => Just(Step::Restart),
    ]
}

/// What a store would have: the lines, from which every book is computed anew, and the rows.
#[derive(Default)]
struct Store {
    books: BTreeMap<String, i128>,
    rows: BTreeMap<String, AccountRow>,
    last: u64,
}

impl Store {
    fn save(&mut self, records: Vec<Record>) {
        for record in records {
            match record {
                Record::Ledger(line) => self.line(line),
                Record::Account(row) => drop(self.rows.insert(row.name.clone(), row)),
                Record::AccountGone(name) => {
                    assert_eq!(self.book(&name), 0, "closed");
                    assert_eq!(self.book(&format!("{name}:held")), 0, "closed");
                    self.rows.remove(&name);
                }
                other => panic!("{other:?} is no matter of the books"),
            }
        }
    }

    fn line(&mut self, line: LedgerEntry) {
        assert_eq!(line.seq, self.last + 1);
        assert!(line.sum > Su::ZERO && line.sum <= Su::MOST, "{line:?}");
        self.last = line.seq;
        *self.books.entry(line.from).or_default() -= i128::from(line.sum.0);
        *self.books.entry(line.to).or_default() += i128::from(line.sum.0);
    }

    fn book(&self, name: &str) -> i128 {
        self.books.get(name).copied().unwrap_or(0)
    }

    /// The rows say what the lines say.
    fn agrees(&self, books: &Books) {
        assert_eq!(self.rows, books.accounts);
        assert_eq!(self.last, books.last_entry);
        assert_eq!(self.books.values().sum::<i128>(), 0);
        let mut charged = self.book(INCOME);
        for (name, row) in &self.rows {
            let held = self.book(&format!("{name}:held"));
            assert_eq!(held, i128::from(row.held.0), "{name}");
            assert_eq!(self.book(name), balance(row), "{name}");
            assert!(held >= 0 && (!row.budget || self.book(name) >= 0));
            charged -= i128::from(row.charged.0);
        }
        assert!(charged >= 0, "the rest was charged to removed accounts");
    }
}

fn run(books: &mut Books, name: &str, step: &Step) -> Result<Vec<Record>, Refusal> {
    let r = ReservationId(1);
    match step {
        Step::Control(action, in_use) => books.control(NOW, name, action, "root", *in_use),
        Step::Hold(sum) => books.hold(NOW, name, r, *sum, "ann"),
        Step::Charge(sum) => Ok(books.charge(NOW, name, r, *sum, "charge", "ann")),
        Step::Release(sum) => Ok(books.release(NOW, name, r, *sum, "ann")),
        Step::GiveBack(sum) => Ok(books.give_back(NOW, name, r, *sum, "ann")),
        Step::Configure(budget) => {
            let config = AccountConfig {
                budget: *budget,
                ..AccountConfig::default()
            };
            Ok(books.configure(NOW, &BTreeMap::from([(name.to_owned(), config)])))
        }
        Step::Restart => {
            let rows = books.accounts.values().cloned().collect();
            *books = Books::restore(rows, books.last_entry);
            Ok(Vec::new())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn always_balanced(steps in prop::collection::vec((0usize..3, steps()), 0..120)) {
        let (mut books, mut store) = (Books::default(), Store::default());
        for (account, step) in &steps {
            let before = books.clone();
            match run(&mut books, ["a", "b", "c"][*account], step) {
                Ok(records) => store.save(records),
                Err(_) => prop_assert_eq!(&books, &before, "{:?}", step),
            }
            prop_assert_eq!(books.check(), Ok(()), "{:?}", step);
            store.agrees(&books);
        }
    }
}
