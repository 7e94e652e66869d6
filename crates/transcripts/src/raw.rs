//! A value of a record that was judged, read in place.

use std::borrow::Cow;

use crate::Json;
use crate::scan;

/// The text of one value of a record: judged to be JSON, read where it stands, and only as far as somebody asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a>(&'a str);

/// The members `names` of the record `text`, or `None` when it is not one JSON object. The last one of a name counts.
pub(crate) fn record<'a, const N: usize>(text: &'a str, names: [&str; N]) -> Option<[Option<Raw<'a>>; N]> {
    let mut found = [None; N];
    let judged = scan::record(text.as_bytes(), |name, value| {
        let (name, value) = (text.get(name.0..name.1), text.get(value.0..value.1));
        if let (Some(name), Some(value)) = (name, value) {
            keep(&mut found, &names, name, Raw(value));
        }
    });
    judged.then_some(found)
}

/// The text as a value, when it is one JSON object.
pub(crate) fn object(text: &str) -> Option<Raw<'_>> {
    scan::check(text.as_bytes()).then(|| Raw(text.trim_matches([' ', '\t', '\r', '\n'])))
}

#[inline]
fn keep<'a, const N: usize>(found: &mut [Option<Raw<'a>>; N], names: &[&str; N], name: &str, value: Raw<'a>) {
    let unescaped = if name.as_bytes().contains(&b'\\') { unescape(name) } else { Cow::Borrowed(name) };
    if let Some(index) = names.iter().position(|wanted| *wanted == unescaped) {
        found[index] = Some(value);
    }
}

impl<'a> Raw<'a> {
    /// Text that was judged, or was written here.
    pub(crate) const fn judged(text: &'a str) -> Self {
        Self(text)
    }

    /// The text itself.
    pub(crate) const fn written(self) -> &'a str {
        self.0
    }

    pub(crate) fn first(self) -> u8 {
        self.0.as_bytes().first().copied().unwrap_or_default()
    }

    pub(crate) fn is_object(self) -> bool {
        self.first() == b'{'
    }

    pub(crate) fn is_list(self) -> bool {
        self.first() == b'['
    }

    pub(crate) fn is_null(self) -> bool {
        self.first() == b'n'
    }

    pub(crate) fn is_true(self) -> bool {
        self.first() == b't'
    }

    /// The text of a string.
    pub(crate) fn string(self) -> Option<Cow<'a, str>> {
        self.inner().map(unescape)
    }

    /// A string as it is written between its quotes.
    pub(crate) fn inner(self) -> Option<&'a str> {
        self.0.strip_prefix('"')?.strip_suffix('"')
    }

    /// A number within f64.
    pub(crate) fn number(self) -> Option<f64> {
        matches!(self.first(), b'-' | b'0'..=b'9')
            .then(|| self.0.parse().ok())
            .flatten()
            .filter(|x: &f64| x.is_finite())
    }

    /// A number without a fraction, within i64.
    pub(crate) fn integer(self) -> Option<i64> {
        let number = self.number()?;
        if let Ok(integer) = self.0.parse() {
            return Some(integer);
        }
        // 2^63 is the first that is too large; below it the cast is exact.
        let whole = number.fract() == 0.0
            && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
        #[allow(clippy::cast_possible_truncation)]
        whole.then_some(number as i64)
    }

    /// The members `names` of an object; none of anything else. The last one of a name counts.
    pub(crate) fn pick<const N: usize>(self, names: [&str; N]) -> [Option<Self>; N] {
        let mut found = [None; N];
        self.each(|name, value| keep(&mut found, &names, name, value));
        found
    }

    /// One member of an object.
    pub(crate) fn get(self, name: &str) -> Option<Self> {
        let [found] = self.pick([name]);
        found
    }

    /// Calls `member` with each member of an object in source order: its name as written, between the quotes, and its value.
    /// A name written twice keeps its first place and its last value.
    pub(crate) fn each_once(self, mut member: impl FnMut(&'a str, Self)) {
        // By the places of their names, which is a few bytes a member.
        let mut order = Vec::new();
        self.each_at(|at, _, _| order.push(at));
        order.sort_by(|one, two| self.name_at(*one).cmp(&self.name_at(*two)).then(one.cmp(two)));
        let (mut again, mut last) = (Vec::new(), Vec::new());
        for same in order.chunk_by(|one, two| self.name_at(*one) == self.name_at(*two)) {
            if let [first, later @ ..] = same
                && let Some(end) = later.last()
            {
                again.extend_from_slice(later);
                last.push((*first, *end));
            }
        }
        drop(order);
        again.sort_unstable();
        last.sort_unstable();
        self.each_at(|at, name, value| {
            if again.binary_search(&at).is_ok() {
                return;
            }
            let end =
                last.binary_search_by_key(&at, |(first, _)| *first).ok().and_then(|found| last.get(found));
            member(name, end.map_or(value, |(_, end)| self.member_at(*end).1));
        });
    }

    /// The values of an object's members in source order, names unescaped; a name written twice keeps its first place and its
    /// last value.
    pub(crate) fn members(self) -> Vec<(String, Self)> {
        let mut members = Vec::new();
        self.each_once(|name, value| members.push((unescape(name).into_owned(), value)));
        members
    }

    /// Whether it is an object with at least one member.
    pub(crate) fn has_members(self) -> bool {
        self.is_object() && self.0.as_bytes().get(scan::blank(self.0.as_bytes(), 1)) != Some(&b'}')
    }

    /// The values of a list; none of anything else.
    pub(crate) fn items(self) -> Items<'a> {
        Items { text: if self.is_list() { self.0 } else { "" }, at: 1 }
    }

    /// Calls `member` with each member of an object: its name as written, between the quotes, and its value.
    #[inline]
    fn each(self, mut member: impl FnMut(&'a str, Self)) {
        self.each_at(|_, name, value| member(name, value));
    }

    /// As [`Self::each`], with the place of the member's name before it.
    #[inline]
    fn each_at(self, mut member: impl FnMut(usize, &'a str, Self)) {
        if !self.is_object() {
            return;
        }
        let text = self.0.as_bytes();
        let mut at = scan::blank(text, 1);
        while text.get(at) == Some(&b'"') {
            let (name, value, to) = self.member_at(at);
            member(at, name, value);
            // Behind the value: white space, then a comma or the end.
            at = scan::blank(text, scan::blank(text, to) + 1);
        }
    }

    /// The member whose name's opening quote is at `at`, and the place behind its value.
    #[inline]
    fn member_at(self, at: usize) -> (&'a str, Self, usize) {
        let text = self.0.as_bytes();
        let end = scan::string_end(text, at + 1);
        // Behind the name: white space, the colon, white space.
        let from = scan::blank(text, scan::blank(text, end + 1) + 1);
        let to = scan::skip_value(text, from);
        (self.0.get(at + 1..end).unwrap_or_default(), Self(self.0.get(from..to).unwrap_or("null")), to)
    }

    /// The name of the member at `at`, unescaped.
    fn name_at(self, at: usize) -> Cow<'a, str> {
        let end = scan::string_end(self.0.as_bytes(), at + 1);
        unescape(self.0.get(at + 1..end).unwrap_or_default())
    }

    /// The value itself, for what is shown or held.
    pub(crate) fn json(self) -> Json {
        Json::from(self)
    }
}

