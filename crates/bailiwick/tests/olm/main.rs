//! Operators from catalogs, with the real kubectl against the real program: catalogs of bundles that were made up for the
//! purpose, and the walk-through of OLM's documents with real bundles and a real registry where they are there.

mod catalogs;
mod cluster;
mod copies;
mod end_to_end;
mod explaining;
mod extensions;
mod front;
mod groups;
mod impersonation;
mod lifecycle;
mod made_up;
mod operator_services;
mod plane;
mod pulling;
mod refusals;
mod registry;
mod restarts;
mod rollback;
mod several_servers;
mod targets;
mod upkeep;
mod walkthrough;
