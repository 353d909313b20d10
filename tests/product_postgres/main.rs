//! The failures of the field with views on PostgreSQL and an embedded log: the very tests that `tests/product` runs on
//! SQLite. `tests/product_kafka` has both, a log on Kafka and views on PostgreSQL.

mod a02_database_gone;
#[path = "../product/a05_keys.rs"]
mod a05_keys;
#[path = "../product/a11_long_sessions.rs"]
mod a11_long_sessions;
#[path = "../product/a14_users_apart.rs"]
mod a14_users_apart;
#[path = "../product/a16_usage.rs"]
mod a16_usage;
#[path = "../product/a20_text.rs"]
mod a20_text;
#[path = "../product/a28_people.rs"]
mod a28_people;
#[path = "../product/a32_pages.rs"]
mod a32_pages;
#[path = "../product/forms.rs"]
mod forms;
mod ground;
#[path = "../product/world.rs"]
mod world;

use reenact_tests::product as support;
