//! Built-in topologies: the deployments of the paper and some current cloud regions, in the format that users write.
//!
//! The presets `two`, `d1`, `d2`, `d3` are from the paper's evaluation, `recovery-8a` and `recovery-8b` from its
//! recovery experiments; the others use round trips published by IBM Cloud.

use crate::topology::Topology;

/// All presets, as name and file content.
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

/// The site that gets the share p of an uneven load in a preset of the paper, for [`Topology::weighted`].
#[must_use]
pub fn favoured(preset: &str) -> Option<&'static str> {
    match preset {
        "two" | "recovery-8a" | "d3" => Some("D2"),
        "d1" | "d2" | "recovery-8b" => Some("D3"),
        _ => None,
    }
}

impl Topology {
    /// Returns a preset by name; see [`PRESETS`].
    ///
    /// # Panics
    /// Never in a tested build: a preset that does not parse is a bug, and a test parses them all.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name)?;
        Some(Self::parse(text).unwrap_or_else(|error| panic!("preset {name}: {error}")))
    }
}
