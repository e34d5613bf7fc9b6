//! What an attempt used of its nodes beside processors and memory: energy and GPUs.

use serde::{Deserialize, Serialize};

/// What an attempt used of the energy and the GPUs of one node, or of all of them together. All of it
/// is estimated from measurements at intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceUse {
    /// Its share by cores of what its nodes took, in microjoules; `None` where no node measures that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_uj: Option<u64>,
    /// How long its GPUs were looked at, each of them counted, in microseconds; 0 without.
    #[serde(skip_serializing_if = "is_nothing")]
    pub gpu_us: u64,
    /// Of that, how long something ran on them, in microseconds.
    #[serde(skip_serializing_if = "is_nothing")]
    pub gpu_busy_us: u64,
    /// Most memory of its GPUs that was in use at once on one node, in bytes.
    #[serde(skip_serializing_if = "is_nothing")]
    pub gpu_peak_bytes: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
const fn is_nothing(n: &u64) -> bool {
    *n == 0
}

impl DeviceUse {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// With what was used on another node, or at another time.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let energy_uj = match (self.energy_uj, other.energy_uj) {
            (Some(one), Some(two)) => Some(one.saturating_add(two)),
            (one, two) => one.or(two),
        };
        Self {
            energy_uj,
            gpu_us: self.gpu_us.saturating_add(other.gpu_us),
            gpu_busy_us: self.gpu_busy_us.saturating_add(other.gpu_busy_us),
            gpu_peak_bytes: self.gpu_peak_bytes.max(other.gpu_peak_bytes),
        }
    }

    /// Its energy in whole joules, where that is known.
    pub fn energy_joules(&self) -> Option<u64> {
        self.energy_uj.map(|uj| uj / 1_000_000)
    }

    /// Per mille of the time in which something ran on its GPUs, on average over them; `None` where they
    /// were never looked at.
    pub fn gpu_busy_permille(&self) -> Option<u16> {
        // Rounded: each measurement has lost a part of a microsecond.
        let all = u128::from(self.gpu_us);
        let permille = (u128::from(self.gpu_busy_us) * 1000 + all / 2).checked_div(all)?;
        u16::try_from(permille.min(1000)).ok()
    }

    /// The most memory that was in use, in bytes; `None` where its GPUs were never looked at.
    pub fn gpu_memory_bytes(&self) -> Option<u64> {
        (self.gpu_us > 0 || self.gpu_peak_bytes > 0).then_some(self.gpu_peak_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_nodes() {
        let one = DeviceUse {
            energy_uj: Some(2_999_999),
            gpu_us: 1000,
            gpu_busy_us: 1000,
            gpu_peak_bytes: 5,
        };
        let two = DeviceUse {
            energy_uj: None,
            gpu_us: 3000,
            gpu_busy_us: 0,
            gpu_peak_bytes: 9,
        };
        let both = one.and(two);
        assert_eq!(both.energy_joules(), Some(2));
        assert_eq!((both.gpu_busy_permille(), both.gpu_memory_bytes()), (Some(250), Some(9)));
        assert_eq!(one.and(one).energy_joules(), Some(5));
        let short = DeviceUse {
            gpu_us: 100_007,
            gpu_busy_us: 27_000,
            ..one
        };
        assert_eq!(short.gpu_busy_permille(), Some(270));
    }

    #[test]
    fn what_nobody_measures_is_not_known() {
        let nothing = DeviceUse::default();
        assert!(nothing.is_empty() && nothing.and(nothing).is_empty());
        assert_eq!(nothing.energy_joules(), None);
        assert_eq!((nothing.gpu_busy_permille(), nothing.gpu_memory_bytes()), (None, None));
        let json = serde_json::to_string(&nothing).unwrap();
        assert_eq!(json, "{}");
        assert_eq!(serde_json::from_str::<DeviceUse>(&json).unwrap(), nothing);
    }
}
