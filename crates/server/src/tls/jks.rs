//! Reads Java's old key stores (JKS): entries protected by a digest, private keys encrypted with a SHA-1 key stream.
//!
//! keytool wrote this format for twenty years, and an operator who replaces a server should not have to convert the
//! files. The result is the first private key with its chain, and the trusted certificates. Every length is checked
//! against the remaining bytes.

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha1::{Digest, Sha1};

use super::stores::Identity;

/// The first bytes of such a file.
pub(super) const MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];

/// The content of a store.
pub(super) struct Jks {
    pub(super) identity: Option<Identity>,
    pub(super) trusted: Vec<CertificateDer<'static>>,
}

/// Opens a store, or returns the reason why it cannot be opened.
pub(super) fn open(bytes: &[u8], password: &str) -> Result<Jks, &'static str> {
    let password: Vec<u8> = password.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let (content, digest) = bytes.split_last_chunk::<DIGEST_BYTES>().ok_or(DAMAGED)?;
    let expected = Sha1::new_with_prefix(&password).chain_update(WHITENER).chain_update(content).finalize();
    if expected[..] != digest[..] {
        return Err("the password is wrong, or the file is damaged");
    }
    let mut left = ByteReader(&content[MAGIC.len()..]);
    let version = left.number()?;
    let mut store = Jks { identity: None, trusted: Vec::new() };
    for _ in 0..left.number()? {
        let tag = left.number()?;
        left.text()?; // its alias
        left.take(DATE_BYTES)?;
        match tag {
            PRIVATE_KEY => {
                let encrypted = left.long()?;
                let count = left.number()?;
                let chain = (0..count).map(|_| left.certificate(version)).collect::<Result<_, _>>()?;
                if store.identity.is_none() {
                    store.identity = Some(Identity { chain, key: decrypt(encrypted, &password)? });
                }
            }
            TRUSTED => store.trusted.push(left.certificate(version)?),
            _ => return Err("it holds an entry that is neither a key nor a certificate"),
        }
    }
    Ok(store)
}

/// Decrypts a private key: an `EncryptedPrivateKeyInfo` with Sun's own algorithm.
fn decrypt(encrypted: &[u8], password: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    let mut info = ByteReader(ByteReader(encrypted).der(DER_SEQUENCE)?);
    info.der(DER_SEQUENCE)?; // the algorithm: JKS has no other
    let content = info.der(DER_OCTETS)?;
    let (salt, rest) = content.split_first_chunk::<DIGEST_BYTES>().ok_or(DAMAGED)?;
    let (ciphertext, check) = rest.split_last_chunk::<DIGEST_BYTES>().ok_or(DAMAGED)?;
    let mut pad = *salt;
    let mut key = ciphertext.to_vec();
    for block in key.chunks_mut(DIGEST_BYTES) {
        pad = Sha1::new_with_prefix(password).chain_update(pad).finalize().into();
        block.iter_mut().zip(pad).for_each(|(byte, mask)| *byte ^= mask);
    }
    let expected: [u8; DIGEST_BYTES] = Sha1::new_with_prefix(password).chain_update(&key).finalize().into();
    if expected != *check {
        return Err("its key has another password than the store; give it the same with keytool -keypasswd");
    }
    Ok(PrivatePkcs8KeyDer::from(key).into())
}

/// The bytes that are left to read.
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, left) = self.0.split_at_checked(count).ok_or(DAMAGED)?;
        self.0 = left;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, &'static str> {
        let (number, left) = self.0.split_first_chunk().ok_or(DAMAGED)?;
        self.0 = left;
        Ok(u32::from_be_bytes(*number))
    }

    /// Bytes with a length field of four bytes.
    fn long(&mut self) -> Result<&'a [u8], &'static str> {
        let length = self.number()?;
        self.take(usize::try_from(length).map_err(|_| DAMAGED)?)
    }

    /// A string with a length field of two bytes.
    fn text(&mut self) -> Result<&'a [u8], &'static str> {
        let (length, left) = self.0.split_first_chunk().ok_or(DAMAGED)?;
        self.0 = left;
        self.take(usize::from(u16::from_be_bytes(*length)))
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, &'static str> {
        if version >= TYPED_CERTIFICATES_SINCE && self.text()? != b"X.509" {
            return Err("it holds a certificate that is not X.509");
        }
        Ok(CertificateDer::from(self.long()?.to_vec()))
    }

    /// The content of the next DER value, which must have this tag.
    fn der(&mut self, tag: u8) -> Result<&'a [u8], &'static str> {
        let head = self.take(2)?;
        if head[0] != tag {
            return Err(DAMAGED);
        }
        let length = match usize::from(head[1]) {
            short @ 0..=0x7f => short,
            // A longer length begins with its own size in bytes; four are more than any key needs.
            long => {
                let bytes = self.take(long & 0x7f)?;
                if bytes.len() > 4 {
                    return Err(DAMAGED);
                }
                bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
            }
        };
        self.take(length)
    }
}

const DAMAGED: &str = "it is damaged: it ends too early, or a length in it is wrong";
const DIGEST_BYTES: usize = 20;
const DATE_BYTES: usize = 8;
const PRIVATE_KEY: u32 = 1;
const TRUSTED: u32 = 2;
const TYPED_CERTIFICATES_SINCE: u32 = 2;
const DER_SEQUENCE: u8 = 0x30;
const DER_OCTETS: u8 = 0x04;

/// The constant that Sun puts between password and content.
const WHITENER: &[u8] = b"Mighty Aphrodite";
