//! What the product stands on here: the embedded log, in its own folder. `tests/product_kafka` has the other one.

use crate::support::Product;

/// A deployment of one node that has never been started.
pub(crate) fn product() -> Product {
    Product::new()
}

/// Throws the views away. The product must not be up.
pub(crate) fn forget_views(product: &Product) {
    std::fs::remove_file(product.data().join("views.db")).expect("something says which rows are read");
}
