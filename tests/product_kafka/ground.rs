//! What the product stands on here, as it does in production: a log on Kafka and views on PostgreSQL, of its own for
//! each test, on the broker and the server that all share.

use std::sync::atomic::{AtomicU32, Ordering};

use reenact_tests::{broker, postgres};

use crate::support::Product;

/// Short, because a node that was killed is not let in again under its name before.
const PROPERTIES: &str = "session.timeout.ms=3000\nheartbeat.interval.ms=500\n";
/// Enough that a key and a session may have different ones. Each costs a claim at every start.
const PARTITIONS: u32 = 2;

/// The prefix of a deployment that does not exist yet.
pub(crate) fn deployment() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("product-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A deployment of one node that has never been started.
pub(crate) fn product() -> Product {
    node("a", &deployment())
}

/// A node of the deployment with this prefix.
pub(crate) fn node(name: &str, prefix: &str) -> Product {
    let brokers = broker::shared(env!("CARGO_TARGET_TMPDIR"), "product_kafka");
    let product = postgres::with_views_in(Product::new(), prefix);
    product
        .file("kafka.properties", PROPERTIES)
        .set("REENACT_LOG", format!("kafka://{brokers}"))
        .set("REENACT_TOPIC_PREFIX", prefix)
        .set("REENACT_KAFKA_PROPERTIES", "kafka.properties")
        .set("REENACT_KAFKA_PARTITIONS", PARTITIONS)
        .set("REENACT_NODE", name)
        .set("REENACT_DRAIN_S", 2)
}

/// Throws the views away. No node of the product may be up.
pub(crate) fn forget_views(product: &Product) {
    postgres::drop_views(product);
}
