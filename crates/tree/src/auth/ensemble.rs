//! The scheme `ensemble`: a client names the ensemble that it expects, and is sent away if it has reached another one.
//!
//! Nothing is proved, so there are no identities, and no ACL can contain the scheme.

use alloc::string::String;
use alloc::vec::Vec;

use pole_jute::Id;

use super::{AuthFailed, AuthSettings, Matching, Provider};

pub(super) struct Ensemble;

impl Provider for Ensemble {
    fn scheme(&self) -> &'static str {
        "ensemble"
    }

    /// The data is the name. A client may name none, and without configured names any will do.
    fn authenticate(&self, data: &[u8], settings: &AuthSettings) -> Result<Vec<Id>, AuthFailed> {
        let names = settings.ensemble_names.as_ref().ok_or(AuthFailed)?;
        let is_ours = |name: &String| name.as_bytes() == data;
        let is_accepted = names.is_empty() || data.is_empty() || names.iter().any(is_ours);
        if is_accepted { Ok(Vec::new()) } else { Err(AuthFailed) }
    }

    fn is_authenticated(&self) -> bool {
        false
    }

    fn is_valid(&self, _id: &str) -> bool {
        false
    }

    fn matching(&self, _id: &str) -> Matching {
        Matching::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn a_client_of_another_ensemble_is_sent_away() {
        let of = |names: Option<&[&str]>, expected: &[u8]| {
            let ensemble_names = names.map(|names| names.iter().map(ToString::to_string).collect());
            Ensemble.authenticate(expected, &AuthSettings { ensemble_names, ..AuthSettings::default() })
        };
        assert_eq!(of(Some(&["east", "west"]), b"west"), Ok(vec![]));
        assert_eq!(of(Some(&["east", "west"]), b"north"), Err(AuthFailed));
        assert_eq!(of(Some(&["east"]), b""), Ok(vec![]), "a client that expects nothing");
        assert_eq!(of(Some(&[]), b"north"), Ok(vec![]), "without names nothing is compared");
        assert_eq!(of(None, b"east"), Err(AuthFailed), "the scheme is not enabled");
    }
}
