//! `pole up --tour`: a story of a minute that shows why the choice of the leader matters.
//!
//! Clients write in one place; the leader crashes, and each oracle says whom it would have chosen; then the clients move,
//! and the leader follows them. Every step waits for its event, such as a new leader, and a few seconds more for the
//! reader. It is told in the terminal and in the dashboard.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use pole_api::{Scores, UpTour, words};

use super::Event;
use super::action::{Action, perform};
use super::board::{Board, Content};
use super::plan::Plan;
use crate::admin::Admin;

/// What the tour needs to know of the plan.
pub(crate) struct Tour {
    /// Where the clients are at first: the site with the most servers, so that a quorum is near.
    near: String,
    /// Where they move: the site that is farthest from it.
    far: String,
    /// Site and admin port by id.
    servers: Vec<(u64, String, u16)>,
    actions: Sender<Event>,
    board: Board,
}

impl Tour {
    /// `None` if there is only one site.
    pub(crate) fn new(plan: &Plan, actions: Sender<Event>, board: Board) -> Option<Self> {
        let topology = plan.topology();
        let rtt = |a: &str, b: &str| topology.link_of_sites(a, b).map_or(0, |link| link.rtt_ns);
        let mut sites: Vec<String> = topology.servers().map(|server| server.site).collect();
        sites.sort();
        let count = |site: &String| topology.servers().filter(|server| server.site == *site).count();
        let near = sites.iter().max_by_key(|site| (count(site), std::cmp::Reverse((*site).clone())))?.clone();
        let far = sites.iter().filter(|site| **site != near).max_by_key(|site| rtt(&near, site))?.clone();
        let servers = plan.ids().map(|id| (id, plan.site(id).to_owned(), plan.ports(id).admin)).collect();
        Some(Self { near, far, servers, actions, board })
    }

    /// Plays it on a thread of its own. The event loop learns when it is over.
    pub(crate) fn start(self) {
        thread::spawn(move || {
            if let Err(error) = self.play() {
                self.tell(STEPS, &format!("The tour ends here: {error}."));
            }
            let _ = self.actions.send(Event::TourOver);
        });
    }

    fn play(&self) -> Result<(), String> {
        let (near, far) = (&self.near, &self.far);
        self.tell(
            1,
            &format!("Clients in {near} write {RATE} times a second. All servers serve, and one of them leads."),
        );
        self.load(near)?;
        self.leader_in(near, LEADER_LIMIT);
        self.pause(READING);
        let before = self.measured();
        let leader = self.leader().ok_or("there is no leader")?;
        let site = self.site(leader);
        self.tell(2, &format!(
            "Server {leader} in {site} leads: the oracle latency prefers it while the clients are in {near}. A write takes {before}."
        ));
        self.pause(READING);
        let leader = self.announce_crash(leader)?;
        self.act(Action::Kill(leader))?;
        let is_replaced = |content: &Content| {
            let is_down = content.state.servers.iter().any(|server| server.id == leader && server.state == "down");
            is_down && content.leader.is_some_and(|(next, _)| next != leader)
        };
        if !self.board.wait_until(LEADER_LIMIT, is_replaced) {
            return Err("no other server leads".to_owned());
        }
        let next = self.leader().unwrap_or_default();
        self.tell(4, &format!("Server {leader} crashed, and server {next} leads. {}", self.explanation(next)));
        self.pause(READING);
        self.act(Action::Restart(leader))?;
        self.tell(5, &format!("Server {leader} is started again. Now the clients move from {near} to {far}."));
        self.load(far)?;
        self.pause(READING);
        let at_first = self.measured();
        // With direct acknowledgements, a leader between the two sites may serve the far clients as fast as one beside them.
        let has_followed = self.leader_outside(self.site(next), FOLLOW_LIMIT);
        let last = self.leader().unwrap_or_default();
        if has_followed {
            self.pause(READING);
            let last = self.leader().unwrap_or(last);
            let site = self.site(last);
            self.tell(6, &format!(
                "Server {last} in {site} leads now: the leader has followed its clients. A write from {far} took {at_first} and takes {} now.",
                self.measured()
            ));
        } else {
            self.tell(
                6,
                &format!("Server {last} still leads: no other would be enough better for the clients in {far}."),
            );
        }
        self.pause(READING);
        let load = self.board.content().state.load;
        let errors =
            if load.failed == 0 { "no client saw an error".to_owned() } else { format!("{} failed", load.failed) };
        self.tell(STEPS, &format!(
            "{} writes were answered, {} of them after they were sent again to another server, and {errors}. The ensemble goes on: try the buttons.",
            load.done, load.repeated
        ));
        Ok(())
    }

