//! Which variables look like credentials.

/// The parts of a name, letters folded, that make it one; `?` stands for an optional `-` or `_`.
const PARTS: [&str; 17] = [
    "authorization",
    "api?key",
    "access?token",
    "refresh?token",
    "id?token",
    "auth?token",
    "api?token",
    "session?token",
    "bearer",
    "secret",
    "credential",
    "password",
    "passphrase",
    "passwd",
    "signature",
    "cookie",
    "chatgpt?account?id",
];

/// What makes a name a credential at its end, at its start or after a `-` or `_`.
const ENDS: [&str; 5] = ["token", "key", "key-id", "key_id", "pat"];

/// Whether a variable's name looks like that of a credential: the list of kernel contract 6.2, letters of either case.
///
/// ```
/// use flowcell_kernel::process::is_credential_name;
/// assert!(is_credential_name("AWS_SECRET_ACCESS_KEY") && is_credential_name("GH_TOKEN"));
/// assert!(!is_credential_name("PATH") && !is_credential_name("MONKEY"));
/// ```
pub fn is_credential_name(name: &str) -> bool {
    // `x-amz-signature` and `set-cookie` of the list hold `signature` and `cookie`. Of the letters outside ASCII two
    // fold into it, and the list's expression folds them too: U+212A to k, U+017F to s.
    let name: String = name
        .chars()
        .map(|c| match c {
            '\u{212a}' => 'k',
            '\u{17f}' => 's',
            c => c.to_ascii_lowercase(),
        })
        .collect();
    let name = name.as_bytes();
    let starts = || (0..=name.len()).map(|at| (at, name.get(at..).unwrap_or_default()));
    starts().any(|(_, rest)| PARTS.iter().any(|part| rest_after(rest, part.as_bytes()).is_some()))
        || starts()
            .filter(|(at, _)| at.checked_sub(1).is_none_or(|before| is_separator(name.get(before))))
            .any(|(_, rest)| ENDS.iter().any(|end| rest_after(rest, end.as_bytes()) == Some(b"")))
}

/// What follows `part` at the start of `rest`. An optional separator is taken where there is one: no part goes on with one.
fn rest_after<'a>(mut rest: &'a [u8], part: &[u8]) -> Option<&'a [u8]> {
    for wanted in part {
        match (wanted, rest) {
            (b'?', [first, after @ ..]) if is_separator(Some(first)) => rest = after,
            (b'?', _) => {}
            (wanted, [first, after @ ..]) if first == wanted => rest = after,
            _ => return None,
        }
    }
    Some(rest)
}

fn is_separator(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_alternative_is_met() {
        for name in [
            "authorization",
            "HTTP_AUTHORIZATION_X",
            "apikey",
            "api-key",
            "API_KEY",
            "OPENAI_API_KEY",
            "accesstoken",
            "ACCESS_TOKEN_1",
            "refresh-token",
            "refreshtokens",
            "ID_TOKEN",
            "idtoken",
            "VALIDTOKEN",
            "auth_token",
            "authtoken2",
            "API-TOKEN",
            "apitokens",
            "session_token",
            "sessiontokenx",
            "Bearer",
            "xbearerx",
            "TOKEN",
            "GH_TOKEN",
            "a-token",
            "KEY",
            "SSH_KEY",
            "a-key",
            "KEY_ID",
            "AWS_ACCESS_KEY_ID",
            "key-id",
            "PAT",
            "AZURE_PAT",
            "x-pat",
            "CLIENT_SECRET_X",
            "secret",
            "credentials",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "PGPASSWORD",
            "passphrase",
            "PASSWD_FILE",
            "signature",
            "x-amz-signature",
            "X-Amz-Signature-2",
            "cookie",
            "Set-Cookie",
            "setcookie",
            "COOKIES",
            "chatgptaccountid",
            "CHATGPT_ACCOUNT_ID",
            "chatgpt-accountid",
            "A_\u{212a}EY",
            "pa\u{17f}\u{17f}word",
        ] {
            assert!(is_credential_name(name), "{name}");
        }
    }

    #[test]
    fn near_misses_are_not() {
        for name in [
            "",
            "PATH",
            "HOME",
            "MONKEY",
            "KEYS",
            "KEY_IDS",
            "TOKENS",
            "TOKENIZER",
            "MYTOKEN",
            "xtoken",
            "PATX",
            "COMPAT",
            "SPAT",
            "api__keys",
            "access--tokens",
            "AUTHOR",
            "COOKI",
            "pass_word",
            "sec-ret",
            "chatgpt_account__id",
            "key__id",
            "KEYBOARD",
            "keyid",
            "AWS_KEYID",
            "LC_ALL",
            "FOO",
            "DONKEY_ID",
            "signatur",
            "auth",
            "é_kéy",
        ] {
            assert!(!is_credential_name(name), "{name}");
        }
    }
}
