//! The unified diffs that a decoder makes itself (transcript contract 3.2 and 4.4).

/// A file that is all new (`+`) or all gone (`-`): *whole* of the contract. Empty for an empty file.
pub(crate) fn whole(content: &str, op: char) -> String {
    let count = lines(content).count();
    if count == 0 {
        return String::new();
    }
    let mut diff = String::with_capacity(content.len() + count + 32);
    diff.push_str(&match op {
        '-' => format!("@@ -1,{count} +0,0 @@\n"),
        _ => format!("@@ -0,0 +1,{count} @@\n"),
    });
    marked(&mut diff, content, op);
    diff
}

/// `old` replaced by `new`, as a hunk that starts at line 1 because the agent asks for no line.
pub(crate) fn replacement(old: &str, new: &str) -> String {
    let (removed, added) = (lines(old).count(), lines(new).count());
    if removed == 0 && added == 0 {
        return String::new();
    }
    let mut diff = String::with_capacity(old.len() + new.len() + removed + added + 32);
    diff.push_str(&format!("@@ -1,{removed} +1,{added} @@\n"));
    marked(&mut diff, old, '-');
    marked(&mut diff, new, '+');
    diff
}

fn marked(diff: &mut String, content: &str, op: char) {
    for line in lines(content) {
        diff.push(op);
        diff.push_str(line);
        diff.push('\n');
    }
}

/// The lines of `content`: one final newline dropped, the rest split at newlines; none when it is empty.
fn lines(content: &str) -> impl Iterator<Item = &str> {
    let body = content.strip_suffix('\n').unwrap_or(content);
    (!content.is_empty()).then(|| body.split('\n')).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::{replacement, whole};

    #[test]
    fn a_whole_file() {
        assert_eq!(whole("", '+'), "");
        assert_eq!(whole("x", '+'), "@@ -0,0 +1,1 @@\n+x\n");
        assert_eq!(whole("a\nb\n", '-'), "@@ -1,2 +0,0 @@\n-a\n-b\n");
        assert_eq!(whole("\n", '+'), "@@ -0,0 +1,1 @@\n+\n");
        assert_eq!(whole("\n\n", '+'), "@@ -0,0 +1,2 @@\n+\n+\n");
    }

    #[test]
    fn a_replacement() {
        assert_eq!(replacement("", ""), "");
        assert_eq!(replacement("", "x"), "@@ -1,0 +1,1 @@\n+x\n");
        assert_eq!(replacement("one\ntwo", "three\n"), "@@ -1,2 +1,1 @@\n-one\n-two\n+three\n");
        assert_eq!(replacement("c", ""), "@@ -1,1 +1,0 @@\n-c\n");
    }
}
