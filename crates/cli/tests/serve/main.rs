//! `tidegate serve` as it is run: started, reloaded, attacked, stopped, killed and started again.

mod crash;
mod hostile;
mod http2;
mod openapi;
mod settings;
mod stand;
mod stop;
