//! Reads the text of `sacct -P`.
