//! The layer rule (architecture, Layers): a crate names only crates of the layer directly beneath its own.
//!
//! `[dev-dependencies]`, `xtask` and the `tests` member are outside the rule.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::cargo::Workspace;
use crate::metadata::{Dependency, Metadata, Package};
use crate::tally::Findings;

/// The layers, lowest first.
const LAYERS: [&[&str]; 6] = [
    &["flowcell-flows"],
    &["flowcell-kernel"],
    &["flowcell-host", "flowcell-egress", "flowcell-search", "flowcell-lsp", "flowcell-transcripts"],
    &["flowcell-harness"],
    &["flowcell-engines", "flowcell-engine-conformance", "flowcell-models", "flowcell-mcp"],
    &["flowcell"],
];

/// Members outside the rule.
const OUTSIDE: [&str; 2] = ["xtask", "flowcell-tests"];

/// Names no crate of ours at all.
const ALONE: [&str; 1] = ["flowcell-transcripts"];

/// The layer above which a crate forwards nothing: it is a test suite and names the harness as it is.
const FORWARDS_NOTHING: [&str; 1] = ["flowcell-engine-conformance"];

/// The crate of layer 2 that the harness always carries, because the kernel comes with it.
const CARRIED: &str = "flowcell-host";

/// The first crate of the upper half.
pub(crate) const HARNESS: &str = "flowcell-harness";

/// The layer of a crate of ours.
pub(crate) fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

/// Reads the manifests and checks them.
pub(crate) fn run(workspace: &Workspace) -> Result<Findings> {
    Ok(check(&workspace.members()?))
}

