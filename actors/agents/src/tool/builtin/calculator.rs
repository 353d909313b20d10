//! The built-in tool `calculator`: a small recursive-descent reader of its own.
//!
//! The expression crates were no match: one is AGPL, the others have had no release for years. Whole numbers
//! stay exact up to 128 bits; everything else is a 64-bit float, shown with 15 significant digits.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = unary { ("*" | "/" | "%") unary }
//! unary   = ("+" | "-") unary | power
//! power   = atom [ "^" unary ]
//! atom    = number | "pi" | "e" | name "(" sum { "," sum } ")" | "(" sum ")"
//! ```

mod functions;
mod number;

use self::number::Number;
use crate::text::preview;

const EXPRESSION_BYTES_MAX: usize = 2_000;
/// Bounds the stack that an expression may use.
const DEPTH_MAX: usize = 100;

/// The expression's value as text.
pub(super) fn evaluate(expression: &str) -> Result<String, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("the expression has {} bytes, at most {EXPRESSION_BYTES_MAX} are read", expression.len()));
    }
    let mut reader = Reader { rest: expression, depth: 0 };
    let value = reader.sum()?;
    reader.skip_blanks();
    if !reader.rest.is_empty() {
        return Err(reader.unexpected());
    }
    value.show()
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn sum(&mut self) -> Result<Number, String> {
        let mut value = self.product()?;
        loop {
            value = if self.eat('+') {
                value.plus(self.product()?)
            } else if self.eat('-') {
                value.minus(self.product()?)
            } else {
                return Ok(value);
            };
        }
    }

    fn product(&mut self) -> Result<Number, String> {
        let mut value = self.unary()?;
        loop {
            value = if self.eat('*') || self.eat('×') {
                value.times(self.unary()?)
            } else if self.eat('/') || self.eat('÷') {
                value.over(self.unary()?)?
            } else if self.eat('%') {
                value.modulo(self.unary()?)?
            } else {
                return Ok(value);
            };
        }
    }

    fn unary(&mut self) -> Result<Number, String> {
        self.nested(|reader| {
            if reader.eat('-') {
                return Ok(Number::Whole(0).minus(reader.unary()?));
            }
            if reader.eat('+') { reader.unary() } else { reader.power() }
        })
    }

    fn power(&mut self) -> Result<Number, String> {
        let base = self.atom()?;
        if self.eat('^') { Ok(base.power(self.unary()?)) } else { Ok(base) }
    }

    fn atom(&mut self) -> Result<Number, String> {
        if self.eat('(') {
            let value = self.sum()?;
            self.expect(')')?;
            return Ok(value);
        }
        let name = self.take(|character| character.is_ascii_alphabetic());
        if !name.is_empty() {
            return self.named(name);
        }
        self.number()
    }

    fn named(&mut self, name: &str) -> Result<Number, String> {
        match name {
            "pi" => return Ok(Number::Real(std::f64::consts::PI)),
            "e" => return Ok(Number::Real(std::f64::consts::E)),
            _ => self.expect('(')?,
        }
        let mut arguments = vec![self.sum()?];
        while self.eat(',') {
            arguments.push(self.sum()?);
        }
        self.expect(')')?;
        functions::apply(name, &arguments)
    }

    fn number(&mut self) -> Result<Number, String> {
        let whole = self.rest;
        let mut digits = self.take(|character| character.is_ascii_digit() || character == '.').len();
        if digits == 0 {
            return Err(self.unexpected());
        }
        // An exponent is one only with its digits: `2e` is not a number.
        let exponent = self.rest.strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
        if let Some(power) = exponent.filter(|power| power.starts_with(|first: char| first.is_ascii_digit())) {
            let power_digits = power.find(|character: char| !character.is_ascii_digit()).unwrap_or(power.len());
            digits = whole.len() - power.len() + power_digits;
            self.rest = &whole[digits..];
        }
        Number::parse(&whole[..digits])
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Number, String>) -> Result<Number, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the expression nests deeper than {DEPTH_MAX} levels"));
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        self.skip_blanks();
        let end = self.rest.find(|character| !wanted(character)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.skip_blanks();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.eat(wanted) { Ok(()) } else { Err(format!("expected `{wanted}`: {}", self.unexpected())) }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn unexpected(&self) -> String {
        if self.rest.is_empty() {
            return "the expression ends too early".to_owned();
        }
        format!("the expression cannot be read from `{}` on", preview(self.rest, 40))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_their_school_value() {
        for (expression, value) in [
            ("17 * 23", "391"),
            ("2 + 3 * 4 - -1", "15"),
            ("(2 + 3) * 4", "20"),
            ("2 ^ 3 ^ 2", "512"),
            ("-2 ^ 2", "-4"),
            ("2 ^ -1", "0.5"),
            ("7 / 2", "3.5"),
            ("6 / 2", "3"),
            ("7 % 4", "3"),
            ("0.1 + 0.2", "0.3"),
            ("9007199254740992 + 1", "9007199254740993"),
            ("1e3 + 2E-1", "1000.2"),
            ("sqrt(2) * sqrt(2)", "2"),
            ("max(1, 2.5, 2)", "2.5"),
            ("round(2.5) + abs(-3)", "6"),
            ("2*pi", "6.28318530717959"),
            ("6 × 7 ÷ 2", "21"),
            ("10 ^ 30", "1000000000000000000000000000000"),
            ("10 ^ 60", "1e60"),
            ("-(2 ^ 126) * 2 / -1", "1.70141183460469e38"),
            ("-(2 ^ 126) * 2 % -1", "0"),
            (" 5 ", "5"),
        ] {
            assert_eq!(evaluate(expression).as_deref(), Ok(value), "{expression}");
        }
    }

    #[test]
    fn what_has_no_value_is_told() {
        let deep = format!("{}1{}", "(".repeat(500), ")".repeat(500));
        let long = "1+".repeat(2_000);
        for expression in
            ["", "1 +", "1 / 0", "1 % 0", "sqrt(-1)", "2 apples", "rm(1)", "1..2", "10 ^ 999", &deep, &long]
        {
            let error = evaluate(expression).unwrap_err();
            assert!(!error.is_empty() && error.len() < 200, "{expression}: {error}");
        }
    }
}
