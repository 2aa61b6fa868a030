//! A policy file and a store: what decides about a request.

#![forbid(unsafe_code)]
