//! Pages of lists: `page` from 1, `limit` from 1 to 1000, and what AgentOS says about them.

use std::time::Instant;

use reenact_projections::query::{Order, Page, Paging};
use serde::Serialize;
use utoipa::ToSchema;

use super::{error::ApiError, fields::Fields};

/// The most items that a page may have.
pub const LIMIT_MAX: u64 = 1_000;
const LIMIT_DEFAULT: u64 = 20;
/// So high that no deployment has it, so low that `page · limit` fits a signed 64-bit offset.
pub const PAGE_MAX: u64 = 1_000_000_000_000;

/// Where a page stands in its list.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct PageInfo {
    /// Which page, from 1.
    pub page: u64,
    /// Items a page.
    pub limit: u64,
    /// How many pages there are.
    pub total_pages: u64,
    /// How many items there are on all pages.
    pub total_count: u64,
    /// Milliseconds that the query took.
    pub search_time_ms: f64,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Listed<T> {
    /// The items of this page.
    pub data: Vec<T>,
    /// Where the page stands.
    pub meta: PageInfo,
}

/// Which page is asked for.
///
/// # Errors
/// 422 when `page` or `limit` is no number or outside its range.
pub fn paging(fields: &Fields) -> Result<Paging, ApiError> {
    let page = fields.number("page", 1..=PAGE_MAX)?.unwrap_or(1);
    let limit = fields.number("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    Ok(Paging { page, limit })
}

/// Which way the list is to be sorted.
///
/// # Errors
/// 422 when `sort_order` is another word.
pub fn order(fields: &Fields) -> Result<Order, ApiError> {
    let order = fields.one_of("sort_order", &[("asc", Order::Ascending), ("desc", Order::Descending)])?;
    Ok(order.unwrap_or_default())
}

/// Puts a page into its answer.
pub fn listed<A, B>(page: Page<A>, paging: Paging, began: Instant, show: impl FnMut(A) -> B) -> Listed<B> {
    let meta = PageInfo {
        page: paging.page,
        limit: paging.limit,
        total_pages: page.total.div_ceil(paging.limit.max(1)),
        total_count: page.total,
        search_time_ms: began.elapsed().as_secs_f64() * 1_000.0,
    };
    Listed { data: page.items.into_iter().map(show).collect(), meta }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a32_pages_outside_the_list_of_pages_are_refused() {
        for bad in
            ["page=0", "page=-1", "page=abc", "limit=0", "limit=-1", "limit=abc", "limit=1000000000", "limit=1001"]
        {
            let fields = Fields::parse("query", bad).unwrap();
            assert_eq!(paging(&fields).unwrap_err().status, 422, "{bad}");
        }
        let fields = Fields::parse("query", "page=7&limit=1000").unwrap();
        assert_eq!(paging(&fields).unwrap(), Paging { page: 7, limit: 1000 });
    }

    #[test]
    fn a32_totals_do_not_depend_on_the_page() {
        let paging = Paging { page: 99, limit: 20 };
        let page = listed(Page { items: Vec::<u8>::new(), total: 137 }, paging, Instant::now(), |item| item);
        assert_eq!((page.meta.total_pages, page.meta.total_count), (7, 137));
    }
}
