//! Policy files: what an API team writes down, read into rules.

#![forbid(unsafe_code)]
