//! Which rules of the contract have something to decide in a case.
//!
//! The tree is walked as a value, with the grammars of this crate. A line of rules or a glob counts for what it is made of
//! when it matches an entry that the walk judges.

use std::collections::{BTreeMap, BTreeSet};

use super::call::{Call, WORKSPACE};
use super::rule::Rule;
use super::tree::{Entry, Tree};
use crate::SKIPPED_DIRECTORIES;
use crate::gitignore::Gitignore;
use crate::glob::{Glob, GlobList};
use crate::kernel::flows::canonical::utf16_cmp;
use crate::wild::RelPath;

/// Links that are followed on the way to a root.
const MOST_LINKS: usize = 20;

/// The rules that a case hits. `locks` tells whether mode bits keep this process out.
pub(crate) fn hits(tree: &Tree, call: &Call, locks: bool) -> BTreeSet<Rule> {
    let mut census = Census::new(tree, call, locks);
    census.take();
    census.hits
}

/// The root of a call below the workspace, links followed: its path, what stands there, and whether the last segment was a
/// link. `None` when it does not exist or lies outside.
pub(crate) fn resolve(tree: &Tree, root: &str) -> Option<(Vec<u8>, Entry, bool)> {
    let root = root.strip_prefix(WORKSPACE).unwrap_or(root).as_bytes();
    let mut todo: Vec<Vec<u8>> = root.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect();
    let mut path: Vec<Vec<u8>> = Vec::new();
    let (mut links, mut last_is_link) = (0, false);
    while let Some(segment) = todo.pop() {
        match segment.as_slice() {
            b"" | b"." => continue,
            b".." => {
                path.pop()?;
                continue;
            }
            _ => {}
        }
        path.push(segment);
        if let Entry::Link(text) = tree.at(&path.join(&b'/'))? {
            links += 1;
            if links > MOST_LINKS || text.starts_with(b"/") {
                return None;
            }
            last_is_link |= todo.is_empty();
            path.pop();
            todo.extend(text.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
        }
    }
    let path = path.join(&b'/');
    let entry = tree.at(&path)?;
    Some((path, entry, last_is_link))
}

/// One `.gitignore` in force.
struct Rules {
    depth: usize,
    whole: Gitignore,
    lines: Vec<(Vec<u8>, Gitignore)>,
    marked: bool,
    text: Vec<u8>,
}

struct Census<'a> {
    tree: &'a Tree,
    call: &'a Call,
    locks: bool,
    globs: GlobList,
    /// Each expansion of each glob: the canonical text, the glob of it, whether it excludes.
    parts: Vec<(String, Glob, bool)>,
    refused: bool,
    hits: BTreeSet<Rule>,
    /// Paths of the admitted files, relative to the root.
    admitted: Vec<Vec<u8>>,
}

impl<'a> Census<'a> {
    fn new(tree: &'a Tree, call: &'a Call, locks: bool) -> Self {
        let given = call.globs();
        let globs = GlobList::parse(&given);
        let parts = given
            .iter()
            .filter_map(|text| Glob::parse(text).ok())
            .flat_map(|glob| {
                let exclusion = glob.is_exclusion();
                let single =
                    |text: String| Glob::parse(&format!("!{text}")).ok().map(|glob| (text, glob, exclusion));
                glob.canonicals().into_iter().filter_map(single).collect::<Vec<_>>()
            })
            .collect();
        Self {
            tree,
            call,
            locks,
            refused: globs.is_err(),
            globs: globs.unwrap_or_default(),
            parts,
            hits: BTreeSet::new(),
            admitted: Vec::new(),
        }
    }

    fn hit(&mut self, rule: Rule, when: bool) {
        if when {
            self.hits.insert(rule);
        }
    }

