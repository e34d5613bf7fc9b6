//! Figures of a replay: waits, slowdown, utilisation.
