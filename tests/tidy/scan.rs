//! Just enough of Rust's syntax to count braces: where comments and literals are, what is a test, and where
//! a function ends.

use std::iter;

/// A Rust file, with everything in comments and literals blanked out, so that each brace is code.
pub(crate) struct Source {
    code: String,
    /// Whether each line belongs to a `#[cfg(test)]` item.
    is_test: Vec<bool>,
}

impl Source {
    pub(crate) fn read(text: &str) -> Self {
        let code = blank(text);
        let mut is_test = vec![false; code.lines().count()];
        for (at, marker) in code.match_indices("#[cfg(test)]") {
            let end = block_end(&code, at + marker.len());
            is_test[line_of(&code, at)..=line_of(&code, end)].fill(true);
        }
        Self { code, is_test }
    }

    /// The lines that are not of tests, with their numbers from 1. Comments and literals in them are blank.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.code.lines().enumerate().zip(&self.is_test);
        numbered.filter(|(_, is_test)| !**is_test).map(|((index, line), _)| (index + 1, line))
    }

    /// Every function with a body: its name, and its lines from signature to closing brace.
    pub(crate) fn functions(&self) -> Vec<(String, usize)> {
        let code = &self.code;
        let starts = code.match_indices("fn ").map(|(at, _)| at).filter(|at| !code[..*at].ends_with(is_word));
        starts.filter_map(|at| self.function(at)).collect()
    }

    fn function(&self, at: usize) -> Option<(String, usize)> {
        let name: String = self.code[at + 3..].chars().take_while(|next| is_word(*next)).collect();
        let end = block_end(&self.code, at);
        let has_body = self.code[..=end].ends_with('}');
        (!name.is_empty() && has_body).then(|| (name, line_of(&self.code, end) - line_of(&self.code, at) + 1))
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character| !is_word(character)).filter(|word| !word.is_empty())
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count()
}

/// Where the item that begins at `from` ends: at its closing brace, or at the semicolon of one without.
fn block_end(code: &str, from: usize) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => others += 1,
            b')' | b']' => others = others.saturating_sub(1),
            b'{' => braces += 1,
            b'}' if braces <= 1 => return at,
            b'}' => braces -= 1,
            b';' if braces == 0 && others == 0 => return at,
            _ => {}
        }
    }
    code.len().saturating_sub(1)
}

/// The text with comments and literals as spaces. Line breaks and double quotes stay, and every byte's place.
fn blank(text: &str) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = literal_length(rest, blanked.ends_with(is_word));
        let taken = length.unwrap_or(first.len_utf8());
        let (taken, after) = rest.split_at(taken);
        if length.is_some() {
            blanked.extend(taken.bytes().map(|byte| if matches!(byte, b'\n' | b'"') { byte.into() } else { ' ' }));
        } else {
            // A character outside literals that is not ASCII would be an identifier's; its width does not matter.
            blanked.push_str(taken);
        }
        rest = after;
    }
    blanked
}

/// The length of the comment or literal that `rest` begins with.
fn literal_length(rest: &str, within_word: bool) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    let raw = rest.strip_prefix('r').or_else(|| rest.strip_prefix("br"));
    if let Some(raw) = raw.filter(|_| !within_word) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end: String = iter::once('"').chain(iter::repeat_n('#', hashes)).collect();
            let begin = rest.len() - raw.len() + hashes + 1;
            return Some(rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len()));
        }
    }
    match rest.as_bytes().first()? {
        b'"' => Some(quoted_length(rest, '"')),
        b'\'' if is_character(rest) => Some(quoted_length(rest, '\'')),
        _ => None,
    }
}

/// A quote begins a character when it is escaped or closed after one, and else a lifetime.
fn is_character(rest: &str) -> bool {
    let mut characters = rest.chars().skip(1);
    characters.next() == Some('\\') || characters.next() == Some('\'')
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn braces_in_comments_and_literals_do_not_count() {
    let text =
        "fn a() { // }\n let c = '}'; let s = \"}\\\"}\"; let r = r#\"}\"}\"#; /* } */\n}\nfn b<'a>() -> &'a str;\n";
    assert_eq!(Source::read(text).functions(), [("a".to_owned(), 3)]);
}

#[test]
fn tests_are_cut_out_and_what_follows_is_not() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n";
    let lines: Vec<_> = Source::read(text).product_lines().map(|(number, _)| number).collect();
    assert_eq!(lines, [1, 6]);
}

#[test]
fn a_signature_may_hold_semicolons() {
    let text = "fn a(bytes: [u8; 4])\n-> [u8; 4] {\n bytes\n}\n";
    assert_eq!(Source::read(text).functions(), [("a".to_owned(), 4)]);
}