    /// Says whom each oracle would choose if the leader crashed. Returns the leader, which may have given way meanwhile:
    /// then it is said again for the next one.
    fn announce_crash(&self, mut leader: u64) -> Result<u64, String> {
        for _ in 0..CHANGES_MAX {
            let choices = self.choices(leader);
            self.tell(3, &format!("What each oracle would choose if server {leader} crashed now: {choices}."));
            self.pause(READING);
            match self.leader() {
                Some(same) if same == leader => return Ok(leader),
                Some(other) => leader = other,
                None => return Err("there is no leader".to_owned()),
            }
        }
        Ok(leader)
    }

    /// Shows a step in the dashboard and in the terminal.
    fn tell(&self, step: u32, text: &str) {
        let tour = UpTour { step, of: STEPS, text: text.to_owned() };
        self.board.update(|content| content.state.tour = Some(tour));
        let _ = self.actions.send(Event::Tour { step, of: STEPS, text: text.to_owned() });
    }

    fn load(&self, site: &str) -> Result<(), String> {
        self.act(Action::Load { rate: RATE, site: Some(site.to_owned()) })
    }

    fn act(&self, action: Action) -> Result<(), String> {
        perform(&self.actions, action)
    }

    fn leader(&self) -> Option<u64> {
        self.board.content().leader.map(|(leader, _)| leader)
    }

    fn site(&self, id: u64) -> &str {
        self.servers.iter().find(|(own, ..)| *own == id).map_or("?", |(_, site, _)| site)
    }

    fn leader_in(&self, site: &str, limit: Duration) -> bool {
        let leads = |content: &Content| content.leader.is_some_and(|(leader, _)| self.site(leader) == site);
        self.board.wait_until(limit, leads)
    }

    fn leader_outside(&self, site: &str, limit: Duration) -> bool {
        let leads = |content: &Content| content.leader.is_some_and(|(leader, _)| self.site(leader) != site);
        self.board.wait_until(limit, leads)
    }

    /// The latency of the last second in words.
    fn measured(&self) -> String {
        let mean = self.board.content().state.load.mean_ms;
        mean.map_or_else(|| "an unknown time".to_owned(), |ms| words::with_unit(ms, "ms"))
    }

    fn admin(&self, id: u64) -> Option<Admin> {
        let port = self.servers.iter().find(|(own, ..)| *own == id).map(|(.., port)| *port)?;
        Some(Admin::on_loopback(port))
    }

    /// The choices of the oracles, those with the same choice together.
    fn choices(&self, leader: u64) -> String {
        let scores = self.admin(leader).and_then(|admin| admin.scores_after_crash().ok()?.typed().ok());
        let Some(Scores { oracles, .. }) = scores else { return "they cannot be asked".to_owned() };
        let mut by_choice: std::collections::BTreeMap<u64, Vec<String>> = std::collections::BTreeMap::new();
        for (name, oracle) in oracles {
            if let Some(winner) = oracle.winner {
                let score = oracle.servers.get(&winner).and_then(|server| server.score);
                let predicted =
                    score.filter(|_| oracle.unit == "ms").map(|score| format!(" ({})", words::with_unit(score, "ms")));
                by_choice.entry(winner).or_default().push(name + &predicted.unwrap_or_default());
            }
        }
        let parts = by_choice
            .into_iter()
            .map(|(id, names)| format!("server {id} in {} by {}", self.site(id), names.join(", ")));
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Why this server won the election and how long that took, as it says itself.
    fn explanation(&self, leader: u64) -> String {
        let elections = self.admin(leader).and_then(|admin| admin.elections(1).ok()?.typed().ok()).unwrap_or_default();
        let text = |election| format!("{} {}", words::decision(election), words::steps(election));
        elections.first().map(text).unwrap_or_default()
    }

    /// Time to read and to look at the graphs. Nothing is awaited.
    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

const STEPS: u32 = 7;
/// A leader that gives way has to wait before it does so again.
const CHANGES_MAX: u32 = 3;
/// Writes per second: enough to measure, and little for any machine.
const RATE: f64 = 60.0;
const READING: Duration = Duration::from_secs(5);
const LEADER_LIMIT: Duration = Duration::from_secs(15);
/// The rates have to change, and the leader waits for a while before it gives way.
const FOLLOW_LIMIT: Duration = Duration::from_secs(30);
