//! Aggregation from outside: APIServices that lead to a real extension API server and to one that misbehaves, against the
//! real program.

mod api;
mod audit;
mod availability;
mod backend;
mod discovery;
mod identity;
mod isolation;
mod openapi;
mod proxying;
mod sample_apiserver;
mod services;
mod upgrade;
