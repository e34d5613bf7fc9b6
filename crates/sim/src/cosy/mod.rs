//! The experiments of Cao and Zimmermann, "Queue scheduling and advance reservations with
//! COSY" (2004), section 4.

pub mod case;
pub mod curve;
pub mod figures;
pub mod sample;
pub mod seek;
pub mod trial;
