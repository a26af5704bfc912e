//! Requests to the admin port of a running server.
//!
//! Of several addresses, the first server that can answer is used. A failure has the exit code of its kind.
//!
//! HTTP is in `http`, and formatting for people is in `show`.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use hyper::HeaderMap;
use pole_api::commands::Restored;
use pole_api::{
    ChangeMembers, ChooseOracle, Election, Ensemble, Health, Members, OracleChosen, Refusal, Scores, SetScore,
    Transfer, Transferred, WhatIfs,
};
use pole_oracle::Spec;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::{AdminArgs, Ms, Param};
use crate::failure::{Failure, Kind};
use crate::http::{Request, Response, Url};

/// The servers to use.
pub(crate) struct Admin {
    urls: Vec<String>,
    token: Option<String>,
}

impl Admin {
    pub(crate) fn new(args: &AdminArgs) -> Self {
        Self { urls: args.admin.clone(), token: std::env::var(TOKEN_VARIABLE).ok() }
    }

    pub(crate) fn on_loopback(port: u16) -> Self {
        Self { urls: vec![Url::on_loopback(port).to_string()], token: None }
    }

    pub(crate) fn ensemble(&self) -> Result<Reply<Ensemble>, Failure> {
        self.get("/v1/ensemble")
    }

    pub(crate) fn scores(&self) -> Result<Reply<Scores>, Failure> {
        self.get("/v1/scores")
    }

    /// The scores if the leader crashed.
    pub(crate) fn scores_after_crash(&self) -> Result<Reply<Scores>, Failure> {
        self.get("/v1/scores?kind=after-crash")
    }

    /// Returns the newest elections first. The leader is asked first: a server that joined later has no details.
    pub(crate) fn elections(&self, last: u32) -> Result<Reply<Vec<Election>>, Failure> {
        self.send(&self.leader_first()?, "GET", &format!("/v1/election?last={last}"), "", LIMIT)
    }

    /// Which change would make another server the best leader.
    pub(crate) fn what_if(&self) -> Result<Reply<WhatIfs>, Failure> {
        self.get("/v1/whatif")
    }

    pub(crate) fn set_oracle(&self, name: &str, params: &[Param]) -> Result<Reply<OracleChosen>, Failure> {
        // The short forms contain a parameter in the name. A plain name is checked by the server, which may know more
        // oracles.
        let short = name.contains(['/', '=']);
        let spec = if short { Spec::parse(name) } else { Ok(Spec::new(name)) };
        let spec = spec.map_err(|error| Failure::bad_input(error.to_string()))?;
        let spec = params.iter().fold(spec, |spec, Param { key, value }| spec.with(key, value));
        let params = spec.params.into_iter().map(|(name, value)| (name, pole_api::Param::Text(value))).collect();
        let body = ChooseOracle { name: spec.name, params: Some(params) };
        self.send(&self.urls()?, "PUT", "/v1/oracle", &text(&body), LIMIT)
    }

    pub(crate) fn set_score(&self, value: f64, ttl: Ms) -> Result<(), Failure> {
        if !value.is_finite() {
            return Err(Failure::bad_input(format!("{value} is no score: expected a finite number")));
        }
        let [url] = &self.urls()?[..] else {
            return Err(Failure::bad_input("a score belongs to one server: name one address with --admin"));
        };
        let body = text(&SetScore { value, ttl_ms: Some(ttl.0) });
        self.send::<()>(std::slice::from_ref(url), "PUT", "/v1/score", &body, LIMIT).map(drop)
    }

    pub(crate) fn transfer(&self, to: Option<u64>, timeout: Ms) -> Result<Reply<Transferred>, Failure> {
        let body = text(&Transfer { to, timeout_ms: Some(timeout.0) });
        let limit = LIMIT + Duration::from_millis(timeout.0);
        self.send(&self.urls()?, "POST", "/v1/transfer", &body, limit)
    }

    pub(crate) fn members(&self) -> Result<Reply<Members>, Failure> {
        self.get("/v1/members")
    }

    pub(crate) fn change_members(&self, change: &ChangeMembers) -> Result<Reply<Members>, Failure> {
        self.send(&self.urls()?, "PUT", "/v1/members", &text(change), LIMIT)
    }

