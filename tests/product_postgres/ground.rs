//! What the product stands on here: the embedded log, and views on the server that all tests share.

use std::sync::atomic::{AtomicU32, Ordering};

use reenact_tests::postgres;

use crate::support::Product;

/// A deployment of one node that has never been started.
pub(crate) fn product() -> Product {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    postgres::with_views_in(Product::new(), &format!("product-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Throws the views away. The product must not be up.
pub(crate) fn forget_views(product: &Product) {
    postgres::drop_views(product);
}
