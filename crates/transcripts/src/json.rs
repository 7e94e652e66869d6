//! JSON that is held or shown: members keep their order (transcript contract 1 and 2).

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Number;

use crate::raw::Raw;
use crate::scan;

/// Any JSON value, kept as its compact text: the members of its objects in source order, each name once, with its last value.
///
/// The text is *json* of the transcript contract: non-ASCII as it is, numbers as serde_json prints them. A number beyond f64
/// is null, as serde_json prints it. Through serde it is the value itself, not its text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Box<str>);

impl Json {
    /// The compact text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An object without members.
    pub(crate) fn empty_object() -> Self {
        Self("{}".into())
    }

    /// The value, to look into.
    pub(crate) fn raw(&self) -> Raw<'_> {
        Raw::judged(&self.0)
    }
}

/// The compact text of a value of a record.
impl From<Raw<'_>> for Json {
    fn from(value: Raw<'_>) -> Self {
        let mut text = String::with_capacity(value.written().len());
        write(value, &mut text);
        Self(text.into_boxed_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Appends the compact text of `value`, in one pass over it.
pub(crate) fn write(value: Raw<'_>, out: &mut String) {
    write_at(value.written(), 0, out);
}

/// Appends the value of `text` at `at`; the place behind it. It calls itself once a level, and a record has at most
/// `MAX_NESTING`.
fn write_at(text: &str, at: usize, out: &mut String) -> usize {
    let bytes = text.as_bytes();
    let Some(first) = bytes.get(at) else { return at };
    let scalar = |end: usize| text.get(at..end).unwrap_or_default();
    match first {
        b'{' => {
            let object = out.len();
            let mut members = Vec::new();
            out.push('{');
            let end = each(bytes, at, |at| {
                if !members.is_empty() {
                    out.push(',');
                }
                members.push(out.len());
                let end = scan::string_end(bytes, at + 1);
                write_string(text.get(at + 1..end).unwrap_or_default(), out);
                out.push(':');
                write_at(text, scan::blank(bytes, scan::blank(bytes, end + 1) + 1), out)
            });
            out.push('}');
            keep_last(out, object, &members);
            end
        }
        b'[' => {
            out.push('[');
            let mut first = true;
            let end = each(bytes, at, |at| {
                if !std::mem::take(&mut first) {
                    out.push(',');
                }
                write_at(text, at, out)
            });
            out.push(']');
            end
        }
        b'"' => {
            let end = scan::string_end(bytes, at + 1);
            write_string(text.get(at + 1..end).unwrap_or_default(), out);
            end + 1
        }
        b't' | b'f' | b'n' => {
            let end = scan::skip_value(bytes, at);
            out.push_str(scalar(end));
            end
        }
        _ => {
            let end = scan::skip_value(bytes, at);
            match number(scalar(end)) {
                Some(number) => out.push_str(&number.to_string()),
                None => out.push_str("null"),
            }
            end
        }
    }
}

/// Calls `item` with the place of each item or member of the list or object at `at`; it answers with the place behind it. The
/// place behind the whole comes back.
fn each(text: &[u8], at: usize, mut item: impl FnMut(usize) -> usize) -> usize {
    let mut at = scan::blank(text, at + 1);
    while !matches!(text.get(at), None | Some(b']' | b'}')) {
        // Behind the item: white space, then a comma or the end.
        at = scan::blank(text, item(at));
        if text.get(at) == Some(&b',') {
            at = scan::blank(text, at + 1);
        }
    }
    at + 1
}

/// Members that begin at `members` in the object that begins at `object` and ends the text: a name written twice keeps its
/// first place and its last value. The text is compact already, so that equal names are written alike.
fn keep_last(out: &mut String, object: usize, members: &[usize]) {
    let name_end = |text: &str, at: usize| scan::string_end(text.as_bytes(), at + 1);
    let name = |at: usize| out.get(at..name_end(out, at)).unwrap_or_default();
    let mut order: Vec<usize> = (0..members.len()).collect();
    let at = |member: usize| members.get(member).copied().unwrap_or(object);
    order.sort_by(|one, two| name(at(*one)).cmp(name(at(*two))).then(one.cmp(two)));
    if order.windows(2).all(|pair| !matches!(pair, [one, two] if name(at(*one)) == name(at(*two)))) {
        return;
    }
    // Of each member: the member whose value it keeps, or none when an earlier one has its name.
    let mut kept = vec![None; members.len()];
    for same in order.chunk_by(|one, two| name(at(*one)) == name(at(*two))) {
        if let ([first, ..], [.., last]) = (same, same)
            && let Some(slot) = kept.get_mut(*first)
        {
            *slot = Some(*last);
        }
    }
    let mut text = String::from("{");
    for (member, last) in kept.into_iter().enumerate() {
        let Some(last) = last else { continue };
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(name(at(member)));
        // Before the next member there is a comma, behind the last one the end of the object.
        let end = members.get(last + 1).copied().unwrap_or(out.len()) - 1;
        text.push_str(out.get(name_end(out, at(last))..end).unwrap_or_default());
    }
    text.push('}');
    out.truncate(object);
    out.push_str(&text);
}

/// Appends a string that is written as `inner` between its quotes. Without an escape it is compact as it stands.
fn write_string(inner: &str, text: &mut String) {
    if inner.as_bytes().contains(&b'\\') {
        escape(&crate::raw::unescape(inner), text);
    } else {
        text.push('"');
        text.push_str(inner);
        text.push('"');
    }
}

/// Appends a string as serde_json prints it.
fn escape(plain: &str, text: &mut String) {
    text.push('"');
    let mut from = 0;
    for (at, byte) in plain.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        text.push_str(plain.get(from..at).unwrap_or_default());
        from = at + 1;
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            0x08 => text.push_str("\\b"),
            0x0C => text.push_str("\\f"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            other => text.push_str(&format!("\\u{other:04x}")),
        }
    }
    text.push_str(plain.get(from..).unwrap_or_default());
    text.push('"');
}

/// The number that `text` writes; `None` beyond f64.
fn number(text: &str) -> Option<Number> {
    let written_whole = !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    // -0 is no integer: its sign would be lost.
    if written_whole && text != "-0" {
        if let Ok(number) = text.parse::<u64>() {
            return Some(number.into());
        }
        if let Ok(number) = text.parse::<i64>() {
            return Some(number.into());
        }
    }
    Number::from_f64(text.parse().ok()?)
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Cursor { text: &self.0, at: Cell::new(0) }.serialize(serializer)
    }
}

