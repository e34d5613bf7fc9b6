//! The model of Lublin and Feitelson (2003).
