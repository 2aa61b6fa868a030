//! Laws of whole policies: files are made up at random, and so are requests.

mod api_keys;
mod busy;
mod dots;
mod identity;
mod laws;
mod messages;
mod model;
mod overrides;
mod readings;
mod reference;
mod robust;
mod routes;
mod slashes;
mod spellings;
mod torn;
mod written;
