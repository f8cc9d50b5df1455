//! Operators from catalogs, with the real kubectl against the real program: catalogs of bundles that were made up for the
//! purpose, and the walk-through of OLM's documents with real bundles and a real registry where they are there.

mod catalogs;
mod extensions;
mod lifecycle;
mod made_up;
mod plane;
mod refusals;
mod targets;
mod walkthrough;
