//! `.gitignore` in the words of ripgrep: each usable line, read as git reads it, as a line of one ignore file for the root.

/// The lines of the `.gitignore` in `directory` (relative to the root, empty for the root itself).
pub(super) fn translated(directory: &str, text: &[u8]) -> Vec<String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut scope = String::from("/");
    for segment in directory.split('/').filter(|segment| !segment.is_empty()) {
        for character in segment.chars() {
            // No line can name what ends one; any byte in its place comes closest.
            if matches!(character, '\n' | '\r') { scope.push('?') } else { literal(character, &mut scope) }
        }
        scope.push('/');
    }
    text.split(|byte| *byte == b'\n').filter_map(|line| line_of(&scope, line)).collect()
}

fn line_of(scope: &str, line: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(line).ok()?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    let line = without_spaces(line.split('\0').next()?);
    let (mark, body) = match line.strip_prefix('!') {
        Some(body) => ("!", body),
        None => ("", line),
    };
    let (body, end) = match body.strip_suffix('/') {
        Some(body) => (body, "/"),
        None => (body, ""),
    };
    if body.is_empty() {
        return None;
    }
    let anchored = body.contains('/');
    let body = body.strip_prefix('/').unwrap_or(body);
    let segments = segments(body)?;
    let text = if anchored {
        segments.join("/")
    } else {
        format!("**/{}", if segments.join("/") == "**" { "*".to_owned() } else { segments.join("/") })
    };
    Some(format!("{mark}{scope}{text}{end}"))
}

/// Without trailing spaces, unless a backslash stands before one.
fn without_spaces(line: &str) -> &str {
    let kept = line.trim_end_matches(' ');
    let escapes = kept.len() - kept.trim_end_matches('\\').len();
    // An odd number of backslashes takes the first of the spaces.
    if escapes % 2 == 1 && kept.len() < line.len() { &line[..=kept.len()] } else { kept }
}

/// The segments in ripgrep's own spelling. `None` when git never matches the pattern.
fn segments(body: &str) -> Option<Vec<String>> {
    let characters: Vec<char> = body.chars().collect();
    let mut segments = vec![String::new()];
    // How many stars the segment consists of so far; none once something else is in it.
    let mut stars = Some(0);
    let mut at = 0;
    let close = |segments: &mut Vec<String>, stars: &mut Option<usize>| {
        if let Some(last) = segments.last_mut()
            && stars.is_some_and(|stars| stars > 1)
        {
            *last = "**".to_owned();
        }
        *stars = Some(0);
    };
    while let Some(character) = characters.get(at) {
        at += 1;
        let last = segments.last_mut()?;
        match character {
            '*' => {
                if !last.ends_with('*') || last.ends_with("\\*") {
                    last.push('*');
                }
                stars = stars.map(|stars| stars + 1);
                continue;
            }
            '\\' if characters.get(at) != Some(&'/') => {
                literal(*characters.get(at)?, last);
                at += 1;
            }
            '/' | '\\' => {
                at += usize::from(*character == '\\');
                close(&mut segments, &mut stars);
                segments.push(String::new());
                continue;
            }
            '?' => last.push('?'),
            '[' => {
                let (text, next) = class(&characters, at)?;
                last.push_str(&text);
                at = next;
            }
            other => literal(*other, last),
        }
        stars = None;
    }
    close(&mut segments, &mut stars);
    Some(segments)
}

/// A character that stands for itself. White space is put into a class, because ripgrep trims lines.
fn literal(character: char, into: &mut String) {
    if character.is_whitespace() {
        into.push('[');
        into.push(character);
        into.push(']');
        return;
    }
    if character.is_ascii_punctuation() && character != '/' {
        into.push('\\');
    }
    into.push(character);
}

