//! What the words of a `user` record are (transcript contract 4.1, the table).

use crate::Part;

/// The entry the words make; none for no words and for what a local command wrote.
pub(super) fn part(words: String) -> Option<Part> {
    let wrote = ["<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>"];
    if words.is_empty() || wrote.iter().any(|tag| words.starts_with(tag)) {
        return None;
    }
    if is_interruption(&words) {
        return Some(Part::Error { message: words });
    }
    let text = command(&words).or_else(|| shell(&words)).unwrap_or(words);
    Some(Part::Prompt { text })
}

/// Exactly `[Request interrupted by user…]`, without `]` inside.
fn is_interruption(words: &str) -> bool {
    let inside = words.strip_prefix("[Request interrupted by user").and_then(|rest| rest.strip_suffix(']'));
    inside.is_some_and(|inside| !inside.contains(']'))
}

/// A slash command: its name, and what was written behind it.
fn command(words: &str) -> Option<String> {
    if !words.starts_with("<command-name>") && !words.starts_with("<command-message>") {
        return None;
    }
    let open = "<command-name>";
    let name = words.match_indices(open).find_map(|(at, _)| {
        let rest = words.get(at + open.len()..)?;
        let (name, close) = rest.split_at(rest.find('<')?);
        close.starts_with("</command-name>").then_some(name)
    })?;
    let arguments = between(words, "<command-args>", "</command-args>").map_or("", str::trim);
    Some(if arguments.is_empty() { name.to_owned() } else { format!("{name} {arguments}") })
}

/// A shell command of the owner.
fn shell(words: &str) -> Option<String> {
    let command = words.strip_prefix("<bash-input>")?.strip_suffix("</bash-input>")?;
    Some(format!("!{}", command.trim()))
}

/// What is between the first `open` and the first `close` behind it.
fn between<'a>(words: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = words.split_once(open)?;
    Some(rest.split_once(close)?.0)
}

#[cfg(test)]
mod tests {
    use super::part;
    use crate::Part;

    #[test]
    fn what_words_are() {
        let prompt = |text: &str| Some(Part::Prompt { text: text.to_owned() });
        let error = |text: &str| Some(Part::Error { message: text.to_owned() });
        for (words, expected) in [
            ("", None),
            ("hello", prompt("hello")),
            ("[Request interrupted by user]", error("[Request interrupted by user]")),
            (
                "[Request interrupted by user for tool use]",
                error("[Request interrupted by user for tool use]"),
            ),
            ("[Request interrupted by user] ]", prompt("[Request interrupted by user] ]")),
            (" [Request interrupted by user]", prompt(" [Request interrupted by user]")),
            ("<local-command-stdout>x", None),
            ("<local-command-stderr>x", None),
            ("<bash-stdout>x", None),
            ("<bash-stderr>x", None),
            ("see <bash-stdout>x", prompt("see <bash-stdout>x")),
            ("<command-name>/a</command-name>", prompt("/a")),
            ("<command-name>/a</command-name><command-args> </command-args>", prompt("/a")),
            ("<command-name>/a</command-name>\n<command-args> b c </command-args>", prompt("/a b c")),
            ("<command-message>m</command-message><command-name>/a</command-name>", prompt("/a")),
            ("<command-message>m</command-message>", prompt("<command-message>m</command-message>")),
            ("<command-name>/a<b></command-name>", prompt("<command-name>/a<b></command-name>")),
            ("<command-name>x<command-name>/a</command-name>", prompt("/a")),
            ("say <command-name>/a</command-name>", prompt("say <command-name>/a</command-name>")),
            ("<bash-input> ls </bash-input>", prompt("!ls")),
            ("<bash-input> ls </bash-input> ", prompt("<bash-input> ls </bash-input> ")),
        ] {
            assert_eq!(part(words.to_owned()), expected, "{words}");
        }
    }
}
