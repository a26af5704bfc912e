//! Parses the directives of a DIGEST-MD5 response: `username="bob",nc=00000001,…` (RFC 2831, 2.1.2).
//!
//! The bytes come from a client that is not authenticated yet. Unknown directives are skipped, a known one may occur
//! once, and everything that does not end properly is an error. The caller bounds the length.

use alloc::vec::Vec;

use super::SaslError;

/// The values of the directives that are used, without quotes and escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) username: Option<Vec<u8>>,
    pub(super) realm: Option<Vec<u8>>,
    pub(super) nonce: Option<Vec<u8>>,
    pub(super) cnonce: Option<Vec<u8>>,
    pub(super) nc: Option<Vec<u8>>,
    pub(super) qop: Option<Vec<u8>>,
    pub(super) digest_uri: Option<Vec<u8>>,
    pub(super) response: Option<Vec<u8>>,
    pub(super) charset: Option<Vec<u8>>,
    pub(super) authzid: Option<Vec<u8>>,
}

impl Directives {
    pub(super) fn parse(text: &[u8]) -> Result<Self, SaslError> {
        let mut directives = Self::default();
        let mut rest = text;
        loop {
            // Empty elements of the list are allowed.
            rest = trim_start(rest);
            if let Some(after) = rest.strip_prefix(b",") {
                rest = after;
                continue;
            }
            if rest.is_empty() {
                return Ok(directives);
            }
            let (name, after) = name(rest)?;
            let (value, after) = value(after)?;
            directives.set(name, value)?;
            rest = trim_start(after);
            if !rest.is_empty() && !rest.starts_with(b",") {
                return Err(SaslError::Malformed("a comma is missing"));
            }
        }
    }

    fn set(&mut self, name: &[u8], value: Vec<u8>) -> Result<(), SaslError> {
        let fields = [
            ("username", &mut self.username),
            ("realm", &mut self.realm),
            ("nonce", &mut self.nonce),
            ("cnonce", &mut self.cnonce),
            ("nc", &mut self.nc),
            ("qop", &mut self.qop),
            ("digest-uri", &mut self.digest_uri),
            ("response", &mut self.response),
            ("charset", &mut self.charset),
            ("authzid", &mut self.authzid),
        ];
        match fields.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes())) {
            Some((known, field)) => match field.replace(value) {
                Some(_) => Err(SaslError::Repeated(known)),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }
}

/// The name up to its equals sign, and what follows that sign.
fn name(text: &[u8]) -> Result<(&[u8], &[u8]), SaslError> {
    let end = text.iter().position(|byte| *byte == b'=').ok_or(SaslError::Malformed("a directive has no value"))?;
    let name = text[..end].trim_ascii_end();
    if name.is_empty() || name.iter().any(|byte| *byte == b',' || *byte == b'"' || byte.is_ascii_whitespace()) {
        return Err(SaslError::Malformed("a directive has no name"));
    }
    Ok((name, &text[end + 1..]))
}

/// The value at the start of the text, quoted or not, and what follows it.
fn value(text: &[u8]) -> Result<(Vec<u8>, &[u8]), SaslError> {
    let text = trim_start(text);
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| *byte == b',' || byte.is_ascii_whitespace()).unwrap_or(text.len());
        return match end {
            0 => Err(SaslError::Malformed("a directive has no value")),
            _ => Ok((text[..end].to_vec(), &text[end..])),
        };
    };
    let mut value = Vec::new();
    let mut bytes = quoted.iter();
    loop {
        match bytes.next() {
            Some(b'"') => return Ok((value, bytes.as_slice())),
            Some(b'\\') => value.extend(bytes.next()),
            Some(byte) => value.push(*byte),
            None => return Err(SaslError::Malformed("a quote is missing")),
        }
    }
}

fn trim_start(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Directives, SaslError> {
        Directives::parse(text.as_bytes())
    }

    #[test]
    fn values_may_be_quoted_escaped_and_surrounded_by_space() {
        let given = parse(" ,username = \"b\\\"o\\\\b, \" ,\tNC=1\r\n,, x-unknown=\"\\,\",realm=\"\"").expect("a list");
        assert_eq!(given.username.as_deref(), Some(&b"b\"o\\b, "[..]));
        assert_eq!((given.nc.as_deref(), given.realm.as_deref()), (Some(&b"1"[..]), Some(&b""[..])));
        assert_eq!(given.response, None);
        assert_eq!(parse(""), Ok(Directives::default()));
    }

    #[test]
    fn what_does_not_end_properly_is_refused() {
        for text in [
            "username",
            "username=",
            "username=,nc=1",
            "=x",
            " = x",
            "username=\"bob",
            "username=\"bob\\",
            "username=\"bob\"x",
            "username=bob nc=1",
            "user,name=x",
            "user name=x",
            "\"username\"=x",
        ] {
            assert!(matches!(parse(text), Err(SaslError::Malformed(_))), "{text}");
        }
        assert_eq!(parse("nc=1,NC=1"), Err(SaslError::Repeated("nc")));
    }
}
