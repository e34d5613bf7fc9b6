//! The experiments of the COSY paper, section 4.
