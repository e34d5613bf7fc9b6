//! Which columns of a table a terminal has room for, and how wide each is: no line ever wraps.
//!
//! What gives way, in this order, until a line fits:
//! 1. lists in brackets, as in `12_[1,3,5]`, are shortened;
//! 2. other columns that may be cut are cut, down to twice their least width;
//! 3. columns are left out in the order that the table states, empty ones before all others, but
//!    never the first;
//! 4. columns that may be cut are cut down to their least width, and to a few letters where that is
//!    more;
//! 5. the last column is left out, again and again;
//! 6. the first is cut.
//!
//! A column that is left out makes room: the others are then as wide as that allows.

use std::cmp::Reverse;

/// Blanks between two columns.
pub const GAP: usize = 2;
/// Lists in brackets are shortened to this before anything else gives way.
const SHORT_LIST: usize = 12;

/// Most columns to which a text is cut before columns go that no table has given a place.
const FEW_LETTERS: usize = 8;

/// A column: how wide it is, and how it gives way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// Width of its widest cell, or of its title if that is wider.
    pub width: usize,
    /// Least width down to which it may be cut.
    pub least: Option<usize>,
    /// Its cells are lists in brackets, which are shortened first.
    pub list: bool,
    /// Its place among the columns that are left out: those with low numbers go first.
    pub leave: Option<usize>,
    /// No cell of it has any text.
    pub empty: bool,
}

/// How far columns are cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// As far as they are read with ease.
    Some,
    /// As far as they may be.
    All,
}

/// The width of each column on a terminal of `limit` columns; `None`: it is left out.
pub fn fit(columns: &[Wish], limit: usize) -> Vec<Option<usize>> {
    let mut shown = vec![true; columns.len()];
    let mut cut = Cut::Some;
    loop {
        let widths = narrowed(columns, &shown, cut, limit);
        if excess(&widths, limit) == 0 {
            return widths;
        }
        match (next_to_leave(columns, &shown, cut), cut) {
            (Some(at), _) => shown[at] = false,
            (None, Cut::Some) => cut = Cut::All,
            (None, Cut::All) => return only_first(columns, limit),
        }
    }
}

/// The column that is left out next: by the order of the table, or from its end.
fn next_to_leave(columns: &[Wish], shown: &[bool], cut: Cut) -> Option<usize> {
    let all = columns.iter().enumerate();
    let all = all.filter(|(at, _)| *at > 0 && shown[*at]);
    match cut {
        Cut::Some => {
            let leave = |column: &Wish| match column.empty {
                true => Some(column.leave.unwrap_or(usize::MAX)),
                false => column.leave,
            };
            let ranked = all.filter_map(|(at, column)| Some((!column.empty, leave(column)?, at)));
            ranked.min().map(|(.., at)| at)
        }
        Cut::All => all.map(|(at, _)| at).next_back(),
    }
}

fn only_first(columns: &[Wish], limit: usize) -> Vec<Option<usize>> {
    let width = |(at, column): (usize, &Wish)| (at == 0).then(|| column.width.min(limit));
    columns.iter().enumerate().map(width).collect()
}

/// So many columns of the terminal are missing for a line.
fn excess(widths: &[Option<usize>], limit: usize) -> usize {
    let shown = widths.iter().flatten();
    let total = shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1);
    total.saturating_sub(limit)
}

/// The widths of the columns that are shown, lists cut before others.
fn narrowed(columns: &[Wish], shown: &[bool], cut: Cut, limit: usize) -> Vec<Option<usize>> {
    let all = columns.iter().zip(shown);
    let mut widths: Vec<Option<usize>> = all
        .map(|(column, shown)| shown.then_some(column.width))
        .collect();
    let short = |column: &Wish| column.least.map(|least| least.max(SHORT_LIST));
    squeeze(columns, &mut widths, limit, |c| short(c).filter(|_| c.list));
    squeeze(columns, &mut widths, limit, |c| c.least.map(|l| l * 2).filter(|_| !c.list));
    if cut == Cut::All {
        squeeze(columns, &mut widths, limit, |c| c.least);
        let few = |column: &Wish| column.least.map(|least| least.min(FEW_LETTERS));
        squeeze(columns, &mut widths, limit, |c| few(c).filter(|_| !c.list));
    }
    widths
}

