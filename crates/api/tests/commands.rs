//! Checks that `docs/commands.schema.json` is the schema of what the command prints with `--json`.

use std::path::Path;

use pole_api::commands::{
    BackedUp, BackupChecked, BenchResult, ConfigurationChecked, Converted, DataChecked, Installed, MigrationChecked,
    Restored, TakenOver,
};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

#[test]
fn the_document_is_the_schema_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.schema.json");
    let current = format!("{:#}\n", schema());
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, current).expect("the document is written");
        return;
    }
    let written = std::fs::read_to_string(&path).expect("docs/commands.schema.json is there");
    assert_eq!(written, current, "write it again with UPDATE_GOLDENFILES=1");
}

fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let commands = json!({
        "pole check FILE": generator.subschema_for::<ConfigurationChecked>(),
        "pole check DIR": generator.subschema_for::<DataChecked>(),
        "pole check BACKUP": generator.subschema_for::<BackupChecked>(),
        "pole migrate check": generator.subschema_for::<MigrationChecked>(),
        "pole migrate take-over": generator.subschema_for::<TakenOver>(),
        "pole convert": generator.subschema_for::<Converted>(),
        "pole bench": generator.subschema_for::<BenchResult>(),
        "pole backup": generator.subschema_for::<BackedUp>(),
        "pole restore --admin": generator.subschema_for::<Restored>(),
        "pole restore --config": generator.subschema_for::<Installed>(),
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What the pole command prints with --json",
        "commands": commands,
        "$defs": generator.take_definitions(true),
    })
}