/// The values of a list.
pub(crate) struct Items<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        let text = self.text.as_bytes();
        let from = scan::blank(text, self.at);
        if matches!(text.get(from), None | Some(b']')) {
            return None;
        }
        let to = scan::skip_value(text, from);
        self.at = scan::blank(text, to) + 1;
        self.text.get(from..to).filter(|value| !value.is_empty()).map(Raw)
    }
}

/// Reading a member that may be absent.
pub(crate) trait Member<'a>: Sized {
    /// *text* of the contract: the string, or empty.
    fn text(self) -> Cow<'a, str>;

    /// The string, when it is one that is not empty.
    fn filled(self) -> Option<Cow<'a, str>> {
        Some(self.text()).filter(|text| !text.is_empty())
    }

    /// Whether it is exactly `true`.
    fn truthful(self) -> bool;

    /// The values of a list; none of anything else.
    fn each(self) -> Items<'a>;

    /// A member of it, when it is an object.
    fn member(self, name: &str) -> Option<Raw<'a>>;

    /// Its members `names`, when it is an object.
    fn fields<const N: usize>(self, names: [&str; N]) -> [Option<Raw<'a>>; N];
}

impl<'a> Member<'a> for Option<Raw<'a>> {
    fn text(self) -> Cow<'a, str> {
        self.and_then(Raw::string).unwrap_or_default()
    }

    fn truthful(self) -> bool {
        self.is_some_and(Raw::is_true)
    }

    fn each(self) -> Items<'a> {
        self.map_or(Items { text: "", at: 0 }, Raw::items)
    }

    fn member(self, name: &str) -> Option<Raw<'a>> {
        self.and_then(|raw| raw.get(name))
    }

    fn fields<const N: usize>(self, names: [&str; N]) -> [Option<Raw<'a>>; N] {
        self.map_or([None; N], |raw| raw.pick(names))
    }
}

