//! The calculator's functions.

use super::number::Number;

const NAMES: &str = "sqrt, abs, round, floor, ceil, ln, log, exp, sin, cos, tan, min, max";

pub(super) fn apply(name: &str, arguments: &[Number]) -> Result<Number, String> {
    match (name, arguments) {
        ("min", _) => fold(arguments, Number::compare),
        ("max", _) => fold(arguments, |left, right| right.compare(left)),
        (_, [argument]) => of_one(name, *argument),
        _ => Err(format!("`{name}` takes one number, not {}", arguments.len())),
    }
}

fn fold(arguments: &[Number], order: impl Fn(Number, Number) -> std::cmp::Ordering) -> Result<Number, String> {
    let least = arguments.iter().copied().min_by(|left, right| order(*left, *right));
    least.ok_or_else(|| "a number is missing".to_owned())
}

fn of_one(name: &str, argument: Number) -> Result<Number, String> {
    if let Number::Whole(whole) = argument {
        match name {
            "round" | "floor" | "ceil" => return Ok(argument),
            "abs" => return Ok(whole.checked_abs().map_or(Number::Real(argument.real().abs()), Number::Whole)),
            _ => {}
        }
    }
    let function: fn(f64) -> f64 = match name {
        "sqrt" => f64::sqrt,
        "abs" => f64::abs,
        "round" => f64::round,
        "floor" => f64::floor,
        "ceil" => f64::ceil,
        "ln" => f64::ln,
        "log" => f64::log10,
        "exp" => f64::exp,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        _ => return Err(format!("there is no function `{name}`; there are {NAMES}")),
    };
    let value = function(argument.real());
    if value.is_nan() { Err(format!("`{name}` has no value there")) } else { Ok(Number::Real(value)) }
}
