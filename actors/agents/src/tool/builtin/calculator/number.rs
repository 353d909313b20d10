//! Numbers that stay whole as long as they can.

use std::cmp::Ordering;

#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(whole) = text.parse() {
            return Ok(Self::Whole(whole));
        }
        text.parse().map(Self::Real).map_err(|_| format!("`{text}` is not a number"))
    }

    pub(super) fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, i128::checked_add, |left, right| left + right)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.with(other, i128::checked_sub, |left, right| left - right)
    }

    pub(super) fn times(self, other: Self) -> Self {
        self.with(other, i128::checked_mul, |left, right| left * right)
    }

    pub(super) fn over(self, other: Self) -> Result<Self, String> {
        if other.real() == 0.0 {
            return Err("division by zero".to_owned());
        }
        let whole = |left: i128, right: i128| match left.checked_rem(right) {
            Some(0) => left.checked_div(right),
            _ => None,
        };
        Ok(self.with(other, whole, |left, right| left / right))
    }

    /// The remainder, with the sign of the left side.
    pub(super) fn modulo(self, other: Self) -> Result<Self, String> {
        if other.real() == 0.0 {
            return Err("division by zero".to_owned());
        }
        Ok(self.with(other, i128::checked_rem, |left, right| left % right))
    }

    pub(super) fn power(self, other: Self) -> Self {
        let whole = |base: i128, exponent: i128| base.checked_pow(u32::try_from(exponent).ok()?);
        self.with(other, whole, f64::powf)
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(left), Self::Whole(right)) => left.cmp(&right),
            _ => self.real().total_cmp(&other.real()),
        }
    }

    fn with(self, other: Self, whole: impl Fn(i128, i128) -> Option<i128>, real: impl Fn(f64, f64) -> f64) -> Self {
        if let (Self::Whole(left), Self::Whole(right)) = (self, other)
            && let Some(value) = whole(left, right)
        {
            return Self::Whole(value);
        }
        Self::Real(real(self.real(), other.real()))
    }

    /// The number as text; 15 significant digits hide what binary fractions add (`0.1 + 0.2`).
    pub(super) fn show(self) -> Result<String, String> {
        let real = match self {
            Self::Whole(whole) => return Ok(whole.to_string()),
            Self::Real(real) if real.is_finite() => real,
            Self::Real(_) => return Err("the result is no finite number".to_owned()),
        };
        let rounded: f64 = format!("{real:.14e}").parse().unwrap_or(real);
        let usual = rounded == 0.0 || (1e-6..1e21).contains(&rounded.abs());
        // Adding zero turns `-0` into `0`.
        Ok(if usual { format!("{}", rounded + 0.0) } else { format!("{rounded:e}") })
    }
}
