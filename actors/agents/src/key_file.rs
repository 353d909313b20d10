//! Reads a key from what a file holds. An error tells the file and never what is in it.

use std::io;

/// The key, without white space round it.
///
/// # Errors
/// When the file cannot be read, or holds no key.
pub(crate) fn key_in(bytes: io::Result<Vec<u8>>, file: &str) -> Result<String, String> {
    let bytes = bytes.map_err(|error| format!("failed to read the file `{file}`: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("the file `{file}` is not UTF-8"))?;
    match text.trim() {
        "" => Err(format!("the file `{file}` is empty; it must hold the key")),
        key if key.chars().any(char::is_control) => {
            Err(format!("the file `{file}` holds more than one line; it must hold the key and nothing else"))
        }
        key => Ok(key.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_holds_one_key_and_its_errors_do_not_tell_it() {
        assert_eq!(key_in(Ok(b" sk-very-secret\n".to_vec()), "k").as_deref(), Ok("sk-very-secret"));
        for bytes in [&b""[..], b" \n", b"sk-very-secret\nsk-other", b"sk-very-secret\xff"] {
            let error = key_in(Ok(bytes.to_vec()), "the/file").unwrap_err();
            assert!(error.contains("`the/file`") && !error.contains("secret"), "{error}");
        }
        assert!(key_in(Err(io::ErrorKind::NotFound.into()), "the/file").unwrap_err().contains("`the/file`"));
    }
}
