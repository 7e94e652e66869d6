//! Lines of files, found by `rg`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::Ask;
use super::listing::{Admitted, File, Place, path_of};
use super::program::{ProgramCall, Run};
use crate::kernel::{CallContext, HandlerError};

/// Bytes of file names in one run.
const MOST_ARGUMENTS: usize = 64 * 1024;

/// One line that ripgrep printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) matches: bool,
    pub(super) text: Vec<u8>,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Matching lines, and those around them.
    Lines(Vec<Line>),
    Binary,
    Unreadable,
}

impl Found {
    pub(super) fn has_matches(&self) -> bool {
        matches!(self, Self::Lines(lines) if lines.iter().any(|line| line.matches))
    }
}

/// The content of a file; `None` when it cannot be read.
pub(super) async fn read(cx: &CallContext, place: &Place, file: &File) -> Option<Vec<u8>> {
    std::str::from_utf8(&file.below).ok()?;
    cx.files.open(&path_of(place, &file.below)).await.ok()?.read_to(u64::MAX - 1).ok()
}

/// Which files ripgrep and the contract read differently.
pub(super) struct Classes {
    /// Those with a carriage return, a NUL or anything beyond ASCII.
    odd: BTreeSet<Vec<u8>>,
    /// Those with a NUL.
    binary: BTreeSet<Vec<u8>>,
}

/// Puts the admitted files into classes.
pub(super) async fn classes(
    run: Run<'_>,
    place: &Place,
    admitted: &Admitted,
) -> Result<Classes, HandlerError> {
    let odd = files_with(run, place, &named(admitted), "(?-u)[\\x00\\r\\x80-\\xff]").await?;
    let files: Vec<&File> = admitted.files.iter().filter(|file| odd.contains(&file.below)).collect();
    let binary = files_with(run, place, &files, "(?-u)\\x00").await?;
    Ok(Classes { odd, binary })
}

/// The files that can be opened: the kernel opens none whose name is not UTF-8.
fn named(admitted: &Admitted) -> Vec<&File> {
    admitted.files.iter().filter(|file| std::str::from_utf8(&file.below).is_ok()).collect()
}

/// Searches every admitted file, in their order.
pub(super) async fn in_files(
    run: Run<'_>,
    place: &Place,
    admitted: &Admitted,
    classes: &Classes,
    ask: &Ask,
    fixed: bool,
) -> Result<Vec<Found>, HandlerError> {
    let (odd, plain): (Vec<&File>, Vec<&File>) =
        named(admitted).into_iter().partition(|file| classes.odd.contains(&file.below));
    let mut found: BTreeMap<Vec<u8>, Found> = BTreeMap::new();
    for file in odd {
        let what = if classes.binary.contains(&file.below) {
            Found::Binary
        } else {
            match read(run.cx, place, file).await {
                Some(bytes) => Found::Lines(lines_of(run, &bytes, ask, fixed).await?),
                None => Found::Unreadable,
            }
        };
        found.insert(file.below.clone(), what);
    }
    let mut arguments = asking(ask, fixed);
    arguments.extend(["--with-filename", "--null"].map(OsString::from));
    for (path, line) in each(run, place, &plain, arguments, |output| records(output, true)).await? {
        let Found::Lines(lines) = found.entry(path).or_insert_with(|| Found::Lines(Vec::new())) else {
            continue;
        };
        lines.push(line);
    }
    let of = |file: &File| found.remove(&file.below).unwrap_or(Found::Lines(Vec::new()));
    Ok(admitted.files.iter().map(of).collect())
}

/// Whether there is a NUL among bytes.
pub(super) async fn is_binary(run: Run<'_>, bytes: &[u8]) -> Result<bool, HandlerError> {
    let arguments = ["--no-config", "--text", "--encoding=none", "--count", "-e", "(?-u)\\x00", "-"];
    let arguments = arguments.iter().map(OsString::from).collect();
    let call = ProgramCall { arguments, directory: "/".into(), input: bytes.to_vec() };
    Ok(!run.output(call).await?.is_empty())
}

