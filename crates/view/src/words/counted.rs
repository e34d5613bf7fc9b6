//! Amounts by name: `matlab:2,fluent:1`.

use cosy_model::CountedResources;

/// The text of such amounts.
pub fn write(amounts: &CountedResources) -> String {
    let each = amounts
        .iter()
        .map(|(name, amount)| format!("{name}:{amount}"));
    each.collect::<Vec<_>>().join(",")
}

/// Each name with its amount; what has none is left out.
pub fn read(text: &str) -> impl Iterator<Item = (&str, u32)> {
    let one = |part| -> Option<(&str, u32)> {
        let (name, amount) = str::rsplit_once(part, ':')?;
        Some((name, amount.parse().ok()?))
    };
    text.split(',').filter_map(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_has_no_amount_is_left_out() {
        let all: Vec<_> = read("a:1,b,c:x,d:e:2").collect();
        assert_eq!(all, [("a", 1), ("d:e", 2)]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            amounts in prop::collection::btree_map("[a-z][a-z0-9_.:-]{0,8}", 1u32.., 0..8),
        ) {
            let mut counted = CountedResources::default();
            amounts.iter().for_each(|(name, amount)| counted.set(name, *amount));
            let text = write(&counted);
            let read: Vec<(&str, u32)> = read(&text).collect();
            prop_assert_eq!(read, counted.iter().collect::<Vec<_>>());
        }
    }
}
