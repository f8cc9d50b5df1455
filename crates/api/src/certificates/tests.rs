//! Specifications by example.
