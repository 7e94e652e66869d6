//! `transcript show --html`, and the page in a browser.
#![allow(clippy::disallowed_methods)]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bench::Bench;
use crate::transcript::{HOSTILE, fixtures, hostile, pairs, prompt};

/// The names a Chromium has.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Runs Chromium headless on a page; what it printed and what it complained of. `None` where there is none.
fn browser(test: &str, folder: &Path, page: &Path, words: &[&str]) -> Option<(String, String)> {
    for name in BROWSERS {
        let profile = tempfile::tempdir_in(folder).unwrap();
        let run = Command::new("timeout")
            .args(["-k", "1", "60", name])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"])
            .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(words)
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        // 127: there is no such program.
        if run.status.code() == Some(127) {
            continue;
        }
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{said}");
        return Some((String::from_utf8(run.stdout).unwrap(), said));
    }
    let why = "no Chromium is installed (Debian package chromium)";
    println!("skipped: {test}: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test}: {why}");
    None
}

fn page(bench: &Bench, transcript: &Path) -> String {
    let answer =
        bench.run(&["transcript", "show", transcript.to_str().unwrap(), "--html", "page.html", "--json"]);
    assert_eq!(answer.is(0).json()["html"], "page.html");
    assert_eq!(
        std::fs::read_dir(bench.ws())
            .unwrap()
            .filter(|entry| { entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".new") })
            .count(),
        0,
        "nothing is left beside the page"
    );
    bench.read("page.html")
}

/// The tags of a page that the program itself wrote: what stands between `<` and `>`.
fn tags(page: &str) -> Vec<&str> {
    let (_, body) = page.split_once("</style>").unwrap();
    body.split('<').skip(1).map(|rest| rest.split_once('>').unwrap().0).collect()
}

#[test]
fn a_page_is_whole_and_asks_for_nothing() {
    let bench = Bench::new();
    for (path, expected) in pairs() {
        if expected["error"].is_object() {
            continue;
        }
        let page = page(&bench, &path);
        assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">") && page.ends_with("</html>\n"));
        assert!(page.contains("content=\"default-src 'none'; style-src 'sha256-"), "no policy");
        let mut open = Vec::new();
        let (mut ids, mut links, mut labels) = (std::collections::HashSet::new(), Vec::new(), Vec::new());
        for tag in tags(&page) {
            let name = tag.trim_start_matches('/').split_whitespace().next().unwrap();
            let known = [
                "a", "b", "bdi", "body", "code", "dd", "details", "div", "dl", "dt", "h1", "h2", "head",
                "header", "html", "li", "main", "nav", "ol", "p", "pre", "section", "span", "strong",
                "summary", "time", "ul",
            ];
            assert!(known.contains(&name), "{tag}");
            if tag.starts_with('/') {
                // What stands open before the body is not looked at.
                assert!(open.pop().is_none_or(|last| last == name), "{tag}");
            } else {
                open.push(name);
            }
            for attribute in tag.split('"').step_by(2) {
                assert!(!attribute.contains(" on") && !attribute.contains("src"), "{tag}");
            }
            let value = |attribute: &str| {
                let (_, rest) = tag.split_once(&format!(" {attribute}=\""))?;
                Some(rest.split_once('"').unwrap().0.to_owned())
            };
            if let Some(id) = value("id") {
                assert!(ids.insert(id.clone()), "the id {id} stands twice");
            }
            links.extend(value("href"));
            labels.extend(value("aria-labelledby"));
        }
        for link in links {
            assert!(ids.contains(link.strip_prefix('#').unwrap()), "{link} leads nowhere");
        }
        assert!(labels.iter().all(|label| ids.contains(label)));
        // Every entry has its place.
        let edits = |entry: &&serde_json::Value| entry["part"]["type"] != "edit";
        for entry in expected["entries"].as_array().unwrap().iter().filter(edits) {
            assert!(ids.contains(&format!("e{}", entry["seq"])), "{entry}");
        }
    }
}

#[test]
fn hostile_text_is_text_in_the_page() {
    let bench = Bench::new();
    bench.write("h.jsonl", &hostile(""));
    let page = page(&bench, Path::new("h.jsonl"));
    let (_, body) = page.split_once("</style>").unwrap();
    assert!(
        !body.contains("<script")
            && !body.contains("<img")
            && !body.contains("<svg")
            && !body.contains("</style")
    );
    assert!(body.contains("&lt;script&gt;") && body.contains("\\u{202e}") && body.contains("\\u{1b}[2J"));
    let live = |c: char| {
        c.is_control() && !"\n\t".contains(c)
            || ('\u{2028}'..='\u{202e}').contains(&c)
            || ('\u{2060}'..='\u{206f}').contains(&c)
    };
    assert!(!page.chars().any(live));
    assert!(!HOSTILE.is_empty());
}

