//! URLs as the kernel names them.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::{Class, classify};
use crate::flows::capability::{Action, Capability, MAX_RESOURCE_UNITS};

/// The longest host name, in bytes, and the longest label of one.
const MAX_HOST: usize = 253;
const MAX_LABEL: usize = 63;

/// Why a URL is refused before anything is asked. The text never repeats user information.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefused {
    /// It does not parse by the WHATWG rules.
    #[error("it is not an absolute URL: {0}")]
    Syntax(String),
    /// Its scheme is neither `http` nor `https`.
    #[error("its scheme is {0}, and only http and https are reached")]
    Scheme(String),
    /// It carries a user name or a password.
    #[error("it carries user information")]
    UserInformation,
    /// It names port 0.
    #[error("port 0 cannot be reached")]
    Port,
    /// Its host is empty, or longer than names may be.
    #[error("its host is not a name that can be resolved")]
    Host,
    /// Its capability would be longer than a resource may be.
    #[error("it is longer than a capability may be")]
    TooLong,
}

/// Scheme, host and port of an accepted URL, spelled in the one way that rules are compared with.
///
/// ```
/// use flowcell_kernel::flows::capability::Action;
/// use flowcell_kernel::net::accept;
/// # fn main() -> Result<(), flowcell_kernel::net::UrlRefused> {
/// let origin = accept("https://Example.com:443/x")?;
/// assert_eq!(origin.capability(Action::NetGet).to_string(), "net:get:example.com");
/// let origin = accept("http://2130706433:8080/")?;
/// assert_eq!(origin.private().to_string(), "net:private:http://127.0.0.1:8080");
/// assert!(origin.is_local());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    https: bool,
    host: Host<String>,
    port: Option<u16>,
}

/// Accepts a URL, or says why not (kernel contract 6.3, egress contract 3). The host is the parser's: lower case, IDNA,
/// numbers read as addresses, one trailing dot dropped.
///
/// # Errors
/// See [`UrlRefused`].
pub fn accept(text: &str) -> Result<Origin, UrlRefused> {
    let url = Url::parse(text).map_err(|error| UrlRefused::Syntax(error.to_string()))?;
    let https = match url.scheme() {
        "https" => true,
        "http" => false,
        other => return Err(UrlRefused::Scheme(other.to_owned())),
    };
    if !url.username().is_empty() || url.password().is_some_and(|password| !password.is_empty()) {
        return Err(UrlRefused::UserInformation);
    }
    if url.port() == Some(0) {
        return Err(UrlRefused::Port);
    }
    let host = match url.host().ok_or(UrlRefused::Host)? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            let labels = |name: &str| name.split('.').all(|label| (1..=MAX_LABEL).contains(&label.len()));
            if name.len() > MAX_HOST || !labels(name) {
                return Err(UrlRefused::Host);
            }
            Host::Domain(name.to_owned())
        }
        Host::Ipv4(address) => Host::Ipv4(address),
        Host::Ipv6(address) => Host::Ipv6(address),
    };
    let origin = Origin { https, host, port: url.port() };
    if origin.to_string().encode_utf16().count() > MAX_RESOURCE_UNITS {
        return Err(UrlRefused::TooLong);
    }
    Ok(origin)
}

impl Origin {
    /// The host: a name, or an address, IPv6 in brackets.
    pub fn host(&self) -> String {
        self.host.to_string()
    }

