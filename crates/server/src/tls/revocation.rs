//! Reads lists of revoked certificates (CRLs) from a file: one as DER, or any number as PEM.
//!
//! `rustls` looks certificates up in them. As in Java, the status of every certificate of a chain but the trusted one has
//! to be known: a certificate whose authority has no list in the file, or an expired one, is refused.

use std::path::Path;

use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;

use super::{Error, stores};

/// The lists of a file, of which there is at least one. They are parsed and verified when they are used.
pub(super) fn lists(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    let failed = |why: String| Error::Store { file: file.to_owned(), why };
    let bytes = stores::read(file)?;
    if bytes.first() == Some(&DER_SEQUENCE) {
        return Ok(vec![CertificateRevocationListDer::from(bytes)]);
    }
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| failed(format!("a list of revoked certificates cannot be read: {error}")))?;
    if lists.is_empty() {
        return Err(failed("there is no list of revoked certificates in it; openssl ca -gencrl makes one".to_owned()));
    }
    Ok(lists)
}

/// The first byte of a list as DER. No text begins with it but a digit.
const DER_SEQUENCE: u8 = 0x30;
