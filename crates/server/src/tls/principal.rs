//! The identity of a client from its certificate: the subject in Java's notation.
//!
//! The result is the id of the scheme `x509`. ACLs contain this text, so if it differed from Apache's in one character,
//! a client would lose access to its nodes in a migration.
//!
//! The format is that of `X500Principal.getName()`: the last component first, nine attributes by name, others by object
//! identifier with their value in hexadecimal, and special characters escaped with a backslash. It follows RFC 2253 and
//! the output of Java 17, which the tests repeat.

use rustls::pki_types::CertificateDer;
use x509_parser::asn1_rs::{Any, Tag, ToDer};
use x509_parser::x509::AttributeTypeAndValue;

use super::Error;

/// Formats the subject of a certificate as in ACLs of the scheme `x509`.
///
/// # Errors
/// If the certificate cannot be parsed, which does not happen with a verified one.
pub fn principal(certificate: &CertificateDer<'_>) -> Result<String, Error> {
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(|error| Error::Certificate(error.to_string()))?;
    let mut components = Vec::new();
    for component in parsed.subject().iter() {
        let attributes = component.iter().map(attribute).collect::<Result<Vec<_>, _>>()?;
        components.push(attributes.join("+"));
    }
    components.reverse();
    Ok(components.join(","))
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> Result<String, Error> {
    let number = attribute.attr_type().to_id_string();
    let name = NAMES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
    let value = attribute.attr_value();
    match name.filter(|_| is_text(value)) {
        // Java treats the bytes of every kind of string as UTF-8.
        Some(name) => Ok(format!("{name}={}", escape(&String::from_utf8_lossy(value.data)))),
        None => {
            let der = value.to_der_vec().map_err(|error| Error::Certificate(error.to_string()))?;
            let hex: String = der.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(format!("{}=#{hex}", name.unwrap_or(&number)))
        }
    }
}

fn is_text(value: &Any<'_>) -> bool {
    let tags =
        [Tag::Utf8String, Tag::PrintableString, Tag::T61String, Tag::Ia5String, Tag::GeneralString, Tag::BmpString];
    tags.contains(&value.tag())
}

fn escape(value: &str) -> String {
    let leading = value.len() - value.trim_start_matches(PADDING).len();
    let trailing = value.trim_end_matches(PADDING).len();
    let mut text = String::with_capacity(value.len());
    for (index, char) in value.char_indices() {
        let padding = index < leading || index >= trailing;
        match char {
            '\0' => text.push_str("\\00"),
            _ if padding || ",=+<>#;\"\\".contains(char) => text.extend(['\\', char]),
            _ => text.push(char),
        }
    }
    text
}

/// White space that must be escaped at the ends of a value, because a parser would drop it.
const PADDING: [char; 2] = [' ', '\r'];

/// The attributes that RFC 2253 names.
const NAMES: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_misread_is_escaped() {
        assert_eq!(escape("a,b=c+d"), "a\\,b\\=c\\+d");
        assert_eq!(escape("  a b "), "\\ \\ a b\\ ");
        assert_eq!(escape("ü\0"), "ü\\00");
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        assert!(principal(&CertificateDer::from(vec![1, 2, 3])).is_err());
    }
}
