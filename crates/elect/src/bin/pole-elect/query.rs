//! What an operator asks: `watch`, `status`, `explain`, `resign`, `raise-epoch`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use pole_elect::store::Store;
use pole_elect::{Observer, admin};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::show;

pub(crate) async fn watch(store: Arc<dyn Store>, json: bool) -> Result<ExitCode, Failure> {
    let mut observer = Observer::new(store);
    let (mut failed, mut last) = (0, String::new());
    loop {
        match observer.next().await {
            Ok(observed) => {
                failed = 0;
                let line = if json { show::observed_json(&observed).to_string() } else { show::observed(&observed) };
                // The leader record also changes without a change of leadership, as when an operator raises the epoch.
                if line != last && !print(&format!("{line}\n")) {
                    return Ok(ExitCode::SUCCESS);
                }
                last = line;
            }
            Err(error) if failed == ATTEMPTS => return Err(Failure::store(error)),
            Err(_) => {
                failed += 1;
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

pub(crate) async fn status(store: &dyn Store, json: bool) -> Result<ExitCode, Failure> {
    let snapshot = admin::snapshot(store).await.map_err(Failure::store)?;
    let promises = store.promises();
    answer(json, || show::status_json(&snapshot, &promises), || show::status(&snapshot, &promises))
}

pub(crate) async fn explain(store: &dyn Store, json: bool) -> Result<ExitCode, Failure> {
    let snapshot = admin::snapshot(store).await.map_err(Failure::store)?;
    answer(json, || show::explain_json(&snapshot), || show::explain(&snapshot))
}

pub(crate) async fn resign(
    store: &dyn Store,
    to: Option<String>,
    limit: Duration,
    json: bool,
) -> Result<ExitCode, Failure> {
    let next = admin::resign(store, to.clone(), limit).await.map_err(Failure::admin)?;
    answer(
        json,
        || json!({"leader": next.id, "token": next.token}),
        || format!("{} leads with token {}.\n", next.id, next.token),
    )?;
    match to {
        Some(wanted) if wanted != next.id => {
            Err(Failure::failed(format!("{wanted} was to lead, and {} does; `explain` says why", next.id)))
        }
        Some(_) | None => Ok(ExitCode::SUCCESS),
    }
}

pub(crate) async fn raise_epoch(store: &dyn Store, to: u32, json: bool) -> Result<ExitCode, Failure> {
    let epoch = admin::raise_epoch(store, to).await.map_err(Failure::admin)?;
    answer(json, || json!({"epoch": epoch}), || format!("The next leader's token is of epoch {epoch}.\n"))
}

fn answer(json: bool, value: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result<ExitCode, Failure> {
    print(&if json { value().to_string() + "\n" } else { text() });
    Ok(ExitCode::SUCCESS)
}

/// Prints and flushes. False if nobody reads any more, which is no error.
fn print(text: &str) -> bool {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Attempts to reach a store that fails while it is watched.
const ATTEMPTS: u32 = 20;
const RETRY: Duration = Duration::from_millis(500);