    fn take(&mut self) {
        if self.refused {
            self.hits.insert(Rule::GlobRefused);
            return;
        }
        let root = self.call.root();
        let Some((path, entry, through_link)) = resolve(self.tree, root) else {
            self.hits.insert(Rule::RootMissing);
            return;
        };
        self.hit(Rule::RootLink, through_link);
        self.hit(Rule::RootAbsolute, root.starts_with(WORKSPACE));
        self.hit(Rule::RootForms, root.starts_with("./") || root.ends_with('/') || root.contains("/../"));
        let in_skipped = path
            .split(|byte| *byte == b'/')
            .any(|name| SKIPPED_DIRECTORIES.iter().any(|skip| skip.as_bytes() == name));
        self.hit(Rule::SkipListRoot, in_skipped);
        let has_globs = !self.call.globs().is_empty();
        match entry {
            Entry::Fifo | Entry::Socket | Entry::Link(_) => {
                self.hits.insert(Rule::RootSpecial);
            }
            Entry::File(_) => {
                self.hits.insert(Rule::RootFile);
                self.hit(Rule::FileRootAndGlobs, has_globs && !self.globs.includes(&RelPath::of(&path)));
                let ruled = above_with(&path).any(|(directory, rest)| {
                    let text = self.rules_text(directory);
                    text.is_some_and(|text| {
                        Gitignore::parse(&text).decide(&RelPath::of(rest), 0, false) == Some(true)
                    })
                });
                self.hit(Rule::FileRootAndRules, ruled);
            }
            Entry::Dir => {
                let parents = above_with(&path).any(|(directory, _)| {
                    !path.is_empty() && self.rules_text(directory).is_some_and(|text| !text.is_empty())
                });
                self.hit(Rule::ParentsNotRead, (parents || self.tree.noise_above) && !self.call.no_ignore());
                self.grammar();
                let mut rules = Vec::new();
                self.directory(&path, &mut RelPath::default(), &mut rules);
                self.order();
            }
        }
    }

    /// What globs are made of that match nothing by their nature.
    fn grammar(&mut self) {
        let given: Vec<String> = self.call.globs().iter().map(|glob| (*glob).to_owned()).collect();
        for text in &given {
            let body = text.strip_prefix('!').unwrap_or(text);
            self.hit(Rule::TrailingSpaces, body.ends_with(' '));
            self.hit(Rule::DotSegments, body.starts_with("./") || body.contains("/./"));
            self.hit(
                Rule::EmptyAlternative,
                body.contains("{,") || body.contains(",}") || body.contains(",,"),
            );
        }
        let is_glob = matches!(self.call, Call::Glob(_));
        self.hit(Rule::ExclusionAlone, is_glob && given.iter().any(|text| text.starts_with('!')));
        let (positive, negative): (Vec<&String>, Vec<&String>) =
            given.iter().partition(|text| !text.starts_with('!'));
        self.hit(Rule::NoPositive, positive.is_empty() && !negative.is_empty());
        self.hit(Rule::SomePositive, !positive.is_empty());
        let parts: Vec<String> = self.parts.iter().map(|(text, ..)| text.clone()).collect();
        for text in parts {
            self.hit(Rule::DoubleSlash, text.contains("//"));
            self.hit(Rule::DotDot, text.split('/').any(|segment| segment == ".."));
        }
    }

    fn rules_text(&self, directory: &[u8]) -> Option<Vec<u8>> {
        let path =
            if directory.is_empty() { b".gitignore".to_vec() } else { [directory, b"/.gitignore"].concat() };
        match self.tree.entries().get(&path) {
            Some(Entry::File(text)) if !self.tree.denied().contains(&path) => Some(text.clone()),
            _ => None,
        }
    }

    fn directory(&mut self, directory: &[u8], relative: &mut RelPath, rules: &mut Vec<Rules>) {
        let before = rules.len();
        let listed = self.tree.list(directory);
        self.rules_here(directory, relative, rules, &listed);
        for (name, entry) in &listed {
            let path = if directory.is_empty() { name.clone() } else { [directory, b"/", name].concat() };
            relative.push(name);
            self.entry(&path, entry, relative, rules);
            relative.pop();
        }
        rules.truncate(before);
    }

    fn rules_here(
        &mut self,
        directory: &[u8],
        relative: &RelPath,
        rules: &mut Vec<Rules>,
        listed: &BTreeMap<Vec<u8>, Entry>,
    ) {
        for other in [".ignore", ".rgignore", ".hgignore"] {
            self.hit(Rule::OthersNotRead, listed.contains_key(other.as_bytes()));
        }
        self.hit(Rule::NestedRepository, listed.contains_key(b".git".as_slice()) && !rules.is_empty());
        if self.call.no_ignore() {
            return;
        }
        match listed.get(b".gitignore".as_slice()) {
            Some(Entry::File(_)) => {
                let Some(text) = self.rules_text(directory) else { return };
                let marked = text.starts_with(b"\xef\xbb\xbf");
                let body = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
                let lines =
                    body.split(|byte| *byte == b'\n').map(|line| (line.to_vec(), Gitignore::parse(line)));
                let rule = Rules {
                    depth: relative.len(),
                    whole: Gitignore::parse(&text),
                    lines: lines.collect(),
                    marked,
                    text: text.clone(),
                };
                rules.push(rule);
            }
            Some(_) => {
                self.hits.insert(Rule::RulesNotRegular);
            }
            None => {}
        }
    }

