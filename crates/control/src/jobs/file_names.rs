//! File name patterns: `%j` job id, `%A` first id of the array, `%a` index, `%x` job name,
//! `%u` user, `%N` first node, `%n` and `%t` 0, `%s` `batch`, `%J` job and step,
//! `%%` a percent sign; `%4j` pads numbers with zeros (sbatch(1), "filename pattern").

use cosy_model::OsText;

/// What a pattern can name.
pub(crate) struct Names<'a> {
    pub job: u64,
    pub array: u64,
    pub index: Option<u32>,
    pub name: &'a str,
    pub user: &'a str,
    pub node: &'a str,
}

/// Most digits that a pattern may ask for.
const MOST_DIGITS: usize = 10;

pub(crate) fn expand(pattern: &[u8], names: &Names<'_>) -> OsText {
    let mut out = Vec::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let width = rest[..digits]
            .iter()
            .fold(0, |width: usize, d| (width * 10 + usize::from(d - b'0')).min(MOST_DIGITS));
        match rest.get(digits).and_then(|c| value(*c, width, names)) {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                rest = &rest[digits + 1..];
            }
            None => out.push(b'%'),
        }
    }
    OsText(out)
}

fn value(letter: u8, width: usize, names: &Names<'_>) -> Option<String> {
    let number = |n: u64| format!("{n:0width$}");
    let file_name = |t: &str| t.replace('/', "_");
    Some(match letter {
        b'j' => number(names.job),
        b'J' => number(names.job),
        b'A' => number(names.array),
        b'a' => match names.index {
            Some(index) => number(u64::from(index)),
            None => number(u64::from(u32::MAX - 1)),
        },
        b'n' | b't' => number(0),
        b's' => "batch".to_owned(),
        b'x' => file_name(names.name),
        b'u' => names.user.to_owned(),
        b'N' => names.node.to_owned(),
        b'%' => "%".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let names = Names {
            job: 12,
            array: 10,
            index: Some(2),
            name: "a/b",
            user: "ann",
            node: "n1",
        };
        let check = |pattern: &str, want: &str| {
            assert_eq!(expand(pattern.as_bytes(), &names).lossy(), want, "{pattern}");
        };
        check("out-%j", "out-12");
        check("%A_%a.o", "10_2.o");
        check("%4a", "0002");
        check("%x-%u@%N", "a_b-ann@n1");
        check("100%%", "100%");
        check("%q%", "%q%");
        check("%99999999999999999999j", "0000000012");
    }
}
