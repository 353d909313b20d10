//! What tokens cost, from a table of prices that somebody keeps. Rows hold tokens and no money: prices are of the moment
//! of reading, so a rebuild needs none and a price that was wrong can be put right.

use chrono::NaiveDate;
use serde::Deserialize;

use crate::metrics::ModelMetrics;

/// Trillionths of the currency: fine enough for a token of the cheapest model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cost(pub u128);

impl Cost {
    /// In the currency.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sums of money are shown to 15 digits")]
    pub fn amount(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

/// What a million tokens of a model cost, from a day on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The provider, as in agent files.
    pub provider: String,
    /// The model's id, as in agent files.
    pub model: String,
    /// The first day of the price, `2026-11-30`; without one it is the price of all days before the next.
    #[serde(default)]
    pub from: Option<String>,
    /// A million tokens that are read.
    pub input: f64,
    /// A million tokens that are written.
    pub output: f64,
    /// A million tokens read from the provider's cache; as `input` unless said.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// A million tokens written to the provider's cache; as `input` unless said.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// A million tokens of thinking; as `output` unless said.
    #[serde(default)]
    pub reasoning: Option<f64>,
}

/// A table of prices that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// A price is no amount.
    #[error("`{field}` of `{model}` must be an amount from 0 to 1000000 for a million tokens")]
    Amount {
        /// Which price.
        field: &'static str,
        /// Of which model.
        model: String,
    },
    /// A day is none.
    #[error("`from = \"{from}\"` of `{model}` is no day, as `2026-11-30` is")]
    Day {
        /// What stands there.
        from: String,
        /// Of which model.
        model: String,
    },
    /// Two prices begin on one day.
    #[error("`{model}` has two prices that begin on the same day: remove one, or say `from` when the later one begins")]
    Twice {
        /// Of which model.
        model: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rates {
    provider: String,
    model: String,
    from: NaiveDate,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

/// All prices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prices(Vec<Rates>);

impl Prices {
    /// The table of these prices.
    ///
    /// # Errors
    /// When a price is no amount, a day is none, or two prices begin on one day.
    pub fn new(prices: &[Price]) -> Result<Self, PriceError> {
        let mut rates = prices.iter().map(Rates::of).collect::<Result<Vec<_>, _>>()?;
        rates.sort();
        let twice = rates.windows(2).find(|pair| pair[0].key() == pair[1].key() && pair[0].from == pair[1].from);
        match twice {
            Some(pair) => Err(PriceError::Twice { model: pair[0].model.clone() }),
            None => Ok(Self(rates)),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a model's calls of a day cost. `None` when that is not known: the model has no price on that day, or calls
    /// did not say what they used.
    #[must_use]
    pub fn cost(&self, day: &str, used: &ModelMetrics) -> Option<Cost> {
        if used.calls == 0 {
            return Some(Cost::default());
        }
        if used.calls_without_usage > 0 {
            return None;
        }
        let day: NaiveDate = day.parse().ok()?;
        let key = (used.model_provider.as_deref()?, used.model_id.as_deref()?);
        let rates = self.0.iter().rev().find(|rates| rates.key() == key && rates.from <= day)?;
        let tokens = &used.tokens;
        let (input, output) = (tokens.input_tokens?, tokens.output_tokens?);
        let (read, write) = (tokens.cache_read_tokens.unwrap_or(0), tokens.cache_write_tokens.unwrap_or(0));
        let thought = tokens.reasoning_tokens.unwrap_or(0);
        let parts = [
            (input.saturating_sub(read).saturating_sub(write), rates.input),
            (read, rates.cache_read),
            (write, rates.cache_write),
            (output.saturating_sub(thought), rates.output),
            (thought, rates.reasoning),
        ];
        Some(Cost(parts.into_iter().map(|(tokens, rate)| u128::from(tokens) * u128::from(rate)).sum()))
    }
}

impl Rates {
    fn of(price: &Price) -> Result<Self, PriceError> {
        let amount =
            |field, amount| per_token(amount).ok_or_else(|| PriceError::Amount { field, model: price.model.clone() });
        let (input, output) = (amount("input", price.input)?, amount("output", price.output)?);
        let or = |field, given: Option<f64>, other| given.map_or(Ok(other), |given| amount(field, given));
        let from = match &price.from {
            None => NaiveDate::MIN,
            Some(from) => {
                let bad = |_| PriceError::Day { from: from.clone(), model: price.model.clone() };
                from.parse().map_err(bad)?
            }
        };
        Ok(Self {
            provider: price.provider.clone(),
            model: price.model.clone(),
            from,
            input,
            output,
            cache_read: or("cache_read", price.cache_read, input)?,
            cache_write: or("cache_write", price.cache_write, input)?,
            reasoning: or("reasoning", price.reasoning, output)?,
        })
    }

    fn key(&self) -> (&str, &str) {
        (&self.provider, &self.model)
    }
}

/// An amount for a million tokens as trillionths for one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be from 0 to 1e12")]
fn per_token(amount: f64) -> Option<u64> {
    (0.0..=1e6).contains(&amount).then(|| (amount * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::usage::Tokens;

    fn price(from: Option<&str>, input: f64) -> Price {
        Price {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            from: from.map(str::to_owned),
            input,
            output: 2.0,
            cache_read: Some(0.025),
            cache_write: None,
            reasoning: None,
        }
    }

    fn used(calls_without_usage: u64) -> ModelMetrics {
        ModelMetrics {
            model_id: Some("m".to_owned()),
            model_provider: Some("openai".to_owned()),
            count: 1,
            calls: 2,
            calls_without_usage,
            tokens: Tokens {
                input_tokens: Some(1_000_000),
                output_tokens: Some(500_000),
                total_tokens: Some(1_500_000),
                cache_read_tokens: Some(400_000),
                cache_write_tokens: Some(100_000),
                reasoning_tokens: Some(100_000),
            },
        }
    }

    #[test]
    fn each_part_has_its_price_and_is_paid_once() {
        let prices = Prices::new(&[price(None, 0.25)]).unwrap();
        // 0.5 · 0.25 + 0.4 · 0.025 + 0.1 · 0.25 + 0.5 · 2
        assert_eq!(prices.cost("2026-11-30", &used(0)), Some(Cost(1_160_000_000_000)));
        assert_eq!(Cost(1_160_000_000_000).amount(), 1.16);
    }

    #[test]
    fn a_day_has_the_price_that_began_last() {
        let prices = Prices::new(&[price(Some("2026-12-01"), 1.0), price(None, 0.0)]).unwrap();
        let cost = |day: &str| prices.cost(day, &used(0)).map(|cost| cost.0 / 1_000_000_000);
        assert_eq!((cost("2026-11-30"), cost("2026-12-01")), (Some(1_010), Some(1_610)));
    }

    #[test]
    fn what_is_not_known_costs_an_unknown_amount() {
        let prices = Prices::new(&[price(Some("2026-12-01"), 1.0)]).unwrap();
        assert_eq!(prices.cost("2026-11-30", &used(0)), None, "before its first price");
        assert_eq!(prices.cost("2026-12-01", &used(1)), None, "a call did not say");
        let other = ModelMetrics { model_id: None, ..used(0) };
        assert_eq!(prices.cost("2026-12-01", &other), None, "a model without a price");
    }

    #[test]
    fn prices_that_cannot_be_meant_are_refused_by_name() {
        let refused = |price: Price| Prices::new(&[price]).unwrap_err().to_string();
        assert!(refused(price(None, f64::NAN)).contains("`input` of `m`"));
        assert!(refused(price(None, -1.0)).contains("`input` of `m`"));
        assert!(refused(price(Some("30.11.2026"), 1.0)).contains("`from = \"30.11.2026\"`"));
        let twice = Prices::new(&[price(None, 1.0), price(None, 2.0)]).unwrap_err();
        assert_eq!(twice, PriceError::Twice { model: "m".to_owned() });
    }
}
