//! The experiments of Röblitz and Rzadca, "On the Placement of Reservations into Job
//! Schedules" (2006), section 5.
//!
//! Of each block of ten jobs one becomes a request for a reservation, asked for some time
//! ahead and with a window for its start. [`placement`] decides by load or by what-if, [`run`]
//! runs one combination and compares with the queue alone, [`study`] runs all of them, and
//! [`claims`] tries what the paper says.

pub mod claims;
pub mod figures;
pub mod placement;
pub mod plot;
pub mod report;
pub mod run;
pub mod study;