/// A place in compact text: what is serialized is the value there, and the place moves behind it.
struct Cursor<'a> {
    text: &'a str,
    at: Cell<usize>,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at.get()).copied()
    }

    /// The scalar here; the place moves behind it.
    fn take(&self) -> &'a str {
        let (from, to) = (self.at.get(), scan::skip_value(self.text.as_bytes(), self.at.get()));
        self.at.set(to);
        self.text.get(from..to).unwrap_or_default()
    }

    /// Steps into a list or object, or over a comma to the next item; false behind the last one.
    fn next(&self) -> bool {
        self.at.set(self.at.get() + 1);
        match self.peek() {
            Some(b']' | b'}') => self.at.set(self.at.get() + 1),
            Some(_) => return true,
            None => {}
        }
        false
    }

    /// Whether another item follows the one that was taken.
    fn more(&self) -> bool {
        if self.peek() == Some(b',') {
            return self.next();
        }
        self.at.set(self.at.get() + 1);
        false
    }
}

impl Serialize for Cursor<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.peek() {
            Some(b'{') => {
                let mut map = serializer.serialize_map(None)?;
                let mut more = self.next();
                while more {
                    map.serialize_key(&*Raw::judged(self.take()).string().unwrap_or_default())?;
                    // Over the colon.
                    self.at.set(self.at.get() + 1);
                    map.serialize_value(self)?;
                    more = self.more();
                }
                map.end()
            }
            Some(b'[') => {
                let mut list = serializer.serialize_seq(None)?;
                let mut more = self.next();
                while more {
                    list.serialize_element(self)?;
                    more = self.more();
                }
                list.end()
            }
            Some(b'"') => serializer.serialize_str(&Raw::judged(self.take()).string().unwrap_or_default()),
            Some(b't' | b'f') => serializer.serialize_bool(self.take() == "true"),
            Some(b'n') => {
                self.take();
                serializer.serialize_unit()
            }
            _ => number(self.take()).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = String::new();
        Writer(&mut text).deserialize(deserializer)?;
        // Once more, for names that are written twice.
        Ok(Self::from(Raw::judged(&text)))
    }
}

/// Appends the compact text of what is deserialized.
struct Writer<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Writer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.push_str("null");
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.push_str(&value.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.push_str(&value.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        let number = Number::from_f64(value).map_or_else(|| "null".to_owned(), |number| number.to_string());
        self.0.push_str(&number);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        escape(value, self.0);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.push('[');
        let mut first = true;
        loop {
            let end = self.0.len();
            if !std::mem::take(&mut first) {
                self.0.push(',');
            }
            if list.next_element_seed(Writer(self.0))?.is_none() {
                self.0.truncate(end);
                self.0.push(']');
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.push('{');
        let mut first = true;
        while let Some(name) = map.next_key::<String>()? {
            if !std::mem::take(&mut first) {
                self.0.push(',');
            }
            escape(&name, self.0);
            self.0.push(':');
            map.next_value_seed(Writer(self.0))?;
        }
        self.0.push('}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn order_and_the_last_value() {
        let json: Json =
            serde_json::from_str("{\"z\":1,\"a\":[null,true,\"é\",1.5,-2],\"z\":{\"b\":0,\"a\":0}}").unwrap();
        assert_eq!(json.to_string(), "{\"z\":{\"b\":0,\"a\":0},\"a\":[null,true,\"é\",1.5,-2]}");
        assert_eq!(serde_json::to_string(&json).unwrap(), json.as_str());
        assert_eq!(serde_json::from_str::<Json>(json.as_str()).unwrap(), json);
    }

    #[test]
    fn shapes_through_serde() {
        for text in [
            "{}",
            "[]",
            "null",
            "0",
            "\"\"",
            "[[],{},[{}]]",
            "{\"a\":{},\"b\":[],\"c\":[1,{\"d\":\"}\"}]}",
            "{\"\":\"\"}",
            "{\"a\\\"b\":-0.0}",
        ] {
            let json: Json = serde_json::from_str(text).unwrap();
            assert_eq!((json.as_str(), &*serde_json::to_string(&json).unwrap()), (text, text));
        }
        let spaced =
            "{ \"b\" : [ 1 , { } , [ ] ] , \"a\" : { \"x\" : 1 , \"x\" : [ 2 ] , \"y\" : 3 , \"x\" : { } } }";
        let compact = "{\"b\":[1,{},[]],\"a\":{\"x\":{},\"y\":3}}";
        assert_eq!(serde_json::from_str::<Json>(spaced).unwrap().as_str(), compact);
        let raw = crate::raw::object(spaced).unwrap();
        assert_eq!(raw.json().as_str(), compact);
    }

    #[test]
    fn text_is_escaped_as_serde_json_does() {
        let text: String = (0..0x100_u32).filter_map(char::from_u32).chain("\u{2028}🚀".chars()).collect();
        let written = serde_json::to_string(&text).unwrap();
        assert_eq!(serde_json::from_str::<Json>(&written).unwrap().as_str(), written);
    }
}
