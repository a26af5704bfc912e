//! Checks that `docs/api.schema.json` is the schema of the types.

use std::path::Path;

use pole_api::{
    Capabilities, ChangeMembers, ChooseOracle, Election, Ensemble, Health, Members, NodeView, OracleChosen,
    OracleInForce, Refusal, Scores, SetScore, Snapshot, Transfer, Transferred, UpChooseServer, UpCutSite, UpSetLink,
    UpSetLoad, UpState, WhatIfs,
};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

#[test]
fn the_document_is_the_schema_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.schema.json");
    let current = format!("{:#}\n", schema());
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, current).expect("the document is written");
        return;
    }
    let written = std::fs::read_to_string(&path).expect("docs/api.schema.json is there");
    assert_eq!(written, current, "write it again with UPDATE_GOLDENFILES=1");
}

/// For each page the schema of its answer and of its request, if it has a body.
fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let answer = |schema: schemars::Schema, request: Option<schemars::Schema>| match request {
        None => json!({ "answer": schema }),
        Some(request) => json!({ "request": request, "answer": schema }),
    };
    let pages = json!({
        "GET /v1/health": answer(generator.subschema_for::<Health>(), None),
        "GET /v1/ensemble": answer(generator.subschema_for::<Ensemble>(), None),
        "GET /v1/oracle": answer(generator.subschema_for::<OracleInForce>(), None),
        "GET /v1/scores": answer(generator.subschema_for::<Scores>(), None),
        "GET /v1/election": answer(generator.subschema_for::<Vec<Election>>(), None),
        "GET /v1/nodes": answer(generator.subschema_for::<NodeView>(), None),
        "GET /v1/events": { "events": {
            "capabilities": generator.subschema_for::<Capabilities>(),
            "snapshot": generator.subschema_for::<Snapshot>(),
            "elections": generator.subschema_for::<Vec<Election>>(),
            "up": generator.subschema_for::<UpState>(),
        } },
        "POST /v1/up/kill": { "request": generator.subschema_for::<UpChooseServer>() },
        "POST /v1/up/pause": { "request": generator.subschema_for::<UpChooseServer>() },
        "POST /v1/up/resume": { "request": generator.subschema_for::<UpChooseServer>() },
        "POST /v1/up/restart": { "request": generator.subschema_for::<UpChooseServer>() },
        "POST /v1/up/load": { "request": generator.subschema_for::<UpSetLoad>() },
        "POST /v1/up/link": { "request": generator.subschema_for::<UpSetLink>() },
        "POST /v1/up/cut": { "request": generator.subschema_for::<UpCutSite>() },
        "GET /v1/whatif": answer(generator.subschema_for::<WhatIfs>(), None),
        "PUT /v1/oracle": answer(
            generator.subschema_for::<OracleChosen>(),
            Some(generator.subschema_for::<ChooseOracle>()),
        ),
        "PUT /v1/score": { "request": generator.subschema_for::<SetScore>() },
        "POST /v1/transfer": answer(
            generator.subschema_for::<Transferred>(),
            Some(generator.subschema_for::<Transfer>()),
        ),
        "GET /v1/members": answer(generator.subschema_for::<Members>(), None),
        "PUT /v1/members": answer(
            generator.subschema_for::<Members>(),
            Some(generator.subschema_for::<ChangeMembers>()),
        ),
        "refusals": answer(generator.subschema_for::<Refusal>(), None),
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The admin port of Pole, version 1",
        "pages": pages,
        "$defs": generator.take_definitions(true),
    })
}
