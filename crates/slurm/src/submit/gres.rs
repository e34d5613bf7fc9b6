//! Countable resources and GPUs: `--gres`, `--gpus*`, `--licenses`. Source: sbatch(1),
//! captures.

use super::Fault;
use cosy_model::CountedResources;

/// What the original says to a resource that it does not know.
pub const INVALID: &str = "Invalid generic resource (gres) specification";
/// What its controller says to a license that there is not, or not so often.
pub const INVALID_LICENSE: &str = "Invalid license specification";
/// Most items of one list.
const ITEMS: usize = 100;

/// Resources of one node, or of a task, or of the job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Amounts {
    /// GPUs of any type and of all types together.
    pub gpus: u32,
    /// GPUs by type.
    pub gpu_types: CountedResources,
    /// Everything else, by name.
    pub other: CountedResources,
}

impl Amounts {
    /// Reads `gpu:2`, `gpu:a100:2`, `gres/gpu:1`, `fpga:1,gpu`, `none`.
    ///
    /// # Errors
    /// [`INVALID`].
    pub fn read(text: &str) -> Result<Self, Fault> {
        let mut amounts = Self::default();
        for (at, item) in text.split(',').enumerate() {
            if at >= ITEMS {
                return Err(invalid());
            }
            let item = item.strip_prefix("gres/").unwrap_or(item);
            let item = item.strip_prefix("gres:").unwrap_or(item);
            if !item.eq_ignore_ascii_case("none") && !item.is_empty() {
                amounts.add_item(item)?;
            }
        }
        Ok(amounts)
    }

    fn add_item(&mut self, item: &str) -> Result<(), Fault> {
        let item = item.split('(').next().unwrap_or_default();
        let (name, rest) = match item.split_once([':', '=']) {
            Some((name, rest)) => (name, rest),
            None => (item, "1"),
        };
        if name == "gpu" {
            return self.add_gpus(rest);
        }
        let number = number(rest.rsplit(':').next().unwrap_or_default()).ok_or_else(invalid)?;
        if !named(name) || rest.matches(':').count() > 1 {
            return Err(invalid());
        }
        self.other
            .set(name, self.other.get(name).saturating_add(number));
        Ok(())
    }

    /// Reads `2`, `a100:2`, `a100:1,v100:1`, `a100`: the value of `--gpus` and its like.
    ///
    /// # Errors
    /// [`INVALID`].
    pub fn read_gpus(text: &str) -> Result<Self, Fault> {
        let mut amounts = Self::default();
        for (at, item) in text.split(',').enumerate() {
            if at >= ITEMS || item.is_empty() {
                return Err(invalid());
            }
            amounts.add_gpus(item)?;
        }
        Ok(amounts)
    }

    fn add_gpus(&mut self, text: &str) -> Result<(), Fault> {
        let (kind, count) = match text.split_once([':', '=']) {
            Some((kind, count)) => (Some(kind), number(count)),
            None => match number(text) {
                Some(count) => (None, Some(count)),
                None => (Some(text), Some(1)),
            },
        };
        let count = count.ok_or_else(invalid)?;
        if let Some(kind) = kind {
            if !named(kind) {
                return Err(invalid());
            }
            let have = self.gpu_types.get(kind);
            self.gpu_types.set(kind, have.saturating_add(count));
        }
        self.gpus = self.gpus.saturating_add(count);
        Ok(())
    }

    /// The same, so many times.
    pub fn times(&self, factor: u32) -> Self {
        let each = |counted: &CountedResources| {
            let mut product = CountedResources::default();
            for (name, n) in counted.iter() {
                product.set(name, n.saturating_mul(factor));
            }
            product
        };
        Self {
            gpus: self.gpus.saturating_mul(factor),
            gpu_types: each(&self.gpu_types),
            other: each(&self.other),
        }
    }

    /// Whether GPUs of each type can be shared out evenly.
    pub fn is_divisible(&self, parts: u32) -> bool {
        let parts = parts.max(1);
        self.gpus.is_multiple_of(parts)
            && self.gpu_types.iter().all(|(_, n)| n.is_multiple_of(parts))
    }

    /// A share of each of `parts`, rounded up.
    pub fn divided(&self, parts: u32) -> Self {
        let parts = parts.max(1);
        let mut types = CountedResources::default();
        for (name, n) in self.gpu_types.iter() {
            types.set(name, n.div_ceil(parts));
        }
        let typed = types.iter().map(|(_, n)| n).fold(0, u32::saturating_add);
        Self {
            gpus: if types.is_empty() {
                self.gpus.div_ceil(parts)
            } else {
                typed
            },
            gpu_types: types,
            other: self.other.clone(),
        }
    }

