//! Matching of path patterns, segment by segment, in time linear in pattern times path.
//!
//! Both readers of patterns, [`crate::glob`] and [`crate::gitignore`], translate to this form. A segment
//! never crosses `/`; only [`Step::Globstar`] does.

/// A path below the root of a walk, kept as bytes and as segments.
#[derive(Debug, Clone, Default)]
pub(crate) struct RelPath {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl RelPath {
    /// The path of `text`, split at `/`.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut path = Self::default();
        for segment in text.split(|byte| *byte == b'/') {
            path.push(segment);
        }
        path
    }

    /// Appends a segment.
    pub(crate) fn push(&mut self, name: &[u8]) {
        if !self.starts.is_empty() {
            self.bytes.push(b'/');
        }
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(name);
    }

    /// Removes the last segment.
    pub(crate) fn pop(&mut self) {
        if let Some(start) = self.starts.pop() {
            self.bytes.truncate(start.saturating_sub(1));
        }
    }

    /// How many segments there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The segment at `index`; empty when there is none.
    pub(crate) fn segment(&self, index: usize) -> &[u8] {
        let Some(start) = self.starts.get(index) else { return &[] };
        let end = self.starts.get(index + 1).map_or(self.bytes.len(), |next| next - 1);
        &self.bytes[*start..end]
    }

    /// The last segment.
    pub(crate) fn name(&self) -> &[u8] {
        self.segment(self.len().saturating_sub(1))
    }
}

/// A set of bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ByteSet([u64; 4]);

impl ByteSet {
    pub(crate) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    pub(crate) fn insert_range(&mut self, low: u8, high: u8) {
        for byte in low..=high {
            self.insert(byte);
        }
    }

    pub(crate) fn insert_where(&mut self, member: impl Fn(u8) -> bool) {
        for byte in 0..=u8::MAX {
            if member(byte) {
                self.insert(byte);
            }
        }
    }

    pub(crate) fn negate(&mut self) {
        for word in &mut self.0 {
            *word = !*word;
        }
    }

    pub(crate) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }
}

/// One element of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Atom {
    /// This byte.
    Byte(u8),
    /// Any one byte.
    Any,
    /// Any run of bytes.
    Star,
    /// One byte of the set.
    Set(Box<ByteSet>),
}

/// A pattern for one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Exactly this name.
    Literal(Vec<u8>),
    /// Names that end so (`*` and text).
    Suffix(Vec<u8>),
    /// Anything else.
    Atoms(Vec<Atom>),
}

impl Segment {
    /// The segment of `atoms`.
    pub(crate) fn new(atoms: Vec<Atom>) -> Self {
        let bytes = |atoms: &[Atom]| -> Option<Vec<u8>> {
            atoms.iter().map(|atom| if let Atom::Byte(byte) = atom { Some(*byte) } else { None }).collect()
        };
        if let Some(text) = bytes(&atoms) {
            return Self::Literal(text);
        }
        if let [Atom::Star, rest @ ..] = atoms.as_slice()
            && let Some(text) = bytes(rest)
        {
            return Self::Suffix(text);
        }
        Self::Atoms(atoms)
    }

    /// Whether `name` matches.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Literal(text) => text == name,
            Self::Suffix(text) => name.ends_with(text),
            Self::Atoms(atoms) => atoms_match(atoms, name),
        }
    }
}

/// The two-pointer scan: on a mismatch the latest star takes one byte more.
fn atoms_match(atoms: &[Atom], name: &[u8]) -> bool {
    let (mut atom, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let fits = match atoms.get(atom) {
            Some(Atom::Star) => {
                atom += 1;
                star = Some((atom, at));
                continue;
            }
            Some(_) if at == name.len() => false,
            Some(Atom::Byte(byte)) => *byte == name[at],
            Some(Atom::Any) => true,
            Some(Atom::Set(set)) => set.contains(name[at]),
            None if at == name.len() => return true,
            None => false,
        };
        if fits {
            atom += 1;
            at += 1;
            continue;
        }
        match star {
            Some((after, taken)) if taken < name.len() => {
                star = Some((after, taken + 1));
                atom = after;
                at = taken + 1;
            }
            _ => return false,
        }
    }
}

/// One step of a path pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Zero or more segments.
    Globstar,
    /// One segment.
    Segment(Segment),
}

/// A pattern for a whole path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathPattern {
    steps: Vec<Step>,
}

impl PathPattern {
    /// The pattern of `steps`. A last globstar asks for at least one segment: `a/**` is what is inside
    /// `a`, never `a`.
    pub(crate) fn new(mut steps: Vec<Step>) -> Self {
        if steps.last() == Some(&Step::Globstar) {
            steps.push(Step::Segment(Segment::new(vec![Atom::Star])));
        }
        Self { steps }
    }

    /// Whether the segments of `path` from `from` on match.
    pub(crate) fn matches(&self, path: &RelPath, from: usize) -> bool {
        let (mut step, mut at) = (0, from);
        let mut star: Option<(usize, usize)> = None;
        let end = path.len();
        loop {
            let fits = match self.steps.get(step) {
                Some(Step::Globstar) => {
                    step += 1;
                    star = Some((step, at));
                    continue;
                }
                Some(Step::Segment(segment)) => at < end && segment.matches(path.segment(at)),
                None if at == end => return true,
                None => false,
            };
            if fits {
                step += 1;
                at += 1;
                continue;
            }
            match star {
                Some((after, taken)) if taken < end => {
                    star = Some((after, taken + 1));
                    step = after;
                    at = taken + 1;
                }
                _ => return false,
            }
        }
    }
}
