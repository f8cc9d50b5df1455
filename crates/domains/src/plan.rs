//! The exact records to create for a service, as the detected provider wants them typed, and their exports.
