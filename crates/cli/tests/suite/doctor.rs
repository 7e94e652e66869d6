//! `doctor`.

use serde_json::{Value, json};

use crate::bench::{Bench, keys};

fn checks(bench: &Bench, flags: &[&str]) -> Vec<Value> {
    let answer = bench.run(&[&["doctor", "--json"], flags].concat());
    let document = answer.json();
    assert_eq!(keys(&document), ["checks"]);
    let checks = document["checks"].as_array().unwrap().clone();
    for check in &checks {
        assert_eq!(keys(check), ["name", "status", "why"]);
        assert!(["ok", "degraded", "missing"].contains(&check["status"].as_str().unwrap()), "{check}");
        assert!(!check["why"].as_str().unwrap().is_empty(), "{check}");
    }
    let reads =
        checks.iter().any(|check| check["name"] == json!("policy") && check["status"] != json!("missing"));
    answer.is(i32::from(!reads));
    checks
}

fn check(bench: &Bench, flags: &[&str], name: &str) -> (String, String) {
    let checks = checks(bench, flags);
    let check = checks.iter().find(|check| check["name"] == json!(name)).unwrap();
    (check["status"].as_str().unwrap().into(), check["why"].as_str().unwrap().into())
}

#[test]
fn every_line_says_how_it_stands_and_why() {
    let bench = Bench::new();
    let names: Vec<String> =
        checks(&bench, &[]).iter().map(|check| check["name"].as_str().unwrap().to_owned()).collect();
    for name in [
        "data folder",
        "engine",
        "policy",
        "workspace trust",
        "realm",
        "openat2",
        "landlock",
        "seccomp",
        "mount namespace",
        "network namespace",
        "pid namespace",
        "supervisor",
        "git",
    ] {
        assert!(names.iter().any(|one| one == name), "{name} is missing in {names:?}");
    }
    assert!(!bench.ws().join(".flowcell").exists(), "looking makes nothing");
    assert_eq!(check(&bench, &[], "realm").0, "ok");
    let text = bench.run(&["doctor"]).is(0).out.clone();
    assert_eq!(text.lines().count(), names.len());
    bench.run(&["exec", "-e", "1"]).is(0);
    let (status, why) = check(&bench, &[], "engine");
    assert!(status == "ok" && why.contains("write-ahead log, 1 run"), "{status} {why}");
    let (status, why) = check(&bench, &[], "data folder");
    assert!(status == "ok" && why.ends_with("mode 0700"), "{status} {why}");
}

#[test]
fn what_is_wrong_is_said() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    bench.run(&["exec", "-e", "1"]).is(0);
    std::fs::set_permissions(bench.ws().join(".flowcell"), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(check(&bench, &[], "data folder").0, "degraded");
    std::fs::write(bench.database(), "x").unwrap();
    assert_eq!(check(&bench, &[], "engine").0, "missing");
    bench.write(".flowcell.toml", "attended = true\n");
    let (status, why) = check(&bench, &[], "workspace trust");
    assert!(status == "degraded" && why.contains("left out: attended"), "{status} {why}");
    bench.run(&["trust"]).is(0);
    assert_eq!(check(&bench, &[], "workspace trust").0, "ok");
    bench.write(
        "p.toml",
        "attended = true\n[search]\nprovider = \"exa\"\ncredential = \"K\"\n[host]\ncheckpoints = true\n",
    );
    let (status, why) = check(&bench, &["--policy", "p.toml"], "policy");
    assert_eq!(status, "degraded");
    assert!(why.contains("does nothing with search (p.toml)"), "{why}");
    bench.write("p.toml", "atended = true\n");
    let (status, why) = check(&bench, &["--policy", "p.toml"], "policy");
    assert!(status == "missing" && why.contains("atended"), "{status} {why}");
    let text = bench.run(&["doctor", "--policy", "p.toml"]);
    assert!(text.is(1).out.lines().count() > 9, "every line is printed: {}", text.out);
    assert_eq!(check(&bench, &[], "supervisor"), ("ok".into(), "tried, and it works".into()));
}
