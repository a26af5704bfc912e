//! The alert rules and the dashboard of `deploy/` use only metrics and labels that servers export.

use std::collections::BTreeSet;
use std::path::Path;

use pole_client::{create, set_data};
use pole_jute::CreateMode;
use serde_json::Value;

use crate::test_server::TestServer;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/pole/files").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The expressions of the alert rules; each is on one line.
fn of_alerts() -> Vec<String> {
    let text = file("alerts.yaml");
    text.lines().filter_map(|line| line.trim().strip_prefix("expr: ").map(str::to_owned)).collect()
}

/// Every `expr` of the dashboard, wherever it stands.
fn of_dashboard() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    collect(&serde_json::from_str(&file("dashboard.json")).expect("the dashboard is JSON"), &mut found);
    found
}

/// The metrics of an expression, each with the labels that are asked of it. What stands in other parentheses after `by`
/// or `on` are labels of the scrape or of a metric before.
fn metrics(expression: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        rest = &rest[start..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if ["by", "on", "group_right", "group_left", "without", "ignoring"].contains(&word) {
            rest = after.split_once(')').map_or("", |(_, rest)| rest);
            continue;
        }
        if after.trim_start().starts_with('(') || ["and", "or", "unless", "max", "sum"].contains(&word) {
            continue;
        }
        let mut labels = Vec::new();
        if let Some((inside, after)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            labels.extend(inside.split(',').filter_map(|pair| pair.split(['=', '!']).next()).map(str::to_owned));
            rest = after;
        }
        if let Some((_, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            rest = after;
        }
        found.push((word.to_owned(), labels));
    }
    found
}

/// All metrics that three servers export, with their labels.
fn exported() -> BTreeSet<(String, Option<String>)> {
    let servers = TestServer::three("");
    servers.iter().for_each(TestServer::wait_until_serving);
    let mut session = servers[0].session();
    session.ask(create("/a", b"", CreateMode::Persistent)).expect("a node");
    session.ask(set_data("/a", b"1")).expect("a write");
    let mut names = BTreeSet::new();
    for server in &servers {
        let (_, page) = server.http("GET", "/metrics", "", "");
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap_or_default().to_owned();
            let labels =
                line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(labels, _)| labels);
            names.insert((name.clone(), None));
            let labels = labels.split(',').filter_map(|pair| pair.split_once('=')).map(|(label, _)| label.to_owned());
            names.extend(labels.map(|label| (name.clone(), Some(label))));
        }
    }
    names
}

#[test]
fn alerts_and_dashboard_use_what_servers_export() {
    let exported = exported();
    let expressions = [of_alerts(), of_dashboard()].concat();
    assert!(expressions.len() > 40, "{}", expressions.len());
    let mut unknown = Vec::new();
    for expression in &expressions {
        let metrics = metrics(expression);
        assert!(!metrics.is_empty(), "{expression}");
        for (name, labels) in metrics {
            // Prometheus itself knows whether it reached a server.
            if name != "up" && !exported.contains(&(name.clone(), None)) {
                unknown.push(format!("{name} in {expression}"));
            }
            for label in labels.iter().filter(|label| *label != "job") {
                if !exported.contains(&(name.clone(), Some(label.clone()))) {
                    unknown.push(format!("the label {label} of {name} in {expression}"));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "not exported:\n{}", unknown.join("\n"));
}

#[test]
fn every_alert_says_what_to_do() {
    let text = file("alerts.yaml");
    let alerts = text.matches("- alert: ").count();
    assert_eq!(alerts, of_alerts().len());
    for part in ["summary: ", "what_to_do: ", "severity: "] {
        assert_eq!(text.matches(part).count(), alerts, "{part}");
    }
}

#[test]
fn metrics_are_told_from_functions_and_labels() {
    let found =
        metrics(r#"max by (job) (a_b{job=~"$job",quantile="0.5"}) - on (job) group_right () rate(c_d[5m]) > 10"#);
    let expected = [("a_b", vec!["job", "quantile"]), ("c_d", vec![])];
    let owned = |(name, labels): &(&str, Vec<&str>)| {
        ((*name).to_owned(), labels.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(found, expected.iter().map(owned).collect::<Vec<_>>());
}