/// The text of a string that was judged. A `\uD800`–`\uDFFF` escape without its partner reads as U+FFFD.
pub(crate) fn unescape(inner: &str) -> Cow<'_, str> {
    let bytes = inner.as_bytes();
    let Some(mut escape) = scan::backslash(bytes, 0) else { return Cow::Borrowed(inner) };
    let mut text = String::with_capacity(inner.len());
    let mut from = 0;
    loop {
        text.push_str(inner.get(from..escape).unwrap_or_default());
        let (character, length) = match bytes.get(escape + 1) {
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{C}', 2),
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(b'u') => unicode(inner, escape),
            Some(&other) => (char::from(other), 2),
            None => break,
        };
        text.push(character);
        from = escape + length;
        match scan::backslash(bytes, from) {
            Some(next) => escape = next,
            None => break,
        }
    }
    text.push_str(inner.get(from..).unwrap_or_default());
    Cow::Owned(text)
}

/// The character of the `\u` escape at `at`, and the length of what it is written with.
fn unicode(inner: &str, at: usize) -> (char, usize) {
    let unit = |at: usize| {
        let hex = inner.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(hex, 16).ok()
    };
    let first = unit(at).unwrap_or(0xFFFD);
    if let 0xD800..0xDC00 = first
        && let Some(second @ 0xDC00..0xE000) = unit(at + 6)
    {
        let character = char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
        return (character.unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

#[cfg(test)]
mod tests {
    use super::{Member, object, record, unescape};

    #[test]
    fn escapes() {
        for (written, text) in [
            ("plain", "plain"),
            ("a\\n\\t\\\"\\\\\\/\\b\\f\\r", "a\n\t\"\\/\u{8}\u{c}\r"),
            ("\\u0041\\u00e9", "Aé"),
            ("\\ud83d\\ude80", "🚀"),
            ("\\ud83d", "\u{FFFD}"),
            ("\\ude80x", "\u{FFFD}x"),
            ("\\ud83d\\ud83d\\ude80", "\u{FFFD}🚀"),
            ("\\ud83d\\n", "\u{FFFD}\n"),
            ("\\ud83dé", "\u{FFFD}é"),
            ("\\ud83d\\u0041", "\u{FFFD}A"),
            ("\\uD83D\\uDE80\\u0000", "🚀\0"),
        ] {
            assert_eq!(unescape(written), text, "{written}");
        }
    }

    #[test]
    fn the_last_of_a_name_counts() {
        let [a, b] = record("{\"a\":1,\"b\":[],\"\\u0061\":\"x\"}", ["a", "b"]).unwrap();
        assert_eq!(a.text(), "x");
        assert!(b.is_some_and(super::Raw::is_list));
        assert!(record("{\"a\":1", ["a"]).is_none());
        let value = object("{\"z\":1,\"a\":{\"y\":2,\"b\":3},\"z\":4}").unwrap().json();
        assert_eq!(value.to_string(), "{\"z\":4,\"a\":{\"y\":2,\"b\":3}}");
    }

    #[test]
    fn many_names_cost_one_look_each() {
        let round = |round: usize| (0..20_000).map(move |name| format!("\"name {name}\":{round}"));
        let text = format!("{{{}}}", round(0).chain(round(1)).collect::<Vec<_>>().join(","));
        let members = object(&text).unwrap().members();
        assert_eq!(members.len(), 20_000);
        assert!(
            members
                .iter()
                .enumerate()
                .all(|(n, (name, round))| *name == format!("name {n}") && round.written() == "1")
        );
    }

    #[test]
    fn numbers() {
        let value = |text: &str| object(&format!("{{\"n\":{text}}}")).and_then(|raw| raw.get("n")?.integer());
        for (text, integer) in [
            ("7", Some(7)),
            ("-1", Some(-1)),
            ("7.0", Some(7)),
            ("7e2", Some(700)),
            ("7.5", None),
            ("1e999", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("\"7\"", None),
            ("null", None),
        ] {
            assert_eq!(value(text), integer, "{text}");
        }
        let printed =
            object("{\"a\":[0,-0,1.0,1e5,2.5,18446744073709551615,-1,1e999,1E-7,123456789012345678901]}")
                .unwrap();
        assert_eq!(
            printed.json().to_string(),
            "{\"a\":[0,-0.0,1.0,100000.0,2.5,18446744073709551615,-1,null,1e-7,1.2345678901234568e+20]}"
        );
    }

    #[test]
    fn lists() {
        let list = |text: &str| {
            let text = format!("{{\"l\":{text}}}");
            object(&text)
                .and_then(|raw| raw.get("l"))
                .each()
                .map(|item| item.json().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(list("[ 1 , \"a\" ,[2 ],{ \"b\" : 3 } ]"), ["1", "\"a\"", "[2]", "{\"b\":3}"]);
        assert!(
            list("[]").is_empty() && list("[ ]").is_empty() && list("{}").is_empty() && list("1").is_empty()
        );
    }
}
