//! Checks that `docs/openapi.json` describes the pages of the admin port with the types of this crate.

use std::path::Path;

use pole_api::{
    ChangeMembers, ChooseOracle, Election, Ensemble, Health, Members, NodeView, OracleChosen, OracleInForce, Refusal,
    Scores, SetScore, Transfer, Transferred, UpChooseServer, UpCutSite, UpSetLink, UpSetLoad, WhatIfs,
};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

#[test]
fn the_document_describes_the_pages() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let current = format!("{:#}\n", document());
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, current).expect("the document is written");
        return;
    }
    let written = std::fs::read_to_string(&path).expect("docs/openapi.json is there");
    assert_eq!(written, current, "write it again with UPDATE_GOLDENFILES=1");
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut pages = Pages { generator: settings.into_generator(), paths: Map::new() };
    pages.add_reads();
    pages.add_changes();
    pages.add_up();
    let schemas = pages.generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "The admin port of Pole",
            "version": "1",
            "description": "Ids of servers are numbers, zxids are hexadecimal texts, durations are milliseconds. \
                            docs/admin.md says who may do what.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": pages.paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "pole.admin.token, from another machine" },
            },
        },
    })
}

struct Pages {
    generator: SchemaGenerator,
    paths: Map<String, Value>,
}

/// A parameter in the address: its name, its type, and what it means.
type Param = (&'static str, &'static str, &'static str);

impl Pages {
    fn add_reads(&mut self) {
        let answer = self.answer::<Health>("The state of the server, which has a quorum");
        let without = self.answer::<Health>("The same without a quorum");
        self.add("get", "/v1/health", "The state of this server", &[], None, json!({ "200": answer, "503": without }));
        self.read::<Ensemble>("/v1/ensemble", "All servers, as far as this one knows them", &[]);
        self.read::<OracleInForce>("/v1/oracle", "The active oracle", &[]);
        self.read::<Members>("/v1/members", "The members of the ensemble with their addresses", &[]);
        let kind = ("kind", "string", "`before-resignation` (the default) or `after-crash`");
        self.read::<Scores>("/v1/scores", "How well each server would lead, by every oracle", &[kind]);
        let last = ("last", "integer", "The number of elections at most");
        self.read::<Vec<Election>>("/v1/election", "The last elections and hand-overs, newest first", &[last]);
        self.read::<WhatIfs>("/v1/whatif", "What would make another server the best leader", &[]);
        let params = [
            ("path", "string", "The path of the node; `/` if not given"),
            ("after", "string", "Show children after this name"),
            ("limit", "integer", "Children to show, from 1 to 1,000; 200 if not given"),
        ];
        self.read::<NodeView>("/v1/nodes", "A node with a part of its children", &params);
        let text = |description: &str| json!({ "description": description, "content": { "text/plain": {} } });
        let events = json!({ "description": "Events `capabilities`, `snapshot` and `elections`; their data is in \
                              docs/api.schema.json", "content": { "text/event-stream": {} } });
        self.add("get", "/v1/events", "What the dashboard shows, as it changes", &[], None, json!({ "200": events }));
        self.add("get", "/live", "Whether the process runs", &[], None, json!({ "200": text("It does") }));
        let ready = json!({ "200": text("It is"), "503": text("It is not, and why") });
        self.add("get", "/ready", "Whether clients are served, with a quorum", &[], None, ready);
    }

    fn add_changes(&mut self) {
        let chosen = self.answer::<OracleChosen>("The choice is committed");
        self.change::<ChooseOracle>("put", "/v1/oracle", "Choose the oracle of the whole ensemble", "200", chosen);
        let set = json!({ "description": "The score is set" });
        self.change::<SetScore>("put", "/v1/score", "Set the score of a probe for this server", "204", set);
        let transferred = self.answer::<Transferred>("Another server leads");
        self.change::<Transfer>("post", "/v1/transfer", "Hand leadership over", "200", transferred);
        let members = self.answer::<Members>("The change is committed");
        self.change::<ChangeMembers>("put", "/v1/members", "Change the members of the ensemble", "200", members);
    }

    /// What `pole up` adds.
    fn add_up(&mut self) {
        let done = json!({ "description": "It is done" });
        for action in ["kill", "pause", "resume", "restart"] {
            let summary = format!("`pole up` only: {action} a server");
            self.change::<UpChooseServer>("post", &format!("/v1/up/{action}"), &summary, "204", done.clone());
        }
        self.change::<UpSetLoad>("post", "/v1/up/load", "`pole up` only: replace the load", "204", done.clone());
        self.change::<UpSetLink>("post", "/v1/up/link", "`pole up` only: change a round trip", "204", done.clone());
        self.change::<UpCutSite>("post", "/v1/up/cut", "`pole up` only: cut a site off, or reconnect it", "204", done);
    }

    fn read<T: JsonSchema>(&mut self, path: &str, summary: &str, params: &[Param]) {
        let answer = self.answer::<T>("The answer");
        let refused = self.answer::<Refusal>("Why there is no answer");
        self.add("get", path, summary, params, None, json!({ "200": answer, "default": refused }));
    }

    fn change<T: JsonSchema>(&mut self, method: &str, path: &str, summary: &str, status: &str, answer: Value) {
        let body = self.generator.subschema_for::<T>();
        let refused = self.answer::<Refusal>("Why nothing was changed");
        self.add(method, path, summary, &[], Some(body), json!({ status: answer, "default": refused }));
    }

    fn answer<T: JsonSchema>(&mut self, description: &str) -> Value {
        let schema = self.generator.subschema_for::<T>();
        json!({ "description": description, "content": { "application/json": { "schema": schema } } })
    }

    fn add(&mut self, method: &str, path: &str, summary: &str, params: &[Param], body: Option<Schema>, answers: Value) {
        let param = |(name, kind, description): &Param| json!({ "name": name, "in": "query", "description": description, "schema": { "type": kind } });
        let mut operation = json!({ "summary": summary, "responses": answers });
        if !params.is_empty() {
            operation["parameters"] = params.iter().map(param).collect();
        }
        if let Some(schema) = body {
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": schema } } });
            operation["security"] = json!([{}, { "token": [] }]);
        }
        let page = self.paths.entry(path).or_insert_with(|| json!({}));
        page[method] = operation;
    }
}
