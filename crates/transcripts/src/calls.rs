//! The tool calls that wait for their results (transcript contract 1, `calls`).

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Held calls by their id. Any string is an id. The map is shared by the states that hold the same calls and copied, without
/// the requests themselves, by the first change.
#[derive(Debug, Clone, PartialEq)]
pub struct Calls<T> {
    held: Arc<BTreeMap<String, Arc<T>>>,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self { held: Arc::default() }
    }
}

impl<T> Calls<T> {
    /// The held call of this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&T> {
        self.held.get(id).map(|call| &**call)
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many calls are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// The held calls, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.held.iter().map(|(id, call)| (&**id, &**call))
    }

    /// Holds a call; false, and nothing changes, when its id is held already.
    pub(crate) fn hold(&mut self, id: String, call: T) -> bool {
        if self.held.contains_key(&id) {
            return false;
        }
        Arc::make_mut(&mut self.held).insert(id, Arc::new(call));
        true
    }

    /// Releases a call.
    pub(crate) fn release(&mut self, id: &str) -> Option<Arc<T>> {
        if !self.held.contains_key(id) {
            return None;
        }
        Arc::make_mut(&mut self.held).remove(id)
    }
}

impl<T: Serialize> Serialize for Calls<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.held.len()))?;
        for (id, call) in self.iter() {
            map.serialize_entry(id, call)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Calls<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeldVisitor(PhantomData))
    }
}

struct HeldVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for HeldVisitor<T> {
    type Value = Calls<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("held calls by their id")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Calls<T>, A::Error> {
        let mut held = BTreeMap::new();
        while let Some((id, call)) = map.next_entry()? {
            held.insert(id, Arc::new(call));
        }
        Ok(Calls { held: Arc::new(held) })
    }
}
