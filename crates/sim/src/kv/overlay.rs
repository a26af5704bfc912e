//! What a leader has prepared but not applied yet, on top of the committed state.
//!
//! Each item remembers the position that set it and is removed when that position is applied: by then the committed
//! state has the same value, or a later item has replaced it here.

use std::collections::BTreeMap;

use pole_types::Zxid;

/// Prepared items by key.
#[derive(Clone, Debug)]
pub(crate) struct Overlay<K, V> {
    items: BTreeMap<K, (Zxid, V)>,
}

impl<K: Ord + Copy, V> Overlay<K, V> {
    pub(crate) fn new() -> Self {
        Self { items: BTreeMap::new() }
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.items.get(&key).map(|(_, value)| value)
    }

    pub(crate) fn set(&mut self, zxid: Zxid, key: K, value: V) {
        self.items.insert(key, (zxid, value));
    }

    pub(crate) fn applied(&mut self, zxid: Zxid, key: K) {
        if self.items.get(&key).is_some_and(|(at, _)| *at <= zxid) {
            self.items.remove(&key);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
    }
}
