//! The guided run: libFuzzer with the target that `POLE_FUZZ_TARGET` names.
//!
//! There is one program for all targets, because linking it takes most of the time. `cargo xtask fuzz` builds and
//! starts it.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pole_fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("POLE_FUZZ_TARGET").unwrap_or_default();
    pole_fuzz::target(&name).unwrap_or_else(|| panic!("POLE_FUZZ_TARGET={name:?} is no target"))
});

fuzz_target!(|input: &[u8]| TARGET.run(input));
