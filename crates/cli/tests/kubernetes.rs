//! The manifests and the chart: rendered by Helm, valid for the API of Kubernetes, and pods with their variables are an
//! ensemble that is ready, alive and hands over before a stop. The rules are read by Prometheus' own tool.
//!
//! Tools that are not installed are named and their checks are skipped; `cargo xtask tools` installs them.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::deploy::{deploy, entrypoint, output, tool};
use common::{LIMIT, Running, Scratch, free_port, run};

/// The chart as a release with this name, or nothing without Helm.
fn rendered(release: &str, args: &[&str]) -> Option<String> {
    let mut helm = Command::new(tool("helm")?);
    // Without a cluster, a Helm that was built by `go install` takes an old release for granted.
    helm.args(["template", release, "--namespace", "zoo", "--kube-version", "1.35.0"]);
    helm.arg(deploy("helm/pole")).args(args);
    Some(output(&mut helm))
}

fn production() -> Vec<String> {
    vec!["--values".into(), deploy("helm/pole/values-production.yaml").display().to_string()]
}

/// Every value of the chart that changes what is rendered, in the other way than the default.
const OTHER_VALUES: &str = "
image: {repository: registry.example/pole, tag: test}
imagePullSecrets: [{name: pull}]
replicas: 1
site: {list: [north, south]}
settings: {snapCount: 1000000, globalOutstandingLimit: 50}
peerSecret: {enabled: false}
service: {type: LoadBalancer, clientPort: 12181, annotations: {a: b}}
persistence: {storageClassName: fast}
antiAffinity: preferred
spreadOver: ''
nodeSelector: {disk: ssd}
tolerations: [{key: zoo, operator: Exists}]
priorityClassName: high
podLabels: {team: a}
podAnnotations: {b: c}
networkPolicy: {enabled: false}
monitoring: {serviceMonitor: true, prometheusRule: true, dashboard: true, labels: {release: prometheus}}
";

#[test]
fn the_chart_is_valid_with_default_production_and_other_values() {
    let (Some(helm), Some(validate)) = (tool("helm"), tool("kubernetes-validate")) else { return };
    let scratch = Scratch::new("chart");
    let other = scratch.file("other.yaml", OTHER_VALUES);
    let production = production();
    let values: [&[&str]; 3] = [&[], &[&production[0], &production[1]], &["--values", &other]];
    for (number, args) in values.into_iter().enumerate() {
        output(Command::new(&helm).args(["lint", "--strict"]).arg(deploy("helm/pole")).args(args));
        let text = rendered("zk", args).expect("Helm is there");
        let file = scratch.file(&format!("rendered-{number}.yaml"), &without_custom_resources(&text));
        valid(&validate, &file);
        // Kinds of the Prometheus operator are not part of the API.
        let expected = if args.is_empty() { 0 } else { 2 };
        assert_eq!(text.matches("\napiVersion: monitoring.coreos.com/v1").count(), expected, "{text}");
    }
}

#[test]
fn the_manifests_are_valid() {
    let Some(validate) = tool("kubernetes-validate") else { return };
    valid(&validate, &deploy("kubernetes/pole.yaml").display().to_string());
    // A check that accepts everything would be none.
    let text = fs::read_to_string(deploy("kubernetes/pole.yaml")).unwrap();
    let scratch = Scratch::new("manifests");
    let wrong = scratch.file("wrong.yaml", &text.replace("podManagementPolicy: Parallel", "podManagement: Parallel"));
    assert!(!Command::new(&validate).args(["--strict", &wrong]).output().unwrap().status.success());
}

/// The oldest release that the chart is for, and the newest that the tool knows.
fn valid(validate: &Path, file: &str) {
    let chart = fs::read_to_string(deploy("helm/pole/Chart.yaml")).unwrap();
    let oldest = chart.split("kubeVersion: \">=").nth(1).and_then(|rest| rest.split(".0-0").next()).unwrap().to_owned();
    for version in [&["--kubernetes-version", &oldest][..], &[]] {
        output(Command::new(validate).args(["--strict"]).args(version).arg(file));
    }
}