    /// The port that is connected to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.https { 443 } else { 80 })
    }

    /// The address, when the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some((*address).into()),
            Host::Ipv6(address) => Some((*address).into()),
        }
    }

    /// Whether the host is `localhost` or a name below it. Other names are judged by the addresses they resolve to.
    pub fn is_localhost_name(&self) -> bool {
        matches!(&self.host, Host::Domain(name) if name == "localhost" || name.ends_with(".localhost"))
    }

    /// Whether the host, as far as it can be said without resolving a name, needs `net:private`.
    pub fn is_local(&self) -> bool {
        self.is_localhost_name() || self.address().is_some_and(|address| classify(address) != Class::Public)
    }

    /// What a request to it asks under an action: `https` is implied, `http` is written.
    pub fn capability(&self, action: Action) -> Capability {
        let origin = self.to_string();
        let resource = if self.https { origin.trim_start_matches("https://") } else { origin.as_str() };
        self.named(action, resource)
    }

    /// What a request to it asks besides, when it is not public.
    pub fn private(&self) -> Capability {
        self.named(Action::NetPrivate, &self.to_string())
    }

    fn named(&self, action: Action, resource: &str) -> Capability {
        // `accept` has bounded the text.
        Capability::new(action, resource).unwrap_or_else(|| unreachable!("an origin is bounded"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.https { "https" } else { "http" }, self.host)?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_one_spelling() {
        for (url, get, private) in [
            ("https://Example.com:443/x", "net:get:example.com", "net:private:https://example.com"),
            ("https://h:8443", "net:get:h:8443", "net:private:https://h:8443"),
            ("http://Example.com/x", "net:get:http://example.com", "net:private:http://example.com"),
            ("http://example.com.:80/", "net:get:http://example.com", "net:private:http://example.com"),
            ("http://0x7f.1:8080/", "net:get:http://127.0.0.1:8080", "net:private:http://127.0.0.1:8080"),
            ("http://2130706433/", "net:get:http://127.0.0.1", "net:private:http://127.0.0.1"),
            ("http://１２７.0.0.1/", "net:get:http://127.0.0.1", "net:private:http://127.0.0.1"),
            (
                "https://[2606:4700:4700:0::1111]/",
                "net:get:[2606:4700:4700::1111]",
                "net:private:https://[2606:4700:4700::1111]",
            ),
            ("http://münchen.de", "net:get:http://xn--mnchen-3ya.de", "net:private:http://xn--mnchen-3ya.de"),
            (" ht\ntp://a%62c/ ", "net:get:http://abc", "net:private:http://abc"),
        ] {
            let origin = accept(url).unwrap();
            assert_eq!(origin.capability(Action::NetGet).to_string(), get, "{url}");
            assert_eq!(origin.private().to_string(), private, "{url}");
        }
    }

    #[test]
    fn what_cannot_be_reached_is_refused_first() {
        let label = format!("https://{}.x", "a".repeat(64));
        let name = format!("https://{}", ["abcdefgh"; 29].join("."));
        for (url, refused) in [
            ("ftp://h/", UrlRefused::Scheme("ftp".into())),
            ("file:///etc/passwd", UrlRefused::Scheme("file".into())),
            ("https://u@h/", UrlRefused::UserInformation),
            ("https://u:p@h/", UrlRefused::UserInformation),
            ("https://:p@h/", UrlRefused::UserInformation),
            ("http://h:0/", UrlRefused::Port),
            ("http://h../", UrlRefused::Host),
            (&label, UrlRefused::Host),
            (&name, UrlRefused::Host),
        ] {
            assert_eq!(accept(url), Err(refused), "{url}");
        }
        for url in ["", "/x", "h", "http://", "http://1.2.3.256/", "http://[fe80::1%25eth0]/", "http://a b/"]
        {
            assert!(matches!(accept(url), Err(UrlRefused::Syntax(_))), "{url}");
        }
        let secret = accept("https://user:hunter2@/").unwrap_err().to_string();
        assert!(!secret.contains("hunter2"));
    }

    #[test]
    fn local_names_are_known_without_resolving() {
        for (url, local) in [
            ("http://localhost/", true),
            ("http://LOCALHOST./", true),
            ("http://a.localhost/", true),
            ("http://localhost.localdomain/", false),
            ("http://127.0.0.1.nip.io/", false),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://[::1]/", true),
            ("http://10.1.1.1/", true),
            ("https://8.8.8.8/", false),
            ("http://notlocalhost/", false),
        ] {
            assert_eq!(accept(url).unwrap().is_local(), local, "{url}");
        }
    }
}