#[test]
fn a_refused_transcript_has_a_page_up_to_there() {
    let bench = Bench::new();
    bench.write("p.jsonl", &format!("{}{{\"type\":\"<b>\"}}\n{}", prompt("first"), prompt("second")));
    let answer = bench.run(&["transcript", "show", "p.jsonl", "--html", "p.html"]);
    answer.is(1);
    let page = bench.read("p.html");
    assert!(page.contains("first") && page.contains("does not read: &lt;b&gt;") && !page.contains("second"));
    // A page that cannot be written leaves what was there.
    let answer = bench.run(&["transcript", "show", "p.jsonl", "--html", "no/p.html", "--json"]);
    assert_eq!(answer.is(1).code(), "engine_failed");
}

#[test]
fn the_browser_shows_it_under_its_policy() {
    let bench = Bench::new();
    let path = fixtures().join("live/codex-0.160.1/tour.jsonl");
    page(&bench, &path);
    let file = bench.ws().join("page.html");
    let Some((document, said)) =
        browser("the_browser_shows_it_under_its_policy", &bench.ws(), &file, &["--dump-dom"])
    else {
        return;
    };
    assert!(document.contains("class=\"turn\"") && document.contains("</html>"));
    // A style sheet that its digest does not name would be refused here.
    assert!(!said.contains("Content Security Policy"), "{said}");
    // With both schemes and on a narrow window it is a picture, not an empty one.
    for (name, words) in [
        ("dark.png", &["--window-size=1280,1000", "--blink-settings=preferredColorScheme=0"][..]),
        ("narrow.png", &["--window-size=500,1000"]),
    ] {
        let picture = bench.ws().join(name);
        let shot = format!("--screenshot={}", picture.display());
        let all: Vec<&str> = words.iter().copied().chain([&*shot]).collect();
        browser(name, &bench.ws(), &file, &all).unwrap();
        let bytes = std::fs::read(picture).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{name}: {} bytes", bytes.len());
    }
}

/// A server that counts requests and closes without an answer: a browser would wait for one for ever. A connection that asks
/// for nothing does not count: Chromium opens some ahead of a request that its policy then forbids.
fn server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                if std::io::Read::read(&mut stream, &mut [0; 64]).is_ok_and(|read| read > 0) {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    (url, count)
}

#[test]
fn no_script_runs_and_no_request_leaves() {
    let bench = Bench::new();
    let (url, count) = server();
    let attack = format!(
        "</pre></code></bdi></title><script>fetch('{url}');new Image().src='{url}';document.title='owned'</script>\
         <img src='{url}' onerror=\"document.title='owned'\"><link rel=stylesheet href='{url}'><iframe src='{url}'></iframe>\
         <form action='{url}'></form><base href='{url}'>![a]({url}) [b](javascript:alert(1))"
    );
    // The same in a page of nobody's: what the assertions below would see.
    let control = bench.write("control.html", &format!("<!doctype html><title>x</title><body>{attack}"));
    let name = "no_script_runs_and_no_request_leaves";
    let Some((document, _)) = browser(name, &bench.ws(), &control, &["--dump-dom"]) else { return };
    assert!(count.load(Ordering::SeqCst) > 0, "a page without a policy does ask: {document}");
    let (own, count) = server();
    let attack = attack.replace(&url, &own) + &format!("<meta http-equiv=refresh content='0;url={own}'>");
    bench.write("h.jsonl", &hostile(&attack));
    page(&bench, Path::new("h.jsonl"));
    let (document, _) = browser(name, &bench.ws(), &bench.ws().join("page.html"), &["--dump-dom"]).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 0, "a request left");
    for tag in ["<script", "<img", "<iframe", "<link", "<form", "<base", "<svg"] {
        assert!(!document.contains(tag), "{tag} is live");
    }
    assert!(!document.contains("<title>owned"), "a script ran");
    assert!(document.contains("&lt;script&gt;"));
    // And were it written into the page as it is, the policy alone would hold it.
    let page = bench.read("page.html").replace("</header>", &format!("</header>{attack}"));
    let page = page.replace("<meta http-equiv=refresh", "<meta name=refresh");
    bench.write("pierced.html", &page);
    let (document, said) =
        browser(name, &bench.ws(), &bench.ws().join("pierced.html"), &["--dump-dom"]).unwrap();
    assert!(document.contains("<script") && !document.contains("<title>owned"), "a script ran");
    assert!(said.contains("Content Security Policy"), "{said}");
    assert_eq!(count.load(Ordering::SeqCst), 0, "a request left");
}