    /// The GPUs as the controller of the original has them: `gres/gpu:a100:2,gres/gpu:1`.
    pub fn gpus_text(&self) -> String {
        let typed = self.gpu_types.iter();
        let mut all: Vec<String> = typed
            .map(|(kind, n)| format!("gres/gpu:{kind}:{n}"))
            .collect();
        let of_types = self.gpu_types.iter().map(|(_, n)| n);
        let rest = self
            .gpus
            .saturating_sub(of_types.fold(0, u32::saturating_add));
        if rest > 0 {
            all.push(format!("gres/gpu:{rest}"));
        }
        all.join(",")
    }

    /// Whether anything is asked for.
    pub fn is_empty(&self) -> bool {
        self.gpus == 0 && self.other.is_empty()
    }
}

fn invalid() -> Fault {
    Fault::error(INVALID)
}

/// A number as these options have it: also `2K`.
fn number(text: &str) -> Option<u32> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let fine = (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let n: u64 = fine.then(|| digits.parse().ok()).flatten()?;
    u32::try_from(n.checked_mul(factor)?).ok()
}

fn named(name: &str) -> bool {
    let fine = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    (1..=cosy_model::limits::NAME_BYTES).contains(&name.len()) && name.chars().all(fine)
}

/// Reads `matlab`, `matlab:2,ansys:1`.
///
/// # Errors
/// [`INVALID_LICENSE`].
pub fn licenses(text: &str) -> Result<CountedResources, Fault> {
    let mut all = CountedResources::default();
    let invalid = || Fault::refusal(INVALID_LICENSE);
    for (at, item) in text.split([',', ';']).enumerate() {
        let (name, count) = match item.split_once([':', '=']) {
            Some((name, count)) => (name, number(count)),
            None => (item, Some(1)),
        };
        // `name@server` is a license of that name.
        let base = name.split('@').next().unwrap_or_default();
        let count = count.filter(|_| at < ITEMS && named(base));
        let count = count.ok_or_else(invalid)?;
        all.set(name, all.get(name).saturating_add(count));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(a: &Amounts) -> String {
        let list = |c: &CountedResources| {
            let all: Vec<String> = c.iter().map(|(n, k)| format!("{n}={k}")).collect();
            all.join(",")
        };
        format!("{} [{}] {}", a.gpus, list(&a.gpu_types), list(&a.other))
    }

    #[test]
    fn lists() {
        let check = |text: &str, want: Option<&str>| {
            let got = Amounts::read(text).ok().map(|a| shown(&a));
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("gpu:2", Some("2 [] "));
        check("gpu", Some("1 [] "));
        check("gpu:a100:2,fpga:1", Some("2 [a100=2] fpga=1"));
        check("gres/gpu:1", Some("1 [] "));
        check("gpu:a100", Some("1 [a100=1] "));
        check("gpu:2(S:0-1)", Some("2 [] "));
        check("bandwidth:lustre:4K", Some("0 [] bandwidth=4096"));
        check("none", Some("0 [] "));
        check("gpu:x:y:2", None);
        check("fpga:x", None);
        check("a b:1", None);
    }

    #[test]
    fn gpus() {
        let check = |text: &str, want: Option<&str>| {
            let got = Amounts::read_gpus(text).ok().map(|a| shown(&a));
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("4", Some("4 [] "));
        check("a100:2,v100:1", Some("3 [a100=2,v100=1] "));
        check("", None);
        check("a100:x", None);
        let five = Amounts::read_gpus("a:3,b:2").unwrap();
        assert_eq!(shown(&five.divided(2)), "3 [a=2,b=1] ");
        assert_eq!(shown(&five.times(2)), "10 [a=6,b=4] ");
    }

    #[test]
    fn license_lists() {
        let check = |text: &str, want: Option<&[(&str, u32)]>| {
            let got = licenses(text).ok();
            let got = got.as_ref().map(|c| c.iter().collect::<Vec<_>>());
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("lic:1", Some(&[("lic", 1)]));
        check("b,a:2", Some(&[("a", 2), ("b", 1)]));
        check("a@server:2", Some(&[("a@server", 2)]));
        check("a:x", None);
        check("a:0", Some(&[]));
        check("", None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "[a-z0-9:,=kK@()/ é]{0,40}") {
            let _ = licenses(&text);
            let _ = Amounts::read_gpus(&text);
            if let Ok(a) = Amounts::read(&text) {
                prop_assert!(a.divided(3).gpus <= a.gpus.saturating_add(100));
            }
        }
    }
}