/// Every breach of the rule.
pub(crate) fn check(metadata: &Metadata) -> Findings {
    let mut findings = Findings::of("layers");
    let ours = metadata.ours();
    let names: BTreeSet<&str> = ours.iter().map(|package| package.name.as_str()).collect();
    let packages: BTreeMap<&str, &Package> =
        ours.iter().map(|package| (package.name.as_str(), *package)).collect();
    let mut edges = 0_usize;
    for package in &ours {
        if OUTSIDE.contains(&package.name.as_str()) {
            continue;
        }
        let Some(own) = layer(&package.name) else {
            findings.error(format!("{} is a member that no layer holds", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| dependency.reaches_users()) {
            if !names.contains(dependency.name.as_str()) {
                // A crate of ours from anywhere but this workspace would pass every other look.
                if layer(&dependency.name).is_some() {
                    findings.error(format!(
                        "{} names {} from outside the workspace",
                        package.name, dependency.name
                    ));
                }
                continue;
            }
            edges += 1;
            check_edge(package, own, dependency, &mut findings);
            if let Some(target) = packages.get(dependency.name.as_str()) {
                check_forwarding(package, dependency, target, &mut findings);
            }
        }
    }
    findings.summary = format!("{} crates, {edges} edges between them", names.len());
    findings
}

fn check_edge(package: &Package, own: usize, dependency: &Dependency, findings: &mut Findings) {
    let (from, to) = (&package.name, &dependency.name);
    let Some(other) = layer(to) else {
        findings.error(format!("{from} (layer {own}) names {to}, which is outside the layers"));
        return;
    };
    if ALONE.contains(&from.as_str()) {
        findings.error(format!("{from} names no other crate of this workspace, but it names {to}"));
        return;
    }
    if other + 1 != own {
        let direction = match other {
            _ if other == own => "sideways".to_owned(),
            _ if other > own => "upwards".to_owned(),
            _ => format!("past layer {}", own - 1),
        };
        findings.error(format!(
            "{from} (layer {own}) names {to} (layer {other}): {direction}; only layer {} may be named",
            own.checked_sub(1).map_or_else(|| "none".to_owned(), |below| below.to_string())
        ));
        return;
    }
    if from == HARNESS && to == CARRIED {
        if dependency.optional {
            findings.error(format!("{from} carries {to} always, so it is not optional"));
        }
        if dependency.uses_default_features {
            findings.error(format!("{from} names {to} with default-features = false"));
        }
    } else if from == HARNESS && !dependency.optional {
        findings.error(format!("{from} names {to} behind a feature only, so it is optional"));
    }
}

/// Features of the crate beneath are forwarded, under their own names.
fn check_forwarding(package: &Package, dependency: &Dependency, target: &Package, findings: &mut Findings) {
    let key = dependency.key();
    for (feature, members) in &package.features {
        for member in members {
            let Some((to, forwarded)) = member.split_once('/') else { continue };
            if to.trim_end_matches('?') != key || forwarded == "default" {
                continue;
            }
            if feature != forwarded {
                findings.error(format!(
                    "{}: feature {feature} forwards {forwarded} of {}; it is forwarded under the same name",
                    package.name, target.name
                ));
            }
        }
    }
    if FORWARDS_NOTHING.contains(&package.name.as_str()) {
        return;
    }
    for feature in target.features.keys() {
        // An optional dependency without a feature of its own shows as one; so does a private one.
        if feature == "default" || feature.starts_with('_') || is_implicit(target, feature) {
            continue;
        }
        let plain = format!("{key}/{feature}");
        let weak = format!("{key}?/{feature}");
        let forwards = package
            .features
            .get(feature)
            .is_some_and(|members| members.iter().any(|member| *member == plain || *member == weak));
        if !forwards && !dependency.features.contains(feature) {
            findings.error(format!(
                "{} does not forward the feature {feature} of {} under the same name",
                package.name, target.name
            ));
        }
    }
}

/// A feature that only an undeclared optional dependency makes.
fn is_implicit(package: &Package, feature: &str) -> bool {
    package.features.get(feature).is_some_and(|members| *members == [format!("dep:{feature}")])
        && package.dependencies.iter().any(|dependency| dependency.optional && dependency.key() == feature)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn dependency(name: &str) -> Value {
        json!({"name": name, "kind": null, "req": "^0.1.0", "optional": false, "uses_default_features": true,
               "features": [], "path": null, "rename": null})
    }

    fn package(name: &str, dependencies: &[Value]) -> Value {
        json!({"id": name, "name": name, "version": "0.1.0", "source": null, "license": "MIT", "rust_version": null,
               "publish": null, "dependencies": dependencies, "features": {}, "targets": []})
    }

    fn carried() -> Value {
        let mut host = dependency("flowcell-host");
        host["uses_default_features"] = json!(false);
        host
    }

    fn optional(name: &str) -> Value {
        let mut dependency = dependency(name);
        dependency["optional"] = json!(true);
        dependency
    }

    /// The workspace as it should be.
    fn sound() -> Vec<Value> {
        vec![
            package("flowcell-flows", &[dependency("serde")]),
            package("flowcell-kernel", &[dependency("flowcell-flows")]),
            package("flowcell-host", &[dependency("flowcell-kernel")]),
            package("flowcell-search", &[dependency("flowcell-kernel")]),
            package("flowcell-transcripts", &[]),
            package("flowcell-harness", &[carried(), optional("flowcell-search")]),
            package("flowcell-engines", &[dependency("flowcell-harness")]),
            package("flowcell-engine-conformance", &[dependency("flowcell-harness")]),
            package("flowcell", &[dependency("flowcell-engines")]),
            package("xtask", &[]),
            package("flowcell-tests", &[dependency("flowcell"), dependency("flowcell-flows")]),
        ]
    }

    fn findings(packages: &[Value]) -> Vec<String> {
        let members: Vec<&Value> = packages.iter().map(|package| &package["id"]).collect();
        let text = json!({"packages": packages, "workspace_members": members, "target_directory": "target"});
        check(&Metadata::parse(&text.to_string()).unwrap()).errors
    }

    /// The sound workspace with one more dependency.
    fn planted(from: &str, planted: Value) -> Vec<String> {
        let mut packages = sound();
        let package = packages.iter_mut().find(|package| package["name"] == from).unwrap();
        package["dependencies"].as_array_mut().unwrap().push(planted);
        findings(&packages)
    }

    #[test]
    fn a_sound_workspace_passes() {
        assert_eq!(findings(&sound()), Vec::<String>::new());
    }

    #[test]
    fn an_upward_edge_is_found() {
        assert_eq!(
            planted("flowcell-kernel", dependency("flowcell-harness")),
            [
                "flowcell-kernel (layer 1) names flowcell-harness (layer 3): upwards; only layer 0 may be named"
            ]
        );
    }

    #[test]
    fn a_sideways_edge_is_found() {
        assert_eq!(
            planted("flowcell-host", dependency("flowcell-search")),
            ["flowcell-host (layer 2) names flowcell-search (layer 2): sideways; only layer 1 may be named"]
        );
    }

    #[test]
    fn an_edge_past_a_layer_is_found() {
        assert_eq!(
            planted("flowcell-host", dependency("flowcell-flows")),
            [
                "flowcell-host (layer 2) names flowcell-flows (layer 0): past layer 1; only layer 1 may be named"
            ]
        );
    }

    #[test]
    fn a_build_dependency_counts_and_a_dev_dependency_does_not() {
        let mut build = dependency("flowcell-harness");
        build["kind"] = json!("build");
        assert_eq!(planted("flowcell-flows", build).len(), 1);
        let mut dev = dependency("flowcell-harness");
        dev["kind"] = json!("dev");
        assert_eq!(planted("flowcell-flows", dev), Vec::<String>::new());
    }

    #[test]
    fn a_renamed_dependency_is_still_found() {
        let mut renamed = dependency("flowcell-search");
        renamed["rename"] = json!("finder");
        assert_eq!(planted("flowcell-host", renamed).len(), 1);
    }

    #[test]
    fn the_decoders_stand_alone() {
        assert_eq!(
            planted("flowcell-transcripts", dependency("flowcell-kernel")),
            ["flowcell-transcripts names no other crate of this workspace, but it names flowcell-kernel"]
        );
    }

    #[test]
    fn a_member_without_a_layer_is_found() {
        let mut packages = sound();
        packages.push(package("flowcell-extra", &[]));
        assert_eq!(findings(&packages), ["flowcell-extra is a member that no layer holds"]);
    }

    #[test]
    fn the_harness_carries_the_host_and_nothing_else_by_itself() {
        let mut packages = sound();
        packages[5]["dependencies"] = json!([dependency("flowcell-host"), dependency("flowcell-search")]);
        assert_eq!(
            findings(&packages),
            [
                "flowcell-harness names flowcell-host with default-features = false",
                "flowcell-harness names flowcell-search behind a feature only, so it is optional"
            ]
        );
        packages[5]["dependencies"][0]["optional"] = json!(true);
        packages[5]["dependencies"][0]["uses_default_features"] = json!(false);
        packages[5]["dependencies"][1]["optional"] = json!(true);
        assert_eq!(
            findings(&packages),
            ["flowcell-harness carries flowcell-host always, so it is not optional"]
        );
    }

    #[test]
    fn a_crate_of_ours_from_a_registry_is_found() {
        let mut packages = sound();
        packages.remove(3);
        assert_eq!(
            findings(&packages),
            ["flowcell-harness names flowcell-search from outside the workspace"]
        );
    }

    #[test]
    fn features_are_forwarded_under_their_own_names() {
        let mut packages = sound();
        packages[5]["features"] = json!({"default": ["search"], "search": ["dep:flowcell-search"]});
        packages[6]["features"] = json!({"search": ["flowcell-harness/search"]});
        packages[8]["features"] = json!({"search": ["flowcell-engines/search"]});
        assert_eq!(findings(&packages), Vec::<String>::new());
        packages[8]["features"] = json!({"finder": ["flowcell-engines/search"]});
        assert_eq!(
            findings(&packages),
            [
                "flowcell: feature finder forwards search of flowcell-engines; it is forwarded under the same name",
                "flowcell does not forward the feature search of flowcell-engines under the same name"
            ]
        );
    }
}
