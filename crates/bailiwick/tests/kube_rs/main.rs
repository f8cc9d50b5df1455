//! kube-rs' runtime against the real server: reflectors and a controller under churn, and through crashes of the server.
//! `BAILIWICK_CHURN_SECONDS` makes them churn for longer than the few seconds that every run can afford.

mod churn;
mod controller;
mod custom_controller;
mod reflector;
