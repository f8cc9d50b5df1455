//! Zonemaster's test cases, with its severities.
