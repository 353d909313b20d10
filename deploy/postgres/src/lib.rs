//! A real PostgreSQL for tests and benches: a server of its own, in a folder of its own, that ends when it is dropped.
//!
//! Debian's package `postgresql` brings the programs; they are looked for in `PATH`, where `REENACT_POSTGRES` says,
//! and where Debian puts them. The server refuses to run as root, so there it runs as the user that the package makes.

mod server;

pub use server::Server;
