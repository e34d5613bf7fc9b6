//! The published parameters of the model.

use rand_distr::Gamma;

/// The logarithm (base 2) of the machine that the sizes were fitted for.
const FITTED_NODES_LOG2: f64 = 7.0;

/// Shape and scale of a gamma distribution.
#[derive(Clone, Copy, Debug)]
pub struct GammaParameters(pub f64, pub f64);

impl GammaParameters {
    pub fn gamma(self) -> Gamma<f64> {
        Gamma::new(self.0, self.1).expect("shape and scale are positive")
    }
}

/// The fitted parameters of one kind of jobs.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Index of the queue in the workload.
    pub queue: u32,
    pub serial: f64,
    pub power_of_two: f64,
    /// Sizes are drawn from a two-stage uniform distribution of their logarithm (base 2).
    pub low: f64,
    pub middle: f64,
    pub high: f64,
    pub below_middle: f64,
    pub short_runs_ln: GammaParameters,
    pub long_runs_ln: GammaParameters,
    /// Short runs have the probability first · nodes + second.
    pub short_by_nodes: (f64, f64),
    pub gaps_ln: GammaParameters,
    pub daily: GammaParameters,
    /// Multiplies the shape of `gaps_ln`, which was fitted to the rush hours, for all hours.
    pub arrival_ratio: f64,
}

impl Parameters {
    /// The largest sizes are moved with the size of the machine, the smallest stay.
    pub fn for_machine(&self, nodes: u32) -> Self {
        let machine = f64::from(nodes).log2();
        let moved = |size: f64| {
            (size + machine - FITTED_NODES_LOG2)
                .max(self.low)
                .min(machine)
        };
        Self {
            low: self.low.min(machine),
            middle: moved(self.middle),
            high: moved(self.high),
            ..*self
        }
    }
}

pub const BATCH: Parameters = Parameters {
    queue: 1,
    serial: 0.2927,
    power_of_two: 0.6686,
    low: 1.2,
    middle: 5.0,
    high: 7.0,
    below_middle: 0.875,
    short_runs_ln: GammaParameters(6.57, 0.823),
    long_runs_ln: GammaParameters(639.1, 0.0156),
    short_by_nodes: (-0.003, 0.6986),
    gaps_ln: GammaParameters(6.0415, 0.8531),
    daily: GammaParameters(6.1271, 5.2740),
    arrival_ratio: 1.0519,
};

pub const INTERACTIVE: Parameters = Parameters {
    queue: 2,
    serial: 0.1541,
    power_of_two: 0.625,
    low: 1.0,
    middle: 3.0,
    high: 5.5,
    below_middle: 0.705,
    short_runs_ln: GammaParameters(3.8351, 0.6605),
    long_runs_ln: GammaParameters(7.073, 0.6856),
    short_by_nodes: (-0.0118, 0.9156),
    gaps_ln: GammaParameters(6.5510, 0.6621),
    daily: GammaParameters(8.9186, 3.6680),
    arrival_ratio: 0.9797,
};

pub const TYPELESS: Parameters = Parameters {
    queue: 0,
    serial: 0.244,
    power_of_two: 0.576,
    low: 0.8,
    middle: 4.5,
    high: 7.0,
    below_middle: 0.86,
    short_runs_ln: GammaParameters(4.2, 0.94),
    long_runs_ln: GammaParameters(312.0, 0.03),
    short_by_nodes: (-0.0054, 0.78),
    gaps_ln: GammaParameters(10.2303, 0.4871),
    daily: GammaParameters(8.1737, 3.9631),
    arrival_ratio: 1.0225,
};