/// Makes the widest columns narrower, down to what `least` says of each, until a line fits.
fn squeeze(
    columns: &[Wish],
    widths: &mut [Option<usize>],
    limit: usize,
    least: impl Fn(&Wish) -> Option<usize>,
) {
    loop {
        let missing = excess(widths, limit);
        if missing == 0 {
            return;
        }
        // Width and place of those that can still give way, the widest first.
        let mut wide: Vec<(usize, usize, usize)> = columns
            .iter()
            .zip(widths.iter())
            .enumerate()
            .filter_map(|(at, (column, width))| Some((at, (*width)?, least(column)?)))
            .filter(|(_, width, least)| width > least)
            .collect();
        wide.sort_by_key(|(at, width, _)| (Reverse(*width), Reverse(*at)));
        let Some((at, width, least)) = wide.first().copied() else {
            return;
        };
        // Down to the next widest only, so that the columns shrink together.
        let next = wide.get(1).map_or(0, |(_, width, _)| *width);
        let step = missing.min((width - next.min(width)).max(1));
        widths[at] = Some((width - step).max(least));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn plain(width: usize) -> Wish {
        Wish {
            width,
            least: None,
            list: false,
            leave: None,
            empty: false,
        }
    }

    const fn cut(width: usize, least: usize) -> Wish {
        Wish {
            least: Some(least),
            ..plain(width)
        }
    }

    const fn leaves(column: Wish, leave: usize) -> Wish {
        Wish {
            leave: Some(leave),
            ..column
        }
    }

    const fn list(width: usize, least: usize) -> Wish {
        Wish {
            list: true,
            ..cut(width, least)
        }
    }

    #[test]
    fn what_gives_way() {
        let check = |columns: &[Wish], limit: usize, want: &[usize]| {
            // 0: left out.
            let got: Vec<usize> = fit(columns, limit)
                .iter()
                .map(|width| width.unwrap_or(0))
                .collect();
            assert_eq!(got, want, "{columns:?} in {limit}");
        };
        let jobs = [
            list(60, 6),
            cut(30, 6),
            leaves(plain(8), 1),
            leaves(plain(5), 0),
        ];
        check(&jobs, 200, &[60, 30, 8, 5]);
        // Lists first, then what may be cut, and only then columns go.
        check(&jobs, 80, &[31, 30, 8, 5]);
        check(&jobs, 60, &[12, 29, 8, 5]);
        check(&jobs, 43, &[12, 12, 8, 5]);
        check(&jobs, 42, &[12, 18, 8, 0]);
        check(&jobs, 30, &[12, 16, 0, 0]);
        check(&jobs, 26, &[12, 12, 0, 0]);
        check(&jobs, 20, &[9, 9, 0, 0]);
        check(&jobs, 14, &[6, 6, 0, 0]);
        check(&jobs, 13, &[13, 0, 0, 0]);
        // Columns of which nothing is known go from the end.
        check(&[plain(10), plain(10), plain(10)], 25, &[10, 10, 0]);
        check(&[plain(10), plain(10)], 8, &[8, 0]);
        // Empty ones go before others, but only where there is no room.
        let empty = Wish {
            empty: true,
            ..leaves(plain(8), 9)
        };
        check(&[plain(10), leaves(plain(10), 0), empty], 32, &[10, 10, 8]);
        check(&[plain(10), leaves(plain(10), 0), empty], 31, &[10, 10, 0]);
        let empty = Wish {
            leave: None,
            ..empty
        };
        check(&[plain(10), empty, leaves(plain(10), 0)], 22, &[10, 0, 10]);
        check(&[empty, leaves(plain(10), 0)], 17, &[8, 0]);
        // A text at the end, such as a verdict, is worth more than room for all of it.
        check(&[plain(10), plain(10), cut(60, 20)], 40, &[10, 10, 16]);
        check(&[plain(10), plain(10), cut(60, 20)], 32, &[10, 10, 8]);
        check(&[plain(10), plain(10), cut(60, 20)], 31, &[10, 10, 0]);
        check(&[], 10, &[]);
    }

    fn any_column() -> impl Strategy<Value = Wish> {
        let least = proptest::option::of(1_usize..20);
        let leave = proptest::option::of(0_usize..5);
        (0_usize..100, least, any::<bool>(), leave, any::<bool>()).prop_map(
            |(width, least, list, leave, empty)| Wish {
                width,
                least,
                list,
                leave,
                empty,
            },
        )
    }

    proptest! {
        #[test]
        fn a_line_always_fits(
            columns in prop::collection::vec(any_column(), 1..8),
            limit in 20_usize..200,
        ) {
            let widths = fit(&columns, limit);
            prop_assert_eq!(widths.len(), columns.len());
            prop_assert_eq!(excess(&widths, limit), 0);
            prop_assert!(widths.iter().any(Option::is_some));
            for (width, column) in widths.iter().zip(&columns) {
                prop_assert!(width.is_none_or(|width| width <= column.width));
            }
        }
    }
}