/// Searches text after it was decoded: U+FFFD for what is not UTF-8, no byte order mark, no carriage return before the end of
/// a line.
pub(super) async fn lines_of(
    run: Run<'_>,
    bytes: &[u8],
    ask: &Ask,
    fixed: bool,
) -> Result<Vec<Line>, HandlerError> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n");
    let mut arguments = asking(ask, fixed);
    arguments.extend(["--no-filename", "-"].map(OsString::from));
    let output =
        run.output(ProgramCall { arguments, directory: "/".into(), input: text.into_bytes() }).await?;
    Ok(records(&output, false).into_iter().map(|(_, line)| line).collect())
}

/// The options that ask for lines.
fn asking(ask: &Ask, fixed: bool) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "--no-config",
        "--no-messages",
        "--no-heading",
        "--line-number",
        "--no-column",
        "--color=never",
        "--text",
        "--encoding=none",
        "--no-context-separator",
        "--no-ignore",
        "--hidden",
        "--engine=default",
        "--no-crlf",
        "--no-multiline",
        "--no-trim",
        "--max-columns=0",
        "--regex-size-limit=1G",
        "--dfa-size-limit=100M",
        "--threads=1",
    ]
    .iter()
    .map(OsString::from)
    .collect();
    arguments.push(if ask.ignore_case { "--ignore-case" } else { "--case-sensitive" }.into());
    if fixed {
        arguments.push("--fixed-strings".into());
    }
    arguments.push(format!("--before-context={}", ask.before).into());
    arguments.push(format!("--after-context={}", ask.after).into());
    arguments.push("-e".into());
    arguments.push(ask.pattern.clone().into());
    arguments
}

/// The files that hold a match of an expression.
async fn files_with(
    run: Run<'_>,
    place: &Place,
    files: &[&File],
    expression: &str,
) -> Result<BTreeSet<Vec<u8>>, HandlerError> {
    let arguments =
        ["--no-config", "--no-messages", "--text", "--encoding=none", "--files-with-matches", "--null", "-e"];
    let arguments = arguments.iter().copied().chain([expression]).map(OsString::from).collect();
    let split =
        |output: &[u8]| output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(below).collect();
    Ok(each(run, place, files, arguments, split).await?.into_iter().collect())
}

/// A path without the `./` that keeps a name from being read as an option.
fn below(path: &[u8]) -> Vec<u8> {
    path.strip_prefix(b"./").unwrap_or(path).to_vec()
}

/// Runs with these arguments over files, as many at a time as fit.
async fn each<T>(
    run: Run<'_>,
    place: &Place,
    files: &[&File],
    arguments: Vec<OsString>,
    read: impl Fn(&[u8]) -> Vec<T>,
) -> Result<Vec<T>, HandlerError> {
    let mut all = Vec::new();
    let mut rest = files;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|file| {
            bytes += file.below.len() + 16;
            bytes < MOST_ARGUMENTS
        });
        let (now, later) = rest.split_at(fits.count().max(1));
        rest = later;
        let mut arguments = arguments.clone();
        arguments.push("--".into());
        arguments.extend(now.iter().map(|file| {
            let mut path = OsString::from("./");
            path.push(OsStr::from_bytes(&file.below));
            path
        }));
        let call = ProgramCall { arguments, directory: place.cwd.clone(), input: Vec::new() };
        all.extend(read(&run.output(call).await?));
    }
    Ok(all)
}

/// The printed lines: a path that ends with NUL (when there is one), a number, `:` for a match and `-` for another line, and
/// the text.
fn records(output: &[u8], named: bool) -> Vec<(Vec<u8>, Line)> {
    let mut records = Vec::new();
    let mut rest = output;
    while !rest.is_empty() {
        let mut path = &rest[..0];
        if named {
            let Some(end) = rest.iter().position(|byte| *byte == 0) else { break };
            path = &rest[..end];
            rest = &rest[end + 1..];
        }
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let Some(number) = std::str::from_utf8(&line[..digits]).ok().and_then(|text| text.parse().ok())
        else {
            continue;
        };
        let Some((mark, text)) = line[digits..].split_first() else { continue };
        let line = Line { number, matches: *mark == b':', text: text.to_vec() };
        records.push((below(path), line));
    }
    records
}
