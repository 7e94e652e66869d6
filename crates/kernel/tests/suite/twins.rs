use std::os::unix::fs::symlink;

use crate::support::{Bench, reason};

#[tokio::test]
async fn a_deny_or_ask_that_names_a_link_gets_its_resolved_twin() {
    let bench = Bench::new();
    bench.put("secret/key", "k");
    std::fs::create_dir(bench.outside.join("keys")).unwrap();
    std::fs::write(bench.outside.join("keys/id"), "k").unwrap();
    symlink("secret", bench.root.join("link")).unwrap();
    symlink(bench.outside.join("keys"), bench.root.join("keys")).unwrap();
    symlink("secret/key", bench.root.join("file")).unwrap();
    let rules = [
        "allow fs:read:**",
        "allow fs:read:{ws}/link/**",
        "deny fs:read:{ws}/link/**",
        "ask fs:*:{ws}/keys/*",
        "deny *:{ws}/file",
        "deny fs:read:{ws}/plain/**",
        "deny fs:read:**",
        "deny proc:spawn:/ws/link",
        "allow fs:read:{ws}/secret/other",
    ];
    let store = bench.store(&rules).await;
    let listed: Vec<_> = store.rules().into_iter().map(|(rule, _)| rule).collect();
    let expected = [
        rules[0],
        rules[1],
        rules[2],
        "deny fs:read:{ws}/secret/**",
        rules[3],
        "ask fs:*:{out}/keys/*",
        rules[4],
        "deny fs:*:{ws}/secret/key",
        rules[5],
        rules[6],
        rules[7],
        rules[8],
    ];
    assert_eq!(listed, expected.map(|text| bench.rule(text)));
    assert_eq!(store.warnings().len(), 3, "{:?}", store.warnings());
    assert!(store.warnings()[0].contains("names a link"));
}

#[tokio::test]
async fn a_denied_link_denies_what_it_leads_to() {
    let bench = Bench::new();
    bench.put("secret/key", "k");
    symlink("secret", bench.root.join("link")).unwrap();
    for files in bench.both(&["allow fs:read:{ws}/**", "deny fs:read:{ws}/link/**"]).await {
        assert_eq!(reason(files.read("link/key", 9).await), "denied by policy");
        assert_eq!(reason(files.read("secret/key", 9).await), "denied by policy");
    }
}

#[tokio::test]
async fn a_rule_in_the_root_s_canonical_text_is_met() {
    let bench = Bench::new();
    bench.put("k/a", "k");
    let logical = bench.outside.join("logical");
    symlink(&bench.root, &logical).unwrap();
    let rules = ["allow fs:read:{out}/logical/**", "deny fs:read:{ws}/k/**"];
    let files = bench.files_at(&logical, &rules, Default::default()).await;
    assert_eq!(reason(files.read("k/a", 9).await), "denied by policy");
}

#[tokio::test]
async fn a_rule_that_does_not_resolve_is_told() {
    let bench = Bench::new();
    symlink("loop", bench.root.join("loop")).unwrap();
    let store = bench.store(&["deny fs:read:{ws}/loop/**"]).await;
    assert_eq!(store.rules().len(), 1);
    assert_eq!(store.warnings().len(), 1);
    assert!(store.warnings()[0].contains("does not resolve"), "{:?}", store.warnings());
}
