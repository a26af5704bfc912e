//! The identity of a client by its certificate: the subject, written as Java writes it.
//!
//! In: a certificate that `rustls` has verified. Out: the id of the scheme `x509`.
//! Why: ACLs hold this text. One character other than Apache's, and a client loses its nodes in a migration.
//! Holds: the form of `X500Principal.getName()`: last component first, nine attributes by name, others by number with
//! their value in hexadecimal, a backslash before what would be misread.
//! Source: RFC 2253, and the answers of Java 17, which the tests repeat.

use rustls::pki_types::CertificateDer;
use x509_parser::asn1_rs::{Any, Tag, ToDer};
use x509_parser::x509::AttributeTypeAndValue;

use super::Error;

/// The subject of a certificate, in the words that ACLs of the scheme `x509` use.
///
/// # Errors
/// The certificate cannot be read; one that was verified can.
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
        // Java takes the bytes of every kind of string for UTF-8.
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

/// White space at the ends of a value, which a reader would drop.
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
