//! Types of GPUs out of what their vendors call them: what users ask for.

use super::FoundGpu;
use std::collections::BTreeMap;

/// Words of names that say who made it, or of what series it is.
const MAKERS: [&str; 9] = [
    "nvidia", "tesla", "geforce", "quadro", "amd", "ati", "instinct", "radeon", "graphics",
];
/// Words of names that say how it is built in.
const BUILT: [&str; 13] = [
    "pcie", "pci", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "nvl", "oam", "hbm2", "hbm2e",
    "hbm3",
];
/// Others that say nothing.
const EMPTY: [&str; 6] = [
    "generation",
    "edition",
    "series",
    "hbm3e",
    "gpu",
    "accelerator",
];
/// Longest type, in bytes.
const LONGEST: usize = 63;

/// The type that a GPU is asked for by: as the site calls it, else the model's name without its
/// maker, size of memory and form (`NVIDIA A100-SXM4-40GB` is `a100`); for a slice with its profile
/// (`a100.mig-1g.5gb`).
///
/// `types`: by a part of the vendor's name; the longest part counts.
pub fn kind(gpu: &FoundGpu, types: &BTreeMap<String, String>) -> String {
    // The name of a slice ends with its profile, its model's does not.
    let fits = types.iter().filter(|(part, _)| gpu.model.contains(*part));
    let own = fits.max_by_key(|(part, _)| part.len());
    let kind = match own {
        Some((_, kind)) => kind.clone(),
        None => short(&gpu.model),
    };
    let kind = match &gpu.slice {
        Some(profile) if kind.is_empty() => format!("mig-{}", word(profile)),
        Some(profile) => format!("{kind}.mig-{}", word(profile)),
        None => kind,
    };
    match cosy_model::device::check_name(&kind) {
        Ok(()) => kind,
        Err(_) => String::new(),
    }
}

/// The name of a model without what users do not ask for.
fn short(model: &str) -> String {
    let lower = model.to_lowercase();
    let words = lower.split(|c: char| c.is_whitespace() || "-_/()[]".contains(c));
    let kept: String = words
        .filter(|w| !MAKERS.contains(w) && !BUILT.contains(w) && !EMPTY.contains(w))
        .filter(|w| !is_size(w))
        .map(word)
        .collect();
    kept.chars().take(LONGEST).collect()
}

/// A size of memory, `40gb`.
fn is_size(word: &str) -> bool {
    let number = word.strip_suffix("gb").or_else(|| word.strip_suffix("gib"));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// What of a word may be part of a type; `1g.10gb+me` becomes `1g.10gb_me`.
fn word(text: &str) -> String {
    let text = text.replace('+', "_");
    let good = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    text.chars().filter(good).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(model: &str, slice: Option<&str>) -> FoundGpu {
        FoundGpu {
            model: model.to_owned(),
            slice: slice.map(str::to_owned),
            ..FoundGpu::default()
        }
    }

    #[test]
    fn types_out_of_names() {
        let none = BTreeMap::new();
        let check = |model: &str, want: &str| {
            assert_eq!(kind(&gpu(model, None), &none), want, "{model}");
        };
        check("NVIDIA A100-SXM4-40GB", "a100");
        check("NVIDIA A100 80GB PCIe", "a100");
        check("A100-PCIE-40GB", "a100");
        check("Tesla V100-SXM2-16GB", "v100");
        check("Tesla T4", "t4");
        check("NVIDIA H100 80GB HBM3", "h100");
        check("NVIDIA H100 NVL", "h100");
        check("NVIDIA GH200 480GB", "gh200");
        check("NVIDIA L40S", "l40s");
        check("NVIDIA GeForce RTX 2080 Ti", "rtx2080ti");
        check("NVIDIA RTX A6000", "rtxa6000");
        check("NVIDIA RTX 6000 Ada Generation", "rtx6000ada");
        check("AMD Instinct MI250X", "mi250x");
        check("AMD Instinct MI210 OAM", "mi210");
        check("gfx90a", "gfx90a");
        // Nothing left that users could write.
        check("", "");
        check("NVIDIA", "");
        check("4090", "");
        check("\u{1f4a9}", "");
        check(&"x".repeat(100), &"x".repeat(63));
    }

    #[test]
    fn slices_and_names_of_the_site() {
        let types = [
            ("A100".to_owned(), "big".to_owned()),
            ("A100 80GB".to_owned(), "a100-80".to_owned()),
        ];
        let types = BTreeMap::from(types);
        let check = |model: &str, slice: Option<&str>, want: &str| {
            assert_eq!(kind(&gpu(model, slice), &types), want, "{model}");
        };
        check("NVIDIA A100 80GB PCIe", None, "a100-80");
        check("NVIDIA A100-SXM4-40GB", None, "big");
        check("NVIDIA A100-SXM4-40GB", Some("1g.5gb"), "big.mig-1g.5gb");
        check("NVIDIA H100 80GB HBM3", Some("1g.10gb+me"), "h100.mig-1g.10gb_me");
        check("", Some("1g.5gb"), "mig-1g.5gb");
    }
}
