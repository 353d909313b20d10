//! One PostgreSQL for all tests of a process: starting one costs more than most of them take.

use std::sync::OnceLock;

use reenact_postgres_rig::Server;

use crate::product::Product;

/// The database of all tests: each has a schema of its own.
const DATABASE: &str = "postgres";

/// The server, which is started for the first who asks. It ends with the process.
///
/// # Panics
/// When there is no server to be had: then there is nothing to test.
pub fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    // Every node keeps some connections, and many tests run side by side.
    SERVER.get_or_init(|| Server::start_with(&["max_connections=500"]).expect("a server"))
}

/// The product with its views in this schema.
pub fn with_views_in(product: Product, schema: &str) -> Product {
    product.set("REENACT_DATABASE", shared().url(DATABASE)).set("REENACT_DATABASE_SCHEMA", schema)
}

/// Throws the views away that a product has. It must not be up.
pub fn drop_views(product: &Product) {
    let schema = product.setting("REENACT_DATABASE_SCHEMA").expect("it has views here");
    shared().execute(DATABASE, &format!("drop schema \"{schema}\" cascade")).expect("the schema is there");
}
