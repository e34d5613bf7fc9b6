//! The model of Cirne and Berman (2001).
