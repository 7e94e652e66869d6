//! The rules of search contract 3 and 4 that a case can hit, one by one.

use std::fmt;

macro_rules! rules {
    ($($name:ident $section:literal $text:literal,)*) => {
        /// One rule of search contract 3 or 4. A case hits it when the rule had something to decide in it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = concat!("Search contract ", $section, ": ", $text, ".")] $name,)*
        }

        impl Rule {
            /// All of them, in the order of the contract.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The section of the search contract that states it.
            pub fn section(self) -> &'static str {
                match self { $(Self::$name => $section,)* }
            }

            /// What it says, in a few words.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

rules! {
    GlobRefused "3.1" "a glob outside the grammar is refused",
    ExclusionAlone "3.1" "glob.pattern may be an exclusion",
    MarkInName "3.1" "a name that starts with an exclamation mark",
    HashInName "3.1" "a number sign is literal",
    CommaInName "3.1" "a comma outside braces is literal",
    TrailingSpaces "3.1" "trailing spaces are dropped",
    DotSegments "3.1" "segments of one dot are dropped",
    TrailingSlash "3.1" "a trailing slash stays and matches no file",
    Braces "3.2.1" "braces are a union",
    EmptyAlternative "3.2.1" "an alternative may be empty",
    MixedAlternatives "3.2.1" "an alternative without a slash floats",
    Basename "3.2.2" "no slash: the base name at any depth",
    Anchored "3.2.2" "a slash: the whole path below the root",
    LeadingSlash "3.2.2" "a leading slash only spells the anchor",
    Star "3.2.3" "a star is a run without a slash",
    StarDot "3.2.3" "a star matches a leading dot",
    QuestionByte "3.2.3" "a question mark is one byte",
    GlobstarLeading "3.2.3" "leading globstar",
    GlobstarInner "3.2.3" "inner globstar",
    GlobstarTrailing "3.2.3" "trailing globstar",
    GlobstarAlone "3.2.3" "a lone globstar is everything",
    StarsGlued "3.2.3" "two stars glued to text are one",
    CaseOfGlobs "3.2.3" "globs are case-sensitive",
    DoubleSlash "3.2.3" "a double slash matches nothing",
    DotDot "3.2.3" "a parent segment matches nothing",
    LastGlobDecides "3.2.4" "the last glob that matches decides",
    NoPositive "3.2.4" "without a positive glob everything starts included",
    SomePositive "3.2.4" "with a positive glob everything starts excluded",
    Pruned "3.2.5" "an excluded directory is not entered",
    PrunedForGood "3.2.5" "a later positive glob does not reach into it",
    DirectoryName "3.2.5" "a positive directory name matches no file",
    OnlyNarrowsIgnored "3.2.6" "a glob does not bring back what is ignored",
    OnlyNarrowsHidden "3.2.6" "a glob does not bring back what is hidden",
    OnlyNarrowsSkipped "3.2.6" "a glob does not bring back what the skip list holds",
    FileRootAndGlobs "3.2.7" "a file as root is admitted whatever the globs say",
    LinkToFile "4" "a link to a file is not listed",
    LinkToDirectory "4" "a link to a directory is not followed",
    LinkToNothing "4" "dangling and cyclic links",
    SpecialFile "4" "FIFOs and sockets are passed over",
    RootLink "4" "a link as root works and keeps its name",
    SkipList "4" "a directory of the skip list is not entered",
    SkipListAlways "4" "hidden and noIgnore do not change the skip list",
    SkipListFile "4" "a file with a name of the skip list is ordinary",
    SkipListRoot "4" "a root of or below the skip list is searched",
    HiddenFile "4" "hidden files are left out",
    HiddenDirectory "4" "hidden directories are not entered",
    HiddenAsked "4" "hidden: true brings them in",
    UnreadableDirectory "4" "a directory that cannot be listed is passed over",
    UnreadableFile "4" "a file that cannot be opened still counts",
    NotPermitted "4" "what policy denies is passed over and disclosed",
    RootMissing "4" "a root that does not exist",
    RootSpecial "4" "a root that is neither file nor directory",
    RootForms "4" "paths join root and relative path, normalised",
    RootAbsolute "4" "an absolute root gives absolute paths",
    RootFile "4" "a file root gives its own path",
    NameBytes "4" "names keep newlines and tabs",
    NameNotText "4" "bytes that are not UTF-8 become U+FFFD",
    OrderWhole "4" "order over the whole string, not by component",
    OrderUnits "4" "order by UTF-16 code units",
    Ignored "4.1" "rules exclude files",
    IgnoredDirectory "4.1" "rules exclude directories",
    NoIgnoreAsked "4.1" "noIgnore: true reads no rules",
    NestedRules "4.1" "rules of a directory below the root",
    ParentsNotRead "4.1" "rules of the parents are not read",
    OthersNotRead "4.1" "other ignore files are not read",
    NestedRepository "4.1" "a nested repository is no boundary",
    FileRootAndRules "4.1" "a file root ignores the rules",
    LastLineWins "4.1" "the last matching line wins",
    DeeperWins "4.1" "a deeper file beats a shallower one",
    FallsThrough "4.1" "no match in a deeper file falls through",
    Reincluded "4.1" "a marked line includes again",
    NothingComesBack "4.1" "nothing below an excluded directory comes back",
    Comment "4.1" "a comment is no rule",
    EscapedMark "4.1" "escaped number signs and exclamation marks",
    SpacesDropped "4.1" "trailing spaces are dropped from a line",
    SpaceEscaped "4.1" "an escaped trailing space is kept",
    AnchorLeading "4.1" "a leading slash anchors",
    AnchorInner "4.1" "an inner slash anchors",
    DirectoriesOnly "4.1" "a trailing slash: directories only",
    Wildcards "4.1" "stars, question marks and brackets",
    RulesGlobstar "4.1" "globstars in rules",
    CarriageReturns "4.1" "lines may end in CRLF",
    ByteOrderMark "4.1" "a byte order mark is tolerated",
    CaseOfRules "4.1" "rules are case-sensitive",
    BracesInRules "4.1" "braces are literal in rules",
    TabKept "4.1" "a trailing tab is kept",
    SpoiltLine "4.1" "a line that is not UTF-8 spoils only itself",
    UnusableLine "4.1" "an unusable line is skipped",
    RulesNotRegular "4.1" "rules that are no regular file are not read",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.section(), self.text())
    }
}