    fn entry(&mut self, path: &[u8], entry: &Entry, relative: &mut RelPath, rules: &mut Vec<Rules>) {
        let name = relative.name().to_vec();
        let skipped = SKIPPED_DIRECTORIES.iter().any(|skip| skip.as_bytes() == name);
        let is_dir = match entry {
            Entry::Dir => true,
            Entry::File(_) => {
                self.hit(Rule::SkipListFile, skipped);
                false
            }
            Entry::Link(_) => {
                let rule = match resolve_at(self.tree, path) {
                    Some(Entry::File(_)) => Rule::LinkToFile,
                    Some(Entry::Dir) => Rule::LinkToDirectory,
                    _ => Rule::LinkToNothing,
                };
                self.hits.insert(rule);
                return;
            }
            Entry::Fifo | Entry::Socket => {
                self.hits.insert(Rule::SpecialFile);
                return;
            }
        };
        let hidden = name.starts_with(b".");
        let out = (is_dir && skipped) || (hidden && !self.call.hidden());
        if out {
            let positive = self.parts.iter().any(|(_, glob, exclusion)| {
                !exclusion
                    && (glob.matches(relative, false) || (is_dir && self.below_matches(path, relative, glob)))
            });
            if is_dir && skipped {
                self.hits.insert(Rule::SkipList);
                self.hit(Rule::SkipListAlways, self.call.hidden() || self.call.no_ignore());
                self.hit(Rule::OnlyNarrowsSkipped, positive);
            } else {
                self.hits.insert(if is_dir { Rule::HiddenDirectory } else { Rule::HiddenFile });
                self.hit(Rule::OnlyNarrowsHidden, positive);
            }
            return;
        }
        if self.judged_by_rules(relative, is_dir, rules) {
            self.hits.insert(if is_dir { Rule::IgnoredDirectory } else { Rule::Ignored });
            let positive =
                self.parts.iter().any(|(_, glob, exclusion)| !exclusion && glob.matches(relative, is_dir));
            self.hit(Rule::OnlyNarrowsIgnored, positive);
            if is_dir {
                self.comes_not_back(path, relative, rules);
            }
            return;
        }
        self.judged_by_globs(path, relative, is_dir);
        let within = if is_dir { !self.globs.prunes(relative) } else { self.globs.includes(relative) };
        if !within {
            return;
        }
        self.hit(Rule::HiddenAsked, hidden);
        self.hit(Rule::NameBytes, name.iter().any(|byte| matches!(byte, b'\n' | b'\t')));
        self.hit(Rule::NameNotText, std::str::from_utf8(&name).is_err());
        if self.tree.denied().contains(path) {
            self.hits.insert(Rule::NotPermitted);
            return;
        }
        if self.locks && self.tree.locked().contains(path) {
            self.hits.insert(if is_dir { Rule::UnreadableDirectory } else { Rule::UnreadableFile });
            if is_dir {
                return;
            }
        }
        if is_dir {
            self.directory(path, relative, rules);
        } else {
            self.admitted.push(relative.segments_joined());
        }
    }

    /// Whether something below a directory matches a glob.
    fn below_matches(&self, path: &[u8], relative: &RelPath, glob: &Glob) -> bool {
        let start = [path, b"/"].concat();
        self.tree.entries().range(start.clone()..).take_while(|(below, _)| below.starts_with(&start)).any(
            |(below, _)| {
                let inside = &below[start.len()..];
                let whole = [relative.segments_joined().as_slice(), b"/", inside].concat();
                glob.matches(&RelPath::of(&whole), false)
            },
        )
    }