/// The bracket expression whose `[` stands before `at`, member by member, and where it ends. `None` when git never matches it.
fn class(characters: &[char], mut at: usize) -> Option<(String, usize)> {
    let negated = matches!(characters.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let mut members: Vec<char> = Vec::new();
    let mut add = |character: char| {
        if !members.contains(&character) {
            members.push(character);
        }
    };
    let mut low: Option<char> = None;
    let mut first = true;
    loop {
        let character = *characters.get(at)?;
        at += 1;
        if character == ']' && !first {
            break;
        }
        first = false;
        match character {
            '\\' => {
                let escaped = *characters.get(at)?;
                at += 1;
                add(escaped);
                low = Some(escaped);
            }
            '-' if low.is_some() && characters.get(at).is_some_and(|next| *next != ']') => {
                let mut high = *characters.get(at)?;
                at += 1;
                if high == '\\' {
                    high = *characters.get(at)?;
                    at += 1;
                }
                (low.unwrap_or(high)..=high).for_each(&mut add);
                low = None;
            }
            '[' if characters.get(at) == Some(&':') => {
                let start = at + 1;
                let end = start + characters.get(start..)?.iter().position(|character| *character == ']')?;
                match end.checked_sub(1).filter(|colon| *colon >= start && characters[*colon] == ':') {
                    Some(colon) => {
                        let name: String = characters[start..colon].iter().collect();
                        let belongs = named(&name)?;
                        (0..128u8).filter(|byte| belongs(*byte)).for_each(|byte| add(char::from(byte)));
                        at = end + 1;
                        low = None;
                    }
                    None => {
                        add('[');
                        low = Some('[');
                    }
                }
            }
            other => {
                add(other);
                low = Some(other);
            }
        }
    }
    // A class never matches a slash, nor what ends a line of rules.
    members.retain(|character| !matches!(character, '/' | '\n' | '\r' | '\0'));
    Some((spelled(&members, negated)?, at))
}

fn named(name: &str) -> Option<fn(u8) -> bool> {
    Some(match name {
        "alnum" => |byte| byte.is_ascii_alphanumeric(),
        "alpha" => |byte| byte.is_ascii_alphabetic(),
        "blank" => |byte| matches!(byte, b' ' | b'\t'),
        "cntrl" => |byte| byte.is_ascii_control(),
        "digit" => |byte| byte.is_ascii_digit(),
        "graph" => |byte| byte.is_ascii_graphic(),
        "lower" => |byte| byte.is_ascii_lowercase(),
        "print" => |byte| byte.is_ascii_graphic() || byte == b' ',
        "punct" => |byte| byte.is_ascii_punctuation(),
        "space" => |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        "upper" => |byte| byte.is_ascii_uppercase(),
        "xdigit" => |byte| byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

/// The members as ripgrep reads a class: it knows no escapes there, so that some have to stand first or last.
fn spelled(members: &[char], negated: bool) -> Option<String> {
    if let (false, [single]) = (negated, members) {
        let mut text = String::new();
        literal(*single, &mut text);
        return Some(text);
    }
    if members.is_empty() {
        return negated.then(|| "?".to_owned());
    }
    let marks = |character: &char| matches!(character, '!' | '^');
    if !negated && members.iter().all(marks) {
        return Some("{\\!,\\^}".to_owned());
    }
    let mut text = String::from(if negated { "[!" } else { "[" });
    if members.contains(&']') {
        text.push(']');
    }
    let plain = |character: &char| !marks(character) && !matches!(character, ']' | '-');
    text.extend(members.iter().filter(|character| plain(character)));
    if !negated && members.contains(&'-') && text.len() == 1 {
        // Only marks beside it: it stands first then.
        text.push('-');
        text.extend(members.iter().filter(|character| marks(character)));
    } else {
        if negated {
            text.push('/');
        }
        text.extend(members.iter().filter(|character| marks(character)));
        if members.contains(&'-') {
            text.push('-');
        }
    }
    text.push(']');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let of = |line: &str| translated("", line.as_bytes());
        assert_eq!(of("*.log"), ["/**/*\\.log"]);
        assert_eq!(of("!/a/**/b/"), ["!/a/**/b/"]);
        assert_eq!(of("a\\ \r\nb  \n#c\n\\#d"), ["/**/a[ ]", "/**/b", "/**/\\#d"]);
        assert_eq!(of("{a}\t"), ["/**/\\{a\\}[\t]"]);
        assert_eq!(of("[a\na\\\n/\n!"), Vec::<String>::new());
        assert_eq!(of("[!a]*"), ["/**/[!a/]*"]);
        assert_eq!(of("[]a-]"), ["/**/[]a-]"]);
        assert_eq!(of("**"), ["/**/*"]);
        assert_eq!(of("a**b"), ["/**/a*b"]);
        assert_eq!(translated("s/a b", b"x"), ["/s/a[ ]b/**/x"]);
    }
}
