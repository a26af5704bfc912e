//! Questions and wishes to the admin port of a running server.
//!
//! In: addresses, of which the first that can help is asked. Out: its answer, as text or typed, or a failure with the
//! exit code of its kind.
//! Not here: HTTP (`http`), how answers look to people (`show`).

use std::marker::PhantomData;
use std::time::Duration;

use pole_oracle::Spec;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::args::{AdminArgs, Ms, Param};
use crate::failure::{Failure, Kind};
use crate::http::{Answer, Request, Url};
use crate::shapes::{Election, Ensemble, Health, OracleSet, Refusal, Scores, Transferred};

/// Servers to ask.
pub(crate) struct Admin {
    urls: Vec<String>,
    token: Option<String>,
}

impl Admin {
    pub(crate) fn new(args: &AdminArgs) -> Self {
        Self { urls: args.admin.clone(), token: std::env::var(TOKEN_VARIABLE).ok() }
    }

    /// One server on this machine.
    pub(crate) fn on_loopback(port: u16) -> Self {
        Self { urls: vec![Url::on_loopback(port).to_string()], token: None }
    }

    pub(crate) fn ensemble(&self) -> Result<Said<Ensemble>, Failure> {
        self.get("/v1/ensemble")
    }

    pub(crate) fn scores(&self) -> Result<Said<Scores>, Failure> {
        self.get("/v1/scores")
    }

    /// The newest first. The leader knows best: a server that joined later only found it at work.
    pub(crate) fn elections(&self, last: u32) -> Result<Said<Vec<Election>>, Failure> {
        self.first(&self.leader_first()?, "GET", &format!("/v1/election?last={last}"), "", LIMIT)
    }

    pub(crate) fn set_oracle(&self, name: &str, params: &[Param]) -> Result<Said<OracleSet>, Failure> {
        // The short forms carry a parameter in the name. A plain name is the server's to judge: it may know more.
        let short = name.contains(['/', '=']);
        let spec = if short { Spec::parse(name) } else { Ok(Spec::new(name)) };
        let spec = spec.map_err(|error| Failure::bad_input(error.to_string()))?;
        let spec = params.iter().fold(spec, |spec, Param { key, value }| spec.with(key, value));
        let body = json!({ "name": spec.name, "params": spec.params });
        self.first(&self.urls()?, "PUT", "/v1/oracle", &body.to_string(), LIMIT)
    }

    pub(crate) fn set_score(&self, value: f64, ttl: Ms) -> Result<(), Failure> {
        if !value.is_finite() {
            return Err(Failure::bad_input(format!("{value} is no score: expected a finite number")));
        }
        let [url] = &self.urls()?[..] else {
            return Err(Failure::bad_input("a score belongs to one server: name one address with --admin"));
        };
        let body = json!({ "value": value, "ttl_ms": ttl.0 }).to_string();
        self.first::<()>(std::slice::from_ref(url), "PUT", "/v1/score", &body, LIMIT).map(drop)
    }

    /// Every server takes it, but only the leader says why it cannot be: if it is among the servers, it is the one that is asked.
    pub(crate) fn transfer(&self, to: Option<u64>, timeout: Ms) -> Result<Said<Transferred>, Failure> {
        let mut body = json!({ "timeout_ms": timeout.0 });
        if let Some(to) = to {
            body["to"] = to.into();
        }
        let limit = LIMIT + Duration::from_millis(timeout.0);
        self.first(&self.leader_first()?, "POST", "/v1/transfer", &body.to_string(), limit)
    }

    /// With one address there is no choice, and nobody is asked.
    fn leader_first(&self) -> Result<Vec<Url>, Failure> {
        let mut urls = self.urls()?;
        if urls.len() > 1 {
            urls.sort_by_cached_key(|url| !self.leads(url));
        }
        Ok(urls)
    }

    fn leads(&self, url: &Url) -> bool {
        let health = self.first::<Health>(std::slice::from_ref(url), "GET", "/v1/health", "", LIMIT);
        health.and_then(|said| said.typed()).is_ok_and(|health| health.leader == Some(health.id))
    }

    fn get<T>(&self, path: &str) -> Result<Said<T>, Failure> {
        self.first(&self.urls()?, "GET", path, "", LIMIT)
    }

    fn urls(&self) -> Result<Vec<Url>, Failure> {
        self.urls
            .iter()
            .map(|url| Url::parse(url).map_err(|why| Failure::bad_input(format!("--admin {why}"))))
            .collect()
    }

    /// The answer of the first server that is there and has a quorum.
    fn first<T>(
        &self,
        urls: &[Url],
        method: &'static str,
        path: &str,
        body: &str,
        limit: Duration,
    ) -> Result<Said<T>, Failure> {
        let request = Request { method, path, body, token: self.token.as_deref() };
        let (mut silent, mut alone) = (Vec::new(), None);
        for url in urls {
            match url.ask(&request, limit) {
                Err(error) => silent.push(format!("{url}: {error}")),
                Ok(answer) if answer.status < 300 => return Ok(Said { body: answer.body, shape: PhantomData }),
                Ok(answer) => {
                    let (kind, failure) = refused(url, path, &answer);
                    if kind != Kind::NoQuorum {
                        return Err(failure);
                    }
                    alone = Some(failure);
                }
            }
        }
        Err(alone.unwrap_or_else(|| unreachable(&silent)))
    }
}

fn unreachable(silent: &[String]) -> Failure {
    let advice = "is the server running, and is that the address of its admin port (admin.serverPort)? \
                  Name another with --admin";
    Failure::new(Kind::Unreachable, format!("no server answers: {}; {advice}", silent.join(", ")))
}

fn refused(url: &Url, path: &str, answer: &Answer) -> (Kind, Failure) {
    let Ok(Refusal { error, code }) = serde_json::from_str(&answer.body) else {
        let text = format!(
            "{url} answered {} to {path}, which no server of Pole would; check the address after --admin",
            answer.status
        );
        return (Kind::Failed, Failure::failed(text));
    };
    let kind = match code.as_str() {
        "bad-value" => Kind::BadInput,
        "no-quorum" => Kind::NoQuorum,
        _ => Kind::Failed,
    };
    (kind, Failure::new(kind, format!("{url}: {error}")))
}

/// What a server said, and what it means.
pub(crate) struct Said<T> {
    body: String,
    shape: PhantomData<T>,
}

impl<T: DeserializeOwned> Said<T> {
    pub(crate) fn typed(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.body).map_err(|error| {
            Failure::failed(format!("the server's answer cannot be read ({error}); with --json you see it as it is"))
        })
    }

    /// The answer unchanged, or as people read it.
    pub(crate) fn text(&self, json: bool, readable: impl FnOnce(&T) -> String) -> Result<String, Failure> {
        if json { Ok(format!("{}\n", self.body.trim_end())) } else { Ok(readable(&self.typed()?)) }
    }

    /// One field of it, unchanged.
    pub(crate) fn field(&self, name: &str) -> Result<serde_json::Value, Failure> {
        let whole: serde_json::Value = serde_json::from_str(&self.body)
            .map_err(|error| Failure::failed(format!("the answer is no JSON: {error}")))?;
        whole.get(name).cloned().ok_or_else(|| Failure::failed(format!("the server's answer has no `{name}`")))
    }
}

/// What it takes to look something up, or to commit one write, on a bad day.
const LIMIT: Duration = Duration::from_secs(10);
/// In the environment rather than an option, so that it does not show in the list of processes.
const TOKEN_VARIABLE: &str = "POLE_ADMIN_TOKEN";
