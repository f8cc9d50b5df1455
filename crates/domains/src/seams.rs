//! The three things that are passed in: network, clock and roots.