fn without_custom_resources(text: &str) -> String {
    let documents = text.split("\n---\n").filter(|document| !document.contains("apiVersion: monitoring.coreos.com"));
    documents.collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn the_rules_are_read_by_prometheus_as_a_file_and_in_the_chart() {
    let Some(promtool) = tool("promtool") else { return };
    let rules = deploy("helm/pole/files/alerts.yaml");
    let said = output(Command::new(&promtool).args(["check", "rules"]).arg(&rules));
    let count = fs::read_to_string(&rules).unwrap().matches("- alert:").count();
    assert!(said.contains(&format!("{count} rules found")), "{said}");
    let production = production();
    let Some(text) = rendered("zk", &[&production[0], &production[1]]) else { return };
    // The operator passes the groups of the resource on.
    let rule = text.split("\n---\n").find(|document| document.contains("kind: PrometheusRule")).expect("a rule");
    let groups = rule.split_once("\nspec:\n").expect("its spec").1;
    let scratch = Scratch::new("rules");
    let file = scratch.file("rules.yaml", &groups.replace("\n  ", "\n"));
    let said = output(Command::new(&promtool).args(["check", "rules", &file]));
    assert!(said.contains(&format!("{count} rules found")), "{said}");
}

/// Alerts select servers by a job with this name, whatever the release is called.
#[test]
fn the_job_of_a_release_is_known_to_the_alerts() {
    let Some(text) = rendered("zk", &["--set", "monitoring.serviceMonitor=true"]) else { return };
    let job = text.split("targetLabel: job, replacement: ").nth(1).and_then(|rest| rest.split('}').next());
    assert!(job.is_some_and(|job| job.contains("pole") && job.contains("zk")), "{text}");
}

#[test]
fn pods_of_the_manifests_are_an_ensemble() {
    let text = fs::read_to_string(deploy("kubernetes/pole.yaml")).unwrap();
    are_an_ensemble("manifests", "pole", &text);
}

#[test]
fn pods_of_the_chart_are_an_ensemble() {
    let Some(text) = rendered("zk", &[]) else { return };
    are_an_ensemble("chart-default", "zk", &text);
}

#[test]
fn pods_of_the_chart_for_production_are_an_ensemble() {
    let production = production();
    let Some(text) = rendered("zk", &[&production[0], &production[1]]) else { return };
    are_an_ensemble("chart-production", "zk", &text);
}

/// Starts a process for each pod, with the variables of the rendered container. Names of pods, ports, and paths of volumes
/// are replaced by those of this machine.
fn are_an_ensemble(name: &str, release: &str, text: &str) {
    let set = text.split("\n---\n").find(|document| document.contains("kind: StatefulSet")).expect("a StatefulSet");
    let replicas: usize = after(set, "\n  replicas: ").parse().unwrap();
    let variables = variables(set);
    let value =
        |name: &str| variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).unwrap_or_default();
    let servers = value("ZOO_SERVERS");
    let listed: Vec<&str> = servers.split_whitespace().collect();
    assert_eq!(listed.len(), replicas, "{servers}");
    let ports: Vec<[u16; 4]> = (0..replicas).map(|_| [(); 4].map(|()| free_port())).collect();
    let local: Vec<String> = (0..replicas)
        .map(|pod| {
            let (id, host) = (pod + 1, format!("{release}-{pod}.{release}-servers"));
            assert!(listed[pod].starts_with(&format!("server.{id}={host}")), "{servers}");
            assert!(listed[pod].ends_with(":2888:3888;2181"), "{servers}");
            let [quorum, election, client, _] = ports[pod];
            format!("server.{id}=127.0.0.1:{quorum}:{election};127.0.0.1:{client}")
        })
        .collect();
    let secret = Scratch::new(&format!("{name}-secret"));
    let secret_file = secret.file("secret", "a secret of more than thirty-two characters\n");
    let folders: Vec<Scratch> = (0..replicas).map(|pod| Scratch::new(&format!("{name}-{pod}"))).collect();
    let start = |pod: usize| {
        let folder = &folders[pod];
        let extra = value("ZOO_CFG_EXTRA");
        assert!(extra.contains("quorumListenOnAllIPs=true") && extra.contains("/secrets/peer/secret"), "{extra}");
        let extra = extra.replace("quorumListenOnAllIPs=true", "").replace("/secrets/peer/secret", &secret_file);
        let mut all = variables.clone();
        all.retain(|(key, _)| key != "ZOO_DATA_LOG_DIR");
        let log = if value("ZOO_DATA_LOG_DIR") == "/data" { "data" } else { "datalog" };
        all.extend([
            ("HOSTNAME".into(), format!("{release}-{pod}")),
            ("ZOO_SERVERS".into(), local.join(" ")),
            ("ZOO_TICK_TIME".into(), "500".into()),
            ("ZOO_DATA_LOG_DIR".into(), folder.0.join(log).display().to_string()),
            ("ZOO_CFG_EXTRA".into(), format!("{extra} preAllocSize=64 admin.serverPort={}", ports[pod][3])),
            ("POLE_ADMIN_ADDRESS".into(), "127.0.0.1".into()),
            ("POLE_SITE".into(), "zone-a".into()),
        ]);
        let all: Vec<(&str, String)> = all.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        Running::reading_stderr_of(entrypoint(folder, &all, &["zkServer.sh", "start-foreground"]))
    };
    let running: Vec<Running> = (0..replicas).map(start).collect();
    running.iter().for_each(|server| drop(server.until(" serving ")));
    // What the probes ask.
    for (probe, path) in [("startupProbe", "/live"), ("livenessProbe", "/live"), ("readinessProbe", "/ready")] {
        let asked = after(set, &format!("{probe}:\n            httpGet: {{path: "));
        assert!(asked.starts_with(path), "{probe}: {asked}");
        ports.iter().for_each(|[.., admin]| assert_eq!(status(*admin, path), "200", "{probe}"));
    }
    // What is set for all pods has effect, once.
    let config = fs::read_to_string(folders[0].0.join("conf/zoo.cfg")).unwrap();
    let values: Vec<&str> = config.lines().filter(|line| line.starts_with("autopurge.purgeInterval=")).collect();
    assert_eq!(values, ["autopurge.purgeInterval=24"], "{config}");
    assert_eq!(fs::read_to_string(folders[replicas - 1].0.join("data/myid")).unwrap(), format!("{replicas}\n"));
    // The hook before a stop: the leader hands over.
    let hook: Vec<&str> = after(set, "command: [/usr/local/bin/pole, ").trim_end_matches(']').split(", ").collect();
    let leads = |pod: usize| {
        let (code, said, complaint) = run(&["status", "--json", "--admin", &admin(ports[pod][3])]);
        assert_eq!(code, 0, "{complaint}");
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        said["leader"].as_u64() == Some(pod as u64 + 1)
    };
    let leader = (0..replicas).find(|pod| leads(*pod)).expect("one leads");
    let (code, said, complaint) = run(&[&hook[..], &["--admin", &admin(ports[leader][3])]].concat());
    assert_eq!(code, 0, "{said}{complaint}");
    assert!(!leads(leader), "{said}");
}

