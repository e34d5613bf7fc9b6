//! What somebody may have meant who typed a name that is not there.

/// Most letters of a name that is compared.
const LONGEST: usize = 64;

/// The one of `names` that differs least from `name`, when that is little.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let most = 1 + name.chars().count() / 4;
    let near = names
        .filter(|other| other.len().abs_diff(name.len()) <= most)
        .map(|other| (distance(name, other), other))
        .min();
    near.filter(|(by, _)| *by <= most).map(|(_, other)| other)
}

/// Letters to be changed, added, taken away or swapped with their neighbour (the optimal
/// string alignment distance).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect(), Vec::new()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let change = rows[1][j] + usize::from(x != y);
            let mut least = change.min(rows[1][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(rows[0][j - 1] + 1);
            }
            row.push(least);
        }
        rows[2] = row;
        rows.rotate_left(1);
    }
    rows[1].last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let names = ["estimate", "estimates", "after", "nodes"];
        let check = |name: &str, want: Option<&str>| {
            assert_eq!(nearest(name, names.into_iter()), want, "{name}");
        };
        check("estimat", Some("estimate"));
        check("aftre", Some("after"));
        check("node", Some("nodes"));
        check("before", None);
        check("", None);
        check(&"é".repeat(100), None);
    }
}
