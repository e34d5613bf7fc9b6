//! Values as the kernel's files take them, and names of groups that are made of them.

/// Length of a period over which a share of the processors is granted.
pub(super) const PERIOD_US: u64 = 100_000;

/// Version 1: a share of the processors that is worth so many.
pub(super) fn quota_of(cores: u64) -> Option<Vec<(String, String)>> {
    let quota = PERIOD_US.checked_mul(cores)?;
    Some(vec![("cpu.cfs_quota_us".into(), quota.to_string())])
}

/// Setting by which all processes of a group end when one starves.
pub(super) const TOGETHER: &str = "memory.oom.group";

/// Everything in the group is killed together when it has no memory left.
pub(super) fn together(memory: bool) -> Vec<(String, String)> {
    if memory {
        vec![(TOGETHER.into(), "1".into())]
    } else {
        Vec::new()
    }
}

/// The smaller of two limits.
pub(super) fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}

/// 64 bit FNV-1a over texts, each with its end.
pub(super) fn hash<'a>(texts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    texts.fold(0xcbf2_9ce4_8422_2325, |hash, text| step(text.iter().fold(hash, step), &0))
}

/// The numbers as the kernel's lists have them, `0-3,7`.
pub(super) fn ranges(mut numbers: Vec<u32>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let text = |&(a, b): &(u32, u32)| {
        if a == b {
            a.to_string()
        } else {
            format!("{a}-{b}")
        }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}
