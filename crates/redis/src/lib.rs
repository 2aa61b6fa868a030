//! Tidegate's decisions for a whole fleet, on Redis or Valkey.
