//! The shared secret of an ensemble, and the proof that an end of a connection knows it.
//!
//! Both greetings contain a random number. A proof is the HMAC-SHA256 of both greetings and of the side that sends it,
//! so it can be neither replayed nor reflected, and the secret itself is never sent.
//!
//! This does not encrypt. Against an attacker who can read or change the traffic between servers, use TLS.

use std::fmt;
use std::path::Path;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// The shared secret of an ensemble (`pole.peer.secret`).
#[derive(Clone)]
pub struct PeerSecret(hmac::Key);

/// Why a secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The secret is too short to be safe, or so long that this is likely the wrong file.
    #[error(
        "{path} holds {got} bytes, expected {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}: make one with `openssl rand -hex 32`"
    )]
    Length {
        /// The file.
        path: String,
        /// Its length without trailing white space.
        got: usize,
    },
}

/// The end of a connection that sends a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Dials,
    Listens,
}

impl PeerSecret {
    /// Reads the secret from a file and trims trailing white space.
    ///
    /// # Errors
    /// If the file cannot be read, or the secret is too short or too long.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let name = || path.display().to_string();
        let bytes = std::fs::read(path).map_err(|source| SecretError::Read { path: name(), source })?;
        let secret = bytes.trim_ascii_end();
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
            return Err(SecretError::Length { path: name(), got: secret.len() });
        }
        Ok(Self::new(secret))
    }

    /// Creates a secret from bytes.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The proof of one end for these greetings.
    pub(super) fn proof(&self, side: Side, dialled: &[u8], listened: &[u8]) -> [u8; PROOF_BYTES] {
        let tag = hmac::sign(&self.0, &message(side, dialled, listened));
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Verifies a proof in constant time.
    pub(super) fn is_proof(&self, proof: &[u8], side: Side, dialled: &[u8], listened: &[u8]) -> bool {
        hmac::verify(&self.0, &message(side, dialled, listened), proof).is_ok()
    }
}

impl fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerSecret")
    }
}

/// Greetings have a fixed length, so the concatenation is unambiguous.
fn message(side: Side, dialled: &[u8], listened: &[u8]) -> Vec<u8> {
    let side: &[u8] = match side {
        Side::Dials => b"pole peer, the end that dials",
        Side::Listens => b"pole peer, the end that listens",
    };
    [side, dialled, listened].concat()
}

/// A random number for one connection.
pub(super) fn nonce() -> Result<[u8; NONCE_BYTES], std::io::Error> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| std::io::Error::other("the system has no random numbers"))?;
    Ok(bytes)
}

pub(super) const NONCE_BYTES: usize = 16;

pub(super) const PROOF_BYTES: usize = 32;

/// Anyone who dials receives a proof and can try secrets offline. 128 random bits are safe against that.
const SECRET_BYTES_MIN: usize = 16;

/// More than any secret needs, so it is likely the wrong file.
const SECRET_BYTES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_its_side_its_greetings_and_its_secret_only() {
        let (secret, other) = (PeerSecret::new(b"0123456789abcdef"), PeerSecret::new(b"0123456789abcdeg"));
        let proof = secret.proof(Side::Dials, b"one", b"two");
        assert!(secret.is_proof(&proof, Side::Dials, b"one", b"two"));
        assert!(!secret.is_proof(&proof, Side::Listens, b"one", b"two"), "reflected");
        assert!(!secret.is_proof(&proof, Side::Dials, b"one", b"three"), "replayed");
        assert!(!other.is_proof(&proof, Side::Dials, b"one", b"two"));
        assert!(!secret.is_proof(&proof[..31], Side::Dials, b"one", b"two"));
        assert!(!secret.is_proof(&[], Side::Dials, b"one", b"two"));
    }

    #[test]
    fn a_secret_that_is_too_short_is_refused_and_white_space_does_not_count() {
        let directory = std::env::temp_dir().join(format!("pole-secret-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("secret");
        std::fs::write(&path, "0123456789abcde\n\n").expect("written");
        let message = PeerSecret::read(&path).expect_err("15 bytes").to_string();
        assert!(message.contains("holds 15 bytes, expected 16 to 4096"), "{message}");
        std::fs::write(&path, "0123456789abcdef\n").expect("written");
        let read = PeerSecret::read(&path).expect("16 bytes");
        let proof = read.proof(Side::Dials, b"a", b"b");
        assert!(PeerSecret::new(b"0123456789abcdef").is_proof(&proof, Side::Dials, b"a", b"b"));
        assert!(PeerSecret::read(&directory.join("none")).is_err());
        std::fs::remove_dir_all(&directory).expect("ours");
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", PeerSecret::new(b"0123456789abcdef")), "PeerSecret");
    }
}
