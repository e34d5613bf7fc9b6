//! The daily cycles of submissions that the model knows, as fitted by its authors.

use std::fmt;
use std::str::FromStr;

/// The site whose daily cycle is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Argonne National Laboratory, 120 nodes.
    Anl,
    /// Cornell Theory Center, 430 nodes.
    Ctc,
    /// Royal Institute of Technology, Stockholm, 100 nodes.
    Kth,
    /// San Diego Supercomputer Center, 128 nodes.
    Sdsc,
}

/// The text is not the name of an arrival pattern.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown arrival pattern `{0}`: known are anl, ctc, kth and sdsc")]
pub struct UnknownArrival(pub String);

impl Arrival {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Anl, Self::Ctc, Self::Kth, Self::Sdsc];

    /// Nodes of the machine that the rates were fitted on.
    pub const fn fitted_nodes(self) -> u32 {
        match self {
            Self::Anl => 120,
            Self::Ctc => 430,
            Self::Kth => 100,
            Self::Sdsc => 128,
        }
    }

    /// The word for it in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anl => "anl",
            Self::Ctc => "ctc",
            Self::Kth => "kth",
            Self::Sdsc => "sdsc",
        }
    }

    /// Coefficients of the rate, highest power first.
    const fn polynomial(self) -> &'static [f64] {
        match self {
            Self::Anl => &[
                1.194_417e+2,
                1.069_567e+3,
                1.443_500e+1,
                -7.552_833e+2,
                -4.871_500e+1,
                1.960_167e+2,
                1.491_917e+1,
                -2.248_333e+1,
                -1.554_433,
                1.041_417,
                3.766_833e-2,
                -1.102_533e-2,
                2.865_167e-3,
            ],
            Self::Ctc => &[
                4.234_000,
                -4.303_333e-1,
                -4.308_500,
                1.407_367e-1,
                1.360_200,
                -6.104_667e-2,
                -1.605_150e-1,
                1.274_250e-2,
                9.416_833e-3,
            ],
            Self::Kth => &[
                -5.447_167e+2,
                -1.024_067e+3,
                5.425_500e+2,
                8.234_333e+2,
                -2.101_833e+2,
                -2.518_833e+2,
                3.968_167e+1,
                3.590_000e+1,
                -3.694_167,
                -2.247_000,
                1.383_983e-1,
                3.195_833e-2,
                3.734_333e-4,
                1.618_433e-3,
            ],
            Self::Sdsc => &[
                -9.166_000e+1,
                2.545_000e+1,
                5.026_500e+1,
                -1.586_583e+1,
                -9.551_333,
                3.322_000,
                8.097_167e-1,
                -2.601_833e-1,
                -4.313_167e-2,
                6.112_500e-3,
                3.543_667e-3,
            ],
        }
    }

    /// Rate on the fitted machine at `x`: -0.5 is midnight, 0 is noon.
    pub(super) fn rate(self, x: f64) -> f64 {
        let terms = self.polynomial().iter();
        terms.fold(0.0, |sum, coefficient| sum * x + coefficient)
    }
}

impl FromStr for Arrival {
    type Err = UnknownArrival;

    fn from_str(text: &str) -> Result<Self, UnknownArrival> {
        let known = Self::ALL.into_iter().find(|known| known.name() == text);
        known.ok_or_else(|| UnknownArrival(text.to_owned()))
    }
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_arrival_patterns_are_read_and_written() {
        for arrival in Arrival::ALL {
            assert_eq!(arrival.to_string().parse(), Ok(arrival));
        }
        let unknown = UnknownArrival("lanl".to_owned());
        assert_eq!("lanl".parse::<Arrival>(), Err(unknown));
    }
}
