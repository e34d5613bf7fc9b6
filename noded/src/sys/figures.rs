//! Figures of a process out of the files of `/proc/PID`. Source: proc(5).

/// Microseconds of a tick in `/proc/PID/stat`: `USER_HZ` is 100 wherever this program runs.
const TICK_US: u64 = 10_000;

/// User and system time in microseconds, with that of children that have ended, out of
/// `/proc/PID/stat`; the name in it may hold anything.
pub fn times(text: &str) -> (u64, u64) {
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let numbers: Vec<u64> = rest
        .split_ascii_whitespace()
        .skip(11)
        .take(4)
        .map(|word| word.parse().unwrap_or(0))
        .collect();
    match numbers[..] {
        [user, system, waited_user, waited_system] => (
            user.saturating_add(waited_user).saturating_mul(TICK_US),
            system.saturating_add(waited_system).saturating_mul(TICK_US),
        ),
        _ => (0, 0),
    }
}

/// Resident memory in bytes, out of `/proc/PID/status`.
pub fn resident(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    number.map_or(0, |kib| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_process() {
        let check = |text: &str, want: (u64, u64)| assert_eq!(times(text), want, "{text}");
        check("42 (a) b) S 1 2 3 4 5 6 7 8 9 10 70 30 5 1 20 0 1", (750_000, 310_000));
        check("42 (a", (0, 0));
        check("", (0, 0));
    }

    #[test]
    fn memory_of_a_process() {
        let check = |text: &str, want: u64| assert_eq!(resident(text), want, "{text}");
        check("Name:\ta\nVmHWM:\t  9 kB\nVmRSS:\t    12 kB\n", 12 << 10);
        check("Name:\ta\n", 0);
        check("VmRSS:\tx kB\n", 0);
    }
}