    /// Passes a snapshot of the first server that is reachable to `sink`. Returns the headers of its answer.
    pub(crate) fn backup(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(Url, HeaderMap), Failure> {
        let path = "/commands/snapshot?streaming=true";
        self.first_reachable("GET", path, |url, request| match url.download(request, STREAM_LIMIT, sink) {
            Ok(Ok(headers)) => Ok(Ok((url.clone(), headers))),
            Ok(Err(response)) => Ok(Err(self.refused_command(url, &response))),
            Err(error) => Err(error),
        })
    }

    /// Sends a backup to the first server that is reachable, which restores it.
    pub(crate) fn restore(&self, file: &Path) -> Result<Reply<Restored>, Failure> {
        self.first_reachable("POST", "/commands/restore", |url, request| {
            let response = url.upload(request, File::open(file)?, STREAM_LIMIT)?;
            let failed = || self.refused_command(url, &response);
            let reply: Reply<Restored> = Reply { body: response.body.trim_start().to_owned(), kind: PhantomData };
            // A restore that fails while it writes has begun its answer already.
            let is_done = response.status == 200 && reply.typed().is_ok_and(|restored| restored.error.is_none());
            Ok(if is_done { Ok(reply) } else { Err(failed()) })
        })
    }

    /// Tries the addresses in turn until a connection succeeds.
    fn first_reachable<T>(
        &self,
        method: &'static str,
        path: &str,
        mut exchange: impl FnMut(&Url, &Request<'_>) -> io::Result<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let identity = std::env::var(IDENTITY_VARIABLE).unwrap_or_else(|_| "ip".to_owned());
        let request = Request { method, path, body: "", token: self.token.as_deref(), identity: Some(&identity) };
        let mut failures = Vec::new();
        for url in self.urls()? {
            match exchange(&url, &request) {
                Ok(result) => return result,
                Err(error) => failures.push(format!("{url}: {error}")),
            }
        }
        Err(unreachable(&failures))
    }

    /// The addresses with the leader first. With a single address no request is needed.
    fn leader_first(&self) -> Result<Vec<Url>, Failure> {
        let mut urls = self.urls()?;
        if urls.len() > 1 {
            urls.sort_by_cached_key(|url| !self.leads(url));
        }
        Ok(urls)
    }

    /// Whether the first server leads others. A server without others has nobody to hand over to.
    pub(crate) fn first_leads(&self) -> Result<bool, Failure> {
        let urls = self.urls()?;
        let Some(url) = urls.first() else { return Ok(false) };
        match self.send::<Health>(std::slice::from_ref(url), "GET", "/v1/health", "", LIMIT) {
            Ok(reply) => Ok(reply.typed()?.mode == "leader"),
            Err(failure) if failure.kind() == Kind::NoQuorum => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    fn leads(&self, url: &Url) -> bool {
        let health = self.send::<Health>(std::slice::from_ref(url), "GET", "/v1/health", "", LIMIT);
        health.and_then(|reply| reply.typed()).is_ok_and(|health| health.leader == Some(health.id))
    }

    fn get<T>(&self, path: &str) -> Result<Reply<T>, Failure> {
        self.send(&self.urls()?, "GET", path, "", LIMIT)
    }

    fn urls(&self) -> Result<Vec<Url>, Failure> {
        self.urls
            .iter()
            .map(|url| Url::parse(url).map_err(|why| Failure::bad_input(format!("--admin {why}"))))
            .collect()
    }

    /// The refusal of one of Apache's commands, which has a form of its own.
    fn refused_command(&self, url: &Url, response: &Response) -> Failure {
        if response.body.contains("not currently serving requests") {
            return self.with_missing(url, Failure::new(Kind::NoQuorum, format!("{url}: no quorum")));
        }
        refused_in_service(url, response)
    }

    /// A failure for want of a quorum, with the servers that this one hears and those that it does not.
    fn with_missing(&self, url: &Url, failure: Failure) -> Failure {
        let request = Request { method: "GET", path: "/v1/ensemble", body: "", token: None, identity: None };
        let answer = url.send(&request, LIMIT).ok().filter(|response| response.status == 200);
        let ensemble = answer.and_then(|response| serde_json::from_str::<Ensemble>(&response.body).ok());
        match ensemble.filter(|ensemble| !ensemble.servers.is_empty()) {
            Some(ensemble) => Failure::new(Kind::NoQuorum, format!("{failure}. {}", heard(&ensemble))),
            None => failure,
        }
    }

    /// The answer of the first server that is reachable and has a quorum.
    fn send<T>(
        &self,
        urls: &[Url],
        method: &'static str,
        path: &str,
        body: &str,
        limit: Duration,
    ) -> Result<Reply<T>, Failure> {
        let request = Request { method, path, body, token: self.token.as_deref(), identity: None };
        let (mut failures, mut no_quorum) = (Vec::new(), None);
        for url in urls {
            match url.send(&request, limit) {
                Err(error) => failures.push(format!("{url}: {error}")),
                Ok(response) if response.status < 300 => return Ok(Reply { body: response.body, kind: PhantomData }),
                Ok(response) => {
                    let (kind, failure) = rejection(url, path, &response);
                    if kind != Kind::NoQuorum {
                        return Err(failure);
                    }
                    no_quorum = Some(self.with_missing(url, failure));
                }
            }
        }
        Err(no_quorum.unwrap_or_else(|| unreachable(&failures)))
    }
}

/// `2 of 5 servers answer; 3, 4, 5 do not`.
fn heard(ensemble: &Ensemble) -> String {
    let (answering, silent): (Vec<_>, Vec<_>) = ensemble.servers.iter().partition(|server| server.alive);
    let silent: Vec<String> = silent.iter().map(|server| server.id.to_string()).collect();
    let rest = match &silent[..] {
        [] => String::new(),
        [one] => format!("; {one} does not"),
        more => format!("; {} do not", more.join(", ")),
    };
    format!("{} of {} servers answer{rest}", answering.len(), ensemble.servers.len())
}

/// The body of a request.
fn text(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("names and numbers are always JSON")
}

fn unreachable(failures: &[String]) -> Failure {
    let advice = "is the server running, and is that the address of its admin port (admin.serverPort)? \
                  Name another with --admin";
    Failure::new(Kind::Unreachable, format!("no server answers: {}; {advice}", failures.join(", ")))
}

fn rejection(url: &Url, path: &str, response: &Response) -> (Kind, Failure) {
    let Ok(Refusal { error, code }) = serde_json::from_str(&response.body) else {
        let text = format!(
            "{url} answered {} to {path}, which no server of Pole would; check the address after --admin",
            response.status
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

/// The refusal of one of Apache's commands by a server that serves.
fn refused_in_service(url: &Url, response: &Response) -> Failure {
    let answer: serde_json::Value = serde_json::from_str(&response.body).unwrap_or_default();
    let Some(error) = answer["error"].as_str() else {
        return Failure::failed(format!("{url} answered {} without a reason", response.status));
    };
    let hint = match response.status {
        401 | 403 => {
            format!("; set {TOKEN_VARIABLE}, or {IDENTITY_VARIABLE} to an identity such as \"digest user:password\"")
        }
        _ => String::new(),
    };
    let kind = if response.status == 400 { Kind::BadInput } else { Kind::Failed };
    Failure::new(kind, format!("{url}: {error}{hint}"))
}

/// The body of an answer and its type.
pub(crate) struct Reply<T> {
    body: String,
    kind: PhantomData<T>,
}

impl<T: DeserializeOwned> Reply<T> {
    pub(crate) fn typed(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.body).map_err(|error| {
            Failure::failed(format!("the server's answer cannot be read ({error}); with --json you see it as it is"))
        })
    }

    /// The body unchanged, or formatted for people.
    pub(crate) fn text(&self, json: bool, format: impl FnOnce(&T) -> String) -> Result<String, Failure> {
        if json { Ok(format!("{}\n", self.body.trim_end())) } else { Ok(format(&self.typed()?)) }
    }

    /// One field, unchanged.
    pub(crate) fn field(&self, name: &str) -> Result<serde_json::Value, Failure> {
        let whole: serde_json::Value = serde_json::from_str(&self.body)
            .map_err(|error| Failure::failed(format!("the answer is no JSON: {error}")))?;
        whole.get(name).cloned().ok_or_else(|| Failure::failed(format!("the server's answer has no `{name}`")))
    }
}

/// Enough for a lookup, or for the commit of one write, on a slow system.
const LIMIT: Duration = Duration::from_secs(10);
/// A server that streams sends something at least every ten seconds.
const STREAM_LIMIT: Duration = Duration::from_secs(60);
/// The identity that the commands for backups show without a token.
const IDENTITY_VARIABLE: &str = "POLE_ADMIN_IDENTITY";
/// In the environment rather than an option, so that it does not appear in the process list.
const TOKEN_VARIABLE: &str = "POLE_ADMIN_TOKEN";
