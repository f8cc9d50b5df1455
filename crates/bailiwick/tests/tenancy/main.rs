//! Project control planes, seen from outside: what they give, what they keep apart, and what is left of them.

mod across;
mod controllers;
mod defaults;
mod doors;
mod flow_control;
mod isolation;
mod lifecycle;
mod platform;
mod several_servers;
mod tokens;
