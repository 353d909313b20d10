//! What the product stands on here: the embedded log, in its own folder. `tests/product_kafka` has the other one.

use crate::support::Product;

/// A deployment of one node that has never been started.
pub(crate) fn product() -> Product {
    Product::new()
}
