//! Laws of whole policies: files are made up at random, and so are requests.

mod laws;
mod model;
mod written;
