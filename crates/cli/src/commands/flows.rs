//! `flows`: the catalog of the standard flows.

use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::flows::decl::FlowDecl;
use flowcell_engines::harness::flows::descriptor::{FlowDescriptor, declaration_digest};
use flowcell_engines::harness::flows::effects::Effects;
use flowcell_engines::harness::flows::manifest::{Manifest, codes};
use serde_json::{Map, Value, json};

use super::Session;
use super::call::unknown_flow;
use crate::args::FlowsArgs;
use crate::catalog::calls;
use crate::errors::{Exit, Failure};
use crate::policy::Policy;
use crate::render::json_pretty;

pub(super) fn run(session: &mut Session<'_, '_>, args: &FlowsArgs) -> Result<Exit, Failure> {
    let context = session.context()?;
    let calls = calls(&context, &Policy::default(), &[])?;
    let manifest = Manifest::standard();
    let chosen: Vec<&FlowDecl> = match &args.name {
        None => manifest.flows().iter().collect(),
        Some(name) => vec![
            manifest
                .get(name)
                .ok_or_else(|| unknown_flow(name, manifest.flows().iter().map(|flow| flow.name)))?,
        ],
    };
    let (document, text) = if args.schema {
        let schemas =
            |flow: &FlowDecl| json!({"input": flow.input.document(), "output": flow.output.document()});
        let document = by_name(args, &chosen, schemas);
        let text = indented(&document)?;
        (document, text)
    } else if args.digest {
        let mut text = String::new();
        for flow in &chosen {
            let digest = digest(&calls, flow)?.unwrap_or_else(|| "-".to_owned());
            text.push_str(&if args.name.is_some() {
                format!("{digest}\n")
            } else {
                format!("{digest}  {}\n", flow.name)
            });
        }
        let mut digests = Map::new();
        for flow in &chosen {
            digests.insert(flow.name.to_owned(), digest(&calls, flow)?.map_or(Value::Null, Value::String));
        }
        (Value::Object(digests), text)
    } else if args.name.is_some() {
        let (mut document, mut text) = (Value::Null, String::new());
        for flow in &chosen {
            document = declaration(&calls, flow)?;
            text = declaration_text(&calls, flow)?;
        }
        (document, text)
    } else {
        let listed = chosen.iter().map(|flow| listed(&calls, flow)).collect();
        let text = chosen.iter().map(|flow| listed_line(&calls, flow)).collect();
        (Value::Array(listed), text)
    };
    session.print(&document, &text)?;
    Ok(Exit::Done)
}

/// The document of one flow when one is named, else an object from names to documents.
fn by_name(args: &FlowsArgs, chosen: &[&FlowDecl], document: impl Fn(&FlowDecl) -> Value) -> Value {
    match (&args.name, chosen) {
        (Some(_), [flow]) => document(flow),
        _ => Value::Object(chosen.iter().map(|flow| (flow.name.to_owned(), document(flow))).collect()),
    }
}

fn indented(document: &Value) -> Result<String, Failure> {
    json_pretty(document).map_err(|error| Failure::engine(error.to_string()))
}

fn has_handler(calls: &CellCalls, flow: &FlowDecl) -> bool {
    calls.catalog().get(flow.name).is_some()
}

/// The declaration digest: of the bound flow, or of the dynamic one, which has no handler anywhere. A flow whose handler
/// is not in this build has none here, for the handler's source is part of it.
fn digest(calls: &CellCalls, flow: &FlowDecl) -> Result<Option<String>, Failure> {
    if let Some(binding) = calls.catalog().get(flow.name) {
        return Ok(Some(binding.digest().to_owned()));
    }
    if Manifest::standard().handler_names().contains(&flow.name) {
        return Ok(None);
    }
    Ok(Some(declaration_digest(&FlowDescriptor::dynamic(flow))))
}

fn listed(calls: &CellCalls, flow: &FlowDecl) -> Value {
    json!({
        "name": flow.name,
        "description": flow.description,
        "tier": flow.effects.tier,
        "mode": flow.effects.mode,
        "capabilities": flow.capabilities,
        "handler": has_handler(calls, flow),
    })
}

fn listed_line(calls: &CellCalls, flow: &FlowDecl) -> String {
    let mark = if has_handler(calls, flow) { "handler" } else { "-" };
    format!("{:<14} {:<8} {:<13} {}\n", flow.name, mark, flow.effects.tier.as_str(), flow.description)
}

fn effects(effects: &Effects) -> Value {
    json!({
        "reads": effects.reads,
        "writes": effects.writes,
        "mode": effects.mode,
        "onConflict": effects.on_conflict,
        "tier": effects.tier,
    })
}

fn declaration(calls: &CellCalls, flow: &FlowDecl) -> Result<Value, Failure> {
    Ok(json!({
        "name": flow.name,
        "description": flow.description,
        "handler": has_handler(calls, flow),
        "digest": digest(calls, flow)?,
        "effects": effects(&flow.effects),
        "capabilities": flow.capabilities,
        "codes": codes(flow.name),
        "flows": flow.flows,
        "model": flow.model,
        "input": flow.input.document(),
        "output": flow.output.document(),
    }))
}

fn declaration_text(calls: &CellCalls, flow: &FlowDecl) -> Result<String, Failure> {
    let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let names: Vec<String> = codes(flow.name).iter().map(ToString::to_string).collect();
    let mut text = format!("{}: {}\n\n", flow.name, flow.description);
    let handler = if has_handler(calls, flow) { "in this build" } else { "none in this build" };
    let effects = &flow.effects;
    let rows = [
        ("handler", handler.to_owned()),
        ("digest", digest(calls, flow)?.unwrap_or_else(|| "-".to_owned())),
        ("tier", effects.tier.as_str().to_owned()),
        ("mode", plain(&effects.mode)?),
        ("on conflict", plain(&effects.on_conflict)?),
        ("reads", list(&effects.reads)),
        ("writes", list(&effects.writes)),
        ("capabilities", list(&flow.capabilities)),
        ("codes", list(&names)),
    ];
    for (name, value) in rows {
        text.push_str(&format!("{name:<13} {value}\n"));
    }
    if !flow.flows.is_empty() {
        text.push_str(&format!("{:<13} {}\n", "made of", flow.flows.join(", ")));
    }
    for (name, document) in [("input", flow.input.document()), ("output", flow.output.document())] {
        text.push_str(&format!("\n{name}\n{}\n", indented(document)?));
    }
    Ok(text)
}

/// The JSON name of a word.
fn plain(word: &impl serde::Serialize) -> Result<String, Failure> {
    match serde_json::to_value(word) {
        Ok(Value::String(text)) => Ok(text),
        Ok(other) => Ok(other.to_string()),
        Err(error) => Err(Failure::engine(error.to_string())),
    }
}
