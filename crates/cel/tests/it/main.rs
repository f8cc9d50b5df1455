//! The language from outside: what expressions mean, what they cost, what is said about wrong ones.

mod admission;
mod costs;
mod declared;
mod language;
mod messages;
mod properties;
