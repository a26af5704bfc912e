//! The paper's deployments and some of today, shipped as files of the same format that a user writes.
//!
//! In: a name. Out: a topology with five servers and the even load of 1000 requests a second.
//! Source: section 4; the two recovery experiments: section 5; the others: the figures that IBM Cloud publishes.

use crate::topology::Topology;

/// Every preset: its name and its file.
pub const PRESETS: [(&str, &str); 10] = [
    ("two", include_str!("../presets/two.toml")),
    ("d1", include_str!("../presets/d1.toml")),
    ("d2", include_str!("../presets/d2.toml")),
    ("d3", include_str!("../presets/d3.toml")),
    ("recovery-8a", include_str!("../presets/recovery-8a.toml")),
    ("recovery-8b", include_str!("../presets/recovery-8b.toml")),
    ("zones", include_str!("../presets/zones.toml")),
    ("america", include_str!("../presets/america.toml")),
    ("europe", include_str!("../presets/europe.toml")),
    ("world", include_str!("../presets/world.toml")),
];

/// The site that gets the share p of an uneven load in a preset (section 4), for [`Topology::weighted`].
#[must_use]
pub fn favoured(preset: &str) -> Option<&'static str> {
    match preset {
        "two" | "recovery-8a" | "d3" => Some("D2"),
        "d1" | "d2" | "recovery-8b" => Some("D3"),
        _ => None,
    }
}

impl Topology {
    /// A shipped deployment, by name: see [`PRESETS`].
    ///
    /// # Panics
    /// Never in a tested build: a preset that does not parse is our bug, and a test parses them all.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name)?;
        Some(Self::parse(text).unwrap_or_else(|error| panic!("preset {name}: {error}")))
    }
}
