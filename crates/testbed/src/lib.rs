//! Real servers for tests and measurements.
