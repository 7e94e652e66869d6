//! Reports in JUnit's XML.

use quick_xml::Reader as Xml;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};

use super::{Ids, Reader, Report, number};

/// Elements that may stand within each other; more is not read.
const MAX_DEPTH: usize = 64;

/// The report of a JUnit XML file; `None` when it is none.
///
/// A case's id is `classname.name`. Where there is no class, or it is `test` (Node's reporter writes that for every case),
/// it is the names of the suites around it and its own, joined by ` > `. Complete when the document ends well-formed, no
/// two failures have one id, and each suite's `tests`, `failures`, `errors` and `skipped`, as far as it states them, are
/// what was seen. No entity but XML's own five is resolved.
#[must_use]
pub fn junit(text: &str) -> Option<Report> {
    let mut document = Document::default();
    let complete = document.read(text);
    if !document.recognised {
        return None;
    }
    let distinct = document.failed.count() == document.total.failing;
    let passed = document.total.cases.checked_sub(document.total.failing + document.total.skipped);
    let passed = passed.filter(|_| complete && distinct && !document.disagrees);
    Some(Report::new(Reader::Junit, document.failed, passed))
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cases: u64,
    /// Cases that failed or ended in an error.
    failing: u64,
    failures: u64,
    errors: u64,
    skipped: u64,
}

/// A suite that is open: what was seen before it, and what it states about itself.
struct Suite {
    name: String,
    before: Counts,
    stated: [Option<u64>; 4],
}

struct Case {
    id: Option<String>,
    failure: bool,
    error: bool,
    skipped: bool,
}

enum Element {
    Suite(Suite),
    Case(Case),
    Other,
}

#[derive(Default)]
struct Document {
    open: Vec<Element>,
    total: Counts,
    failed: Ids,
    recognised: bool,
    disagrees: bool,
}

impl Document {
    /// Reads on until the end or the first thing that is no XML; true for a whole document.
    fn read(&mut self, text: &str) -> bool {
        let mut xml = Xml::from_str(text);
        let mut ended = false;
        loop {
            match xml.read_event() {
                Ok(Event::Start(start)) if !ended => {
                    if self.open.len() >= MAX_DEPTH || !self.start(&start) {
                        return false;
                    }
                }
                Ok(Event::Empty(start)) if !ended => {
                    if !self.start(&start) {
                        return false;
                    }
                    self.end();
                    ended = self.open.is_empty();
                }
                Ok(Event::End(_)) => {
                    self.end();
                    ended = self.open.is_empty();
                }
                Ok(Event::Eof) => return ended && self.open.is_empty(),
                Ok(Event::Start(_) | Event::Empty(_)) | Err(_) => return false,
                // Outside the root there is no text.
                Ok(Event::Text(text)) if self.open.is_empty() => {
                    let text = text.into_inner();
                    if !text.trim_start_matches('\u{feff}').trim().is_empty() {
                        return false;
                    }
                }
                Ok(Event::CData(_) | Event::GeneralRef(_)) if self.open.is_empty() => return false,
                Ok(_) => {}
            }
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> bool {
        let name = start.local_name();
        let element = match name.as_ref() {
            "testsuites" | "testsuite" => {
                self.recognised = true;
                let mut stated = [None; 4];
                for (at, key) in ["tests", "failures", "errors", "skipped"].into_iter().enumerate() {
                    match attribute(start, key) {
                        Ok(Some(value)) => match number(value.trim()) {
                            Some(count) => stated[at] = Some(count),
                            None => self.disagrees = true,
                        },
                        Ok(None) => {}
                        Err(()) => return false,
                    }
                }
                let own = if name.as_ref() == "testsuite" { attribute(start, "name") } else { Ok(None) };
                let Ok(own) = own else { return false };
                Element::Suite(Suite { name: own.unwrap_or_default(), before: self.total, stated })
            }
            "testcase" => {
                let (Ok(class), Ok(name)) = (attribute(start, "classname"), attribute(start, "name")) else {
                    return false;
                };
                self.recognised |= self.open.iter().any(|open| matches!(open, Element::Suite(_)));
                let id = self.id(class.unwrap_or_default(), &name.unwrap_or_default());
                Element::Case(Case { id, failure: false, error: false, skipped: false })
            }
            found => {
                if let Some(Element::Case(case)) = self.open.last_mut() {
                    match found {
                        "failure" => case.failure = true,
                        "error" => case.error = true,
                        "skipped" => case.skipped = true,
                        _ => {}
                    }
                }
                Element::Other
            }
        };
        // What is no JUnit at its root is no JUnit.
        if self.open.is_empty() && !matches!(element, Element::Suite(_)) {
            return false;
        }
        self.open.push(element);
        true
    }

    fn end(&mut self) {
        match self.open.pop() {
            Some(Element::Case(case)) => {
                // What is not done yet may fail and says that it was skipped.
                let failing = (case.failure || case.error) && !case.skipped;
                self.total.cases += 1;
                self.total.failures += u64::from(case.failure);
                self.total.errors += u64::from(case.error);
                self.total.failing += u64::from(failing);
                self.total.skipped += u64::from(case.skipped);
                if failing && let Some(id) = case.id {
                    self.failed.add(id);
                }
            }
            Some(Element::Suite(suite)) => {
                let (now, before) = (self.total, suite.before);
                let seen = [
                    now.cases - before.cases,
                    now.failures - before.failures,
                    now.errors - before.errors,
                    now.skipped - before.skipped,
                ];
                let wrong = |(stated, seen): (Option<u64>, u64)| stated.is_some_and(|count| count != seen);
                self.disagrees |= suite.stated.into_iter().zip(seen).any(wrong);
            }
            Some(Element::Other) | None => {}
        }
    }

    fn id(&self, class: String, name: &str) -> Option<String> {
        if name.is_empty() {
            return (!class.is_empty()).then_some(class);
        }
        if !class.is_empty() && class != "test" {
            return Some(format!("{class}.{name}"));
        }
        let suites = self.open.iter().filter_map(|open| match open {
            Element::Suite(suite) if !suite.name.is_empty() => Some(suite.name.as_str()),
            _ => None,
        });
        Some(suites.chain([name]).collect::<Vec<_>>().join(" > "))
    }
}

/// The value of an attribute; an error for what is not well-formed.
fn attribute(start: &BytesStart<'_>, key: &str) -> Result<Option<String>, ()> {
    match start.try_get_attribute(key) {
        Ok(Some(found)) => found
            .normalized_value(XmlVersion::Implicit1_0)
            .map(|value| Some(value.into_owned()))
            .map_err(drop),
        Ok(None) => Ok(None),
        Err(_) => Err(()),
    }
}
