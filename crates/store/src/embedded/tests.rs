//! Behaviour of the engine that the common contract does not cover.
