//! Values as PostgreSQL has them on the wire.
//!
//! Its texts hold no U+0000. It is written as U+001A and a digit, and U+001A itself as two of them, so nothing is lost
//! and nothing is refused; a text without either, which is nearly every one, stands as it is. JSON needs none of
//! that: there the character is an escape already, which the type `json` keeps as it was written.

use std::{borrow::Cow, error::Error};

use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use crate::sql::value::{Cell, Value};

type Refused = Box<dyn Error + Sync + Send>;

/// Begins what stands for a character that a text cannot hold.
const ESCAPE: char = '\u{1a}';

fn escaped(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', ESCAPE]) {
        text.replace(ESCAPE, "\u{1a}\u{1a}").replace('\0', "\u{1a}0").into()
    } else {
        Cow::Borrowed(text)
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ESCAPE if characters.next() == Some('0') => out.push('\0'),
            other => out.push(other),
        }
    }
    out.into()
}

fn is_text(ty: &Type) -> bool {
    matches!(*ty, Type::TEXT | Type::VARCHAR | Type::NAME | Type::UNKNOWN)
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Refused> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
            Self::Integer(number) if *ty == Type::INT8 => number.to_sql(ty, out),
            Self::Text(json) if *ty == Type::JSON => {
                out.extend_from_slice(json.as_bytes());
                Ok(IsNull::No)
            }
            Self::Text(text) if is_text(ty) => {
                out.extend_from_slice(escaped(text).as_bytes());
                Ok(IsNull::No)
            }
            Self::Blob(bytes) if *ty == Type::BYTEA => bytes.as_ref().to_sql(ty, out),
            Self::Texts(texts) if *ty == Type::TEXT_ARRAY => {
                texts.iter().map(|text| escaped(text).into_owned()).collect::<Vec<_>>().to_sql(ty, out)
            }
            _ => Err(format!("there is no `{ty}` for {self:?}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'r> FromSql<'r> for Cell<'r> {
    fn from_sql(ty: &Type, raw: &'r [u8]) -> Result<Self, Refused> {
        match *ty {
            Type::INT8 => Ok(Self::Integer(i64::from_sql(ty, raw)?)),
            Type::INT4 => Ok(Self::Integer(i32::from_sql(ty, raw)?.into())),
            Type::JSON => Ok(Self::Text(std::str::from_utf8(raw)?.into())),
            Type::BYTEA => Ok(Self::Blob(raw)),
            _ => Ok(Self::Text(unescaped(std::str::from_utf8(raw)?))),
        }
    }

    fn from_sql_null(_: &Type) -> Result<Self, Refused> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::INT4 | Type::JSON | Type::BYTEA) || is_text(ty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_equal() {
        for text in ["", "plain", "\0", "a\0b", "\u{1a}", "\u{1a}0", "\u{1a}\0\u{1a}\u{1a}0"] {
            let stored = escaped(text).into_owned();
            assert!(!stored.contains('\0'));
            assert_eq!(unescaped(&stored), text);
        }
    }
}