    /// What the rules in force say of an entry, and which of their parts say it.
    fn judged_by_rules(&mut self, path: &RelPath, is_dir: bool, rules: &[Rules]) -> bool {
        if self.call.no_ignore() {
            let listed = self.rules_text(b"").is_some();
            self.hit(Rule::NoIgnoreAsked, listed);
            return false;
        }
        let name = path.name();
        let verdicts: Vec<Option<bool>> =
            rules.iter().map(|file| file.whole.decide(path, file.depth, is_dir)).collect();
        let decided = verdicts.iter().rev().find_map(|verdict| *verdict);
        let said: Vec<bool> = verdicts.iter().flatten().copied().collect();
        let mut found = BTreeSet::new();
        if said.windows(2).any(|pair| pair[0] != pair[1]) {
            found.insert(Rule::DeeperWins);
        }
        if verdicts.len() > 1 && verdicts.last() == Some(&None) && decided == Some(true) {
            found.insert(Rule::FallsThrough);
        }
        for (file, verdict) in rules.iter().zip(&verdicts) {
            let mut line_verdicts = Vec::new();
            for (index, (line, alone)) in file.lines.iter().enumerate() {
                let bare = line.strip_suffix(b"\r").unwrap_or(line);
                let commented = bare.strip_prefix(b"#").is_some_and(|_| bare == name);
                if commented {
                    found.insert(Rule::Comment);
                }
                let other_case = Gitignore::parse(&line.to_ascii_lowercase());
                let mut lower = RelPath::default();
                (0..path.len()).for_each(|at| lower.push(&path.segment(at).to_ascii_lowercase()));
                let says = alone.decide(path, file.depth, is_dir);
                if says.is_none() && other_case.decide(&lower, file.depth, is_dir).is_some() {
                    found.insert(Rule::CaseOfRules);
                }
                let Some(says) = says else { continue };
                line_verdicts.push(says);
                found.extend(parts_of_line(line));
                if index == 0 && file.marked {
                    found.insert(Rule::ByteOrderMark);
                }
            }
            if line_verdicts.windows(2).any(|pair| pair[0] != pair[1]) {
                found.insert(Rule::LastLineWins);
            }
            if verdict.is_some() {
                if file.depth > 0 {
                    found.insert(Rule::NestedRules);
                }
                if std::str::from_utf8(&file.text).is_err() {
                    found.insert(Rule::SpoiltLine);
                }
                let unusable = |line: &[u8]| matches!(line, b"[a" | b"z\\" | b"[b-" | b"a\\" | b"/" | b"!");
                if file.lines.iter().any(|(line, _)| unusable(line)) {
                    found.insert(Rule::UnusableLine);
                }
            }
        }
        if decided == Some(false) {
            found.insert(Rule::Reincluded);
        }
        self.hits.extend(found);
        decided == Some(true)
    }

    /// Whether a rule would include again what lies below an excluded directory.
    fn comes_not_back(&mut self, path: &[u8], relative: &RelPath, rules: &[Rules]) {
        let start = [path, b"/"].concat();
        let own = self.rules_text(path).map(|text| Gitignore::parse(&text));
        let mut back = false;
        for (below, _) in
            self.tree.entries().range(start.clone()..).take_while(|(below, _)| below.starts_with(&start))
        {
            let inside = &below[start.len()..];
            let whole = RelPath::of(&[relative.segments_joined().as_slice(), b"/", inside].concat());
            let outer = rules.iter().rev().find_map(|file| file.whole.decide(&whole, file.depth, false));
            let inner = own.as_ref().and_then(|own| own.decide(&RelPath::of(inside), 0, false));
            // What no rule excludes by itself is gone with the directory all the same.
            back |= inner.or(outer) != Some(true);
        }
        self.hit(Rule::NothingComesBack, back);
    }

    fn judged_by_globs(&mut self, path: &[u8], relative: &RelPath, is_dir: bool) {
        let mut found = BTreeSet::new();
        let mut exclusions = Vec::new();
        let name = relative.name();
        for (text, glob, exclusion) in &self.parts {
            let folded = Glob::parse(&format!("!{}", text.to_ascii_lowercase()));
            let mut lower = RelPath::default();
            (0..relative.len()).for_each(|at| lower.push(&relative.segment(at).to_ascii_lowercase()));
            let matches = glob.matches(relative, is_dir);
            if !matches && folded.is_ok_and(|folded| folded.matches(&lower, is_dir)) {
                found.insert(Rule::CaseOfGlobs);
            }
            if text.ends_with('/') && !exclusion {
                found.insert(Rule::TrailingSlash);
            }
            if !matches {
                continue;
            }
            exclusions.push(*exclusion);
            if is_dir && !exclusion && !text.contains('*') {
                found.insert(Rule::DirectoryName);
            }
            found.extend(parts_of_glob(text));
            if name.starts_with(b".") && text.rsplit('/').next().is_some_and(|last| last.starts_with('*')) {
                found.insert(Rule::StarDot);
            }
            if text.contains('?') && !name.is_ascii() {
                found.insert(Rule::QuestionByte);
            }
        }
        for glob in self.globs.globs() {
            if glob.text().contains('{') && glob.matches(relative, is_dir) {
                found.insert(Rule::Braces);
                let slashes: BTreeSet<bool> =
                    glob.canonicals().iter().map(|part| part.contains('/')).collect();
                if slashes.len() == 2 {
                    found.insert(Rule::MixedAlternatives);
                }
            }
        }
        let lists_decide = exclusions.windows(2).any(|pair| pair[0] != pair[1]);
        if lists_decide {
            found.insert(Rule::LastGlobDecides);
        }
        if is_dir && self.globs.prunes(relative) {
            found.insert(Rule::Pruned);
            let positive = |glob: &Glob| !glob.is_exclusion() && self.below_matches(path, relative, glob);
            if self.globs.globs().iter().any(positive) {
                found.insert(Rule::PrunedForGood);
            }
        }
        self.hits.extend(found);
    }

