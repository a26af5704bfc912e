//! Verifies client certificates of version 1, from before X.509 had extensions.
//!
//! `webpki` refuses this version, but Java accepts it, and self-made authorities (such as that of kazoo's tests) still
//! write it. Such a certificate must be signed directly by a trusted one, without intermediates, and be within its
//! validity period. It has no extensions, so nothing in it can forbid its use by a client.
//!
//! All other certificates are verified in the usual way.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

/// Verifies certificates of version 1 itself and delegates all others.
#[derive(Debug)]
pub(super) struct VersionOneVerifier {
    pub(super) fallback: Arc<dyn ClientCertVerifier>,
    pub(super) trusted: Vec<CertificateDer<'static>>,
    pub(super) provider: Arc<CryptoProvider>,
}

/// Whether a certificate is of version 1.
pub(super) fn is_version_one(certificate: &CertificateDer<'_>) -> bool {
    parse(certificate).is_ok_and(|certificate| certificate.version() == X509Version::V1)
}

impl ClientCertVerifier for VersionOneVerifier {
    fn offer_client_auth(&self) -> bool {
        self.fallback.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.fallback.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.fallback.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if !is_version_one(end_entity) {
            return self.fallback.verify_client_cert(end_entity, intermediates, now);
        }
        let certificate = parse(end_entity)?;
        let time = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if time < certificate.validity().not_before.timestamp() {
            return Err(CertificateError::NotValidYet.into());
        }
        if time > certificate.validity().not_after.timestamp() {
            return Err(CertificateError::Expired.into());
        }
        let signed = self.trusted.iter().any(|signer| parse(signer).is_ok_and(|s| self.is_signed_by(&certificate, &s)));
        if signed { Ok(ClientCertVerified::assertion()) } else { Err(CertificateError::UnknownIssuer.into()) }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !is_version_one(certificate) {
            return self.fallback.verify_tls12_signature(message, certificate, signature);
        }
        let parsed = parse(certificate)?;
        let mapping = self.provider.signature_verification_algorithms.mapping;
        let algorithms = mapping.iter().filter(|(scheme, _)| *scheme == signature.scheme).flat_map(|(_, all)| *all);
        let valid = algorithms.copied().any(|algorithm| verifies(algorithm, &parsed, message, signature.signature()));
        if valid { Ok(HandshakeSignatureValid::assertion()) } else { Err(CertificateError::BadSignature.into()) }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !is_version_one(certificate) {
            return self.fallback.verify_tls13_signature(message, certificate, signature);
        }
        let key = SubjectPublicKeyInfoDer::from(parse(certificate)?.public_key().raw.to_vec());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.fallback.supported_verify_schemes()
    }
}

impl VersionOneVerifier {
    fn is_signed_by(&self, certificate: &X509Certificate<'_>, signer: &X509Certificate<'_>) -> bool {
        let algorithms = self.provider.signature_verification_algorithms.all;
        certificate.issuer().as_raw() == signer.subject().as_raw()
            && algorithms.iter().any(|algorithm| {
                has_oid(algorithm.signature_alg_id(), certificate.signature_algorithm.algorithm.as_bytes())
                    && verifies(
                        *algorithm,
                        signer,
                        certificate.tbs_certificate.as_ref(),
                        &certificate.signature_value.data,
                    )
            })
    }
}

/// Whether this signature was made with the key of a certificate.
fn verifies(
    algorithm: &dyn SignatureVerificationAlgorithm,
    signer: &X509Certificate<'_>,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let key = signer.public_key();
    has_oid(algorithm.public_key_alg_id(), key.algorithm.algorithm.as_bytes())
        && algorithm.verify_signature(&key.subject_public_key.data, message, signature).is_ok()
}

/// Whether an algorithm has this object identifier, which comes first in its encoding, after a tag and a length.
fn has_oid(identifier: AlgorithmIdentifier, oid: &[u8]) -> bool {
    identifier.get(2..).is_some_and(|rest| rest.starts_with(oid))
        && identifier.get(1).is_some_and(|length| usize::from(*length) == oid.len())
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    match X509Certificate::from_der(certificate) {
        Ok((_, parsed)) => Ok(parsed),
        Err(_) => Err(CertificateError::BadEncoding.into()),
    }
}