fn admin(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// The status of the answer to a GET.
fn status(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: pod.zoo\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// The rest of the line after a text.
fn after<'a>(text: &'a str, mark: &str) -> &'a str {
    let rest = text.split_once(mark).unwrap_or_else(|| panic!("{mark:?} is not in\n{text}")).1;
    rest.lines().next().unwrap_or_default()
}

/// The variables of the container that have a value. There are three forms: `{name: A, value: B}` in a line, and two lines
/// of which the second has the value or, after `>-`, further lines.
fn variables(set: &str) -> Vec<(String, String)> {
    let block = set.split_once("          env:\n").expect("variables").1;
    let lines: Vec<&str> = block.lines().take_while(|line| line.starts_with("            ")).map(str::trim).collect();
    let plain = |text: &str| text.trim_matches('"').to_owned();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if let Some((name, value)) = line.strip_prefix("- {name: ").and_then(|rest| rest.split_once(", value: ")) {
            found.push((name.to_owned(), plain(value.strip_suffix('}').unwrap_or(value))));
        } else if let Some(name) = line.strip_prefix("- name: ") {
            match lines.get(number + 1).and_then(|next| next.strip_prefix("value: ")) {
                Some(">-") => {
                    let folded = lines[number + 2..].iter().take_while(|line| !line.starts_with("- "));
                    found.push((name.to_owned(), folded.copied().collect::<Vec<_>>().join(" ")));
                }
                Some(value) => found.push((name.to_owned(), plain(value))),
                None => {}
            }
        }
    }
    found
}

#[test]
fn a_grafana_dashboard_is_in_the_chart_as_it_is() {
    let production = production();
    let Some(text) = rendered("zk", &[&production[0], &production[1]]) else { return };
    let map = text.split("\n---\n").find(|document| document.contains("grafana_dashboard:")).expect("a ConfigMap");
    let data = map.split_once("pole.json: |-\n").expect("its data").1.replace("\n    ", "\n");
    let path: PathBuf = deploy("helm/pole/files/dashboard.json");
    let expected: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&data).unwrap(), expected);
}