    /// Whether order by whole strings of UTF-16 units differs from others.
    fn order(&mut self) {
        let shown: Vec<String> =
            self.admitted.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        let mut whole = shown.clone();
        whole.sort_by(|left, right| utf16_cmp(left, right));
        let mut components = shown.clone();
        components.sort_by(|left, right| left.split('/').cmp(right.split('/')));
        let mut bytes = shown;
        bytes.sort();
        self.hit(Rule::OrderUnits, bytes != whole);
        self.hit(Rule::OrderWhole, components != bytes);
    }
}

/// What a link leads to.
fn resolve_at(tree: &Tree, path: &[u8]) -> Option<Entry> {
    let text = std::str::from_utf8(path).ok()?;
    resolve(tree, text).map(|(_, entry, _)| entry)
}

/// The directories above a path with what is left of it, outermost first.
fn above_with(path: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let inner = path
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| (&path[..at], &path[at + 1..]));
    std::iter::once((&path[..0], path)).chain(inner)
}

fn parts_of_line(line: &[u8]) -> Vec<Rule> {
    let mut found = Vec::new();
    let mut add = |rule, when: bool| {
        if when {
            found.push(rule);
        }
    };
    add(Rule::CarriageReturns, line.ends_with(b"\r"));
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    add(Rule::EscapedMark, line.starts_with(b"\\#") || line.starts_with(b"\\!"));
    add(Rule::SpaceEscaped, line.ends_with(b"\\ "));
    add(Rule::SpacesDropped, line.ends_with(b" ") && !line.ends_with(b"\\ "));
    add(Rule::TabKept, line.ends_with(b"\t"));
    add(Rule::BracesInRules, line.contains(&b'{'));
    let body = line.strip_prefix(b"!").unwrap_or(line);
    add(Rule::AnchorLeading, body.starts_with(b"/"));
    add(Rule::DirectoriesOnly, body.ends_with(b"/"));
    let inner = body.strip_prefix(b"/").unwrap_or(body);
    let inner = inner.strip_suffix(b"/").unwrap_or(inner);
    add(Rule::AnchorInner, inner.contains(&b'/'));
    let globstar = inner.windows(2).any(|pair| pair == b"**");
    add(Rule::RulesGlobstar, globstar);
    add(Rule::Wildcards, !globstar && inner.iter().any(|byte| b"*?[".contains(byte)));
    found
}

fn parts_of_glob(text: &str) -> Vec<Rule> {
    let mut found = Vec::new();
    let mut add = |rule, when: bool| {
        if when {
            found.push(rule);
        }
    };
    let bare = text.strip_suffix('/').unwrap_or(text);
    add(Rule::Basename, !bare.contains('/'));
    add(Rule::Anchored, bare.contains('/'));
    add(Rule::LeadingSlash, text.starts_with('/'));
    let anchored = bare.strip_prefix('/').unwrap_or(bare);
    add(Rule::GlobstarAlone, anchored == "**");
    add(Rule::GlobstarLeading, anchored.starts_with("**/"));
    add(Rule::GlobstarInner, anchored.contains("/**/"));
    add(Rule::GlobstarTrailing, anchored.ends_with("/**"));
    let segments = || anchored.split('/');
    add(Rule::StarsGlued, segments().any(|segment| segment.contains("**") && segment != "**"));
    add(Rule::Star, segments().any(|segment| segment.contains('*') && !segment.contains("**")));
    add(Rule::QuestionByte, false);
    add(Rule::MarkInName, anchored.starts_with('!') || anchored.contains("/!"));
    add(Rule::HashInName, anchored.starts_with('#'));
    add(Rule::CommaInName, anchored.contains(','));
    found
}

impl RelPath {
    /// The path as bytes.
    fn segments_joined(&self) -> Vec<u8> {
        let segments: Vec<&[u8]> = (0..self.len()).map(|at| self.segment(at)).collect();
        segments.join(&b'/')
    }
}
