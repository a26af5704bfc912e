//! The dashboard of `pole up` in a real browser.
//!
//! One ensemble and one browser serve all checks, because each takes seconds to start. Screenshots for people are in
//! `target/dashboard`. Without a browser the test is skipped, and says so.

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use common::browser::{Browser, installed};
use common::{LIMIT, Running, free_base_port};
use pole_client::blocking::Session;
use pole_client::create;
use pole_jute::CreateMode;

/// One ensemble at a time.
static SERIAL: Mutex<()> = Mutex::new(());

#[test]
fn the_tour_shows_a_crash_and_a_leader_that_follows_the_load() {
    let _guard = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let base = free_base_port();
    let mut up = Running::reading_stdout(&["up", "--tour", "--until-ready", "--base-port", &base.to_string()]);
    let story = up.until("4/7 Server ").join("\n");
    for part in [
        "1/7 Clients in D1 write",
        "2/7 Server ",
        "3/7 What each oracle would choose",
        " was killed",
        " leads in epoch ",
    ] {
        assert!(story.contains(part), "{part}: {story}");
    }
    let story = up.until("7/7 ").join("\n");
    // Servers in D2 and D3 would serve the clients in D3 equally fast.
    for part in ["clients in D3 write", " hands over to server ", "6/7 Server ", " leads now: the leader has followed"]
    {
        assert!(story.contains(part), "{part}: {story}");
    }
    // The sentence is folded to the width of a terminal.
    let summary = [up_line(&story), up.until("stopping all servers")].concat().join(" ");
    let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(summary.contains("no client saw an error"), "{summary}");
    assert_eq!(up.end().code(), Some(0));
}

#[test]
fn every_panel_and_every_action_works_in_a_browser() {
    let Some(program) = installed() else {
        eprintln!("skipped: no chromium in the PATH");
        return;
    };
    let _guard = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let base = free_base_port();
    let up = Running::reading_stdout(&["up", "--load", "50", "--base-port", &base.to_string()]);
    let lines = up.until("Dashboard");
    let url = format!("http://127.0.0.1:{base}");
    assert!(lines.last().is_some_and(|line| line.ends_with(&url)), "{lines:?}");
    up.until("clients in all sites write 50 times a second");
    create_children(base, 1_000);
    let mut page = Page { browser: Browser::start(&program), pictures: pictures() };
    page.browser.resize(1400, 1000);
    page.browser.open(&url);
    page.shows_every_panel();
    page.lives();
    page.has_two_themes();
    page.can_be_used_by_keyboard();
    page.browses_nodes();
    page.survives_the_loss_of_the_leader();
    page.pauses_and_resumes();
    page.transfers_leadership();
    page.switches_the_oracle();
    page.changes_a_link();
    page.moves_the_load();
    page.cuts_a_site_off();
    page.fits_a_phone();
    page.one_server_has_a_page_too(base);
    assert_eq!(page.browser.take_problems(), Vec::<String>::new());
}

/// Sends a request to `pole up`, and returns the first line of the answer.
fn post(base: u16, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, base)).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{base}\r\nContent-Length: {}\r\n", body.len());
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
    BufReader::new(stream).lines().next().unwrap().unwrap()
}

/// The last line of a text.
fn up_line(text: &str) -> Vec<String> {
    text.lines().last().map(str::to_owned).into_iter().collect()
}

/// The children that the node browser shows.
fn create_children(base: u16, count: usize) {
    let mut session = Session::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, base + 4)), LIMIT).unwrap();
    session.ask(create("/many", b"a thousand children", CreateMode::Persistent)).unwrap();
    let children = (0..count).map(|number| create(&format!("/many/child-{number:04}"), b"", CreateMode::Persistent));
    for requests in children.collect::<Vec<_>>().chunks(100) {
        session.ask_all(requests.iter().cloned()).unwrap();
    }
}

/// Where the screenshots go: beside the other results of the build.
fn pictures() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("dashboard");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

struct Page {
    browser: Browser,
    pictures: PathBuf,
}

impl Page {
    fn shows_every_panel(&mut self) {
        let browser = &mut self.browser;
        browser.until("document.querySelectorAll('#servers tbody tr').length === 5");
        browser.until("document.querySelector('#leader-text').innerText.includes('leads epoch')");
        browser.until("document.querySelectorAll('#map .server').length === 5");
        browser.until("document.querySelectorAll('#map .server.leader').length === 1");
        browser.until("[...document.querySelectorAll('#map .link-text')].filter(text => text.textContent.endsWith(' ms')).length === 3");
        let map = browser.eval("document.querySelector('#map').getAttribute('aria-label')");
        assert!(map.as_str().unwrap().contains("(leader)") && map.as_str().unwrap().contains("D1 to D2"), "{map}");
        browser.until("document.querySelectorAll('#ranking tbody tr').length >= 7");
        browser.until("document.querySelector('#ranking .winner').innerText.includes('ms')");
        browser.until("document.querySelectorAll('#timeline > li').length >= 1");
        browser.until("document.querySelectorAll('#clients tbody tr').length === 5");
        browser.until("document.querySelectorAll('#disks tbody tr').length === 5");
        browser.until("document.querySelectorAll('#links tbody tr').length === 5");
        browser.until("document.querySelectorAll('#node-children li').length >= 2");
        for figure in ["latency", "throughput", "predicted"] {
            browser.until(&format!("document.querySelectorAll('#{figure} path').length >= 1"));
            browser.until(&format!("document.querySelector('#{figure} figcaption').innerText.length > 40"));
        }
        // The load of all sites is measured at every server, and compared with the prediction.
        browser.until("[...document.querySelectorAll('#comparison tbody tr')].filter(row => row.innerText.includes('%')).length === 5");
        browser.until("document.querySelector('#why').innerText.includes('Why server')");
        assert_eq!(browser.take_problems(), Vec::<String>::new());
        // For people: it depends on the machine, and on what else runs there.
        let paint = browser.eval("performance.getEntriesByName('first-contentful-paint')[0]?.startTime");
        std::fs::write(self.pictures.join("first-contentful-paint-ms.txt"), paint.to_string()).unwrap();
    }

    /// Snapshots arrive, and the history grows.
    fn lives(&mut self) {
        let browser = &mut self.browser;
        browser.until("document.querySelector('#connection').innerText === 'live'");
        browser.until("parseFloat(document.querySelector('#fact-writes').innerText) > 20");
        browser.eval("window.before = document.querySelector('#throughput path').getAttribute('d').length");
        browser.until("document.querySelector('#throughput path').getAttribute('d').length > window.before");
    }

    fn has_two_themes(&mut self) {
        let background = "getComputedStyle(document.body).backgroundColor";
        self.shoot("light");
        let light = self.browser.eval(background);
        self.browser.click("#theme");
        let dark = self.browser.eval(background);
        assert_ne!(light, dark);
        assert_eq!(self.browser.eval("document.querySelector('#theme').getAttribute('aria-pressed')"), "true");
        self.shoot("dark");
        self.browser.click("#theme");
        assert_eq!(self.browser.eval(background), light);
    }

    fn can_be_used_by_keyboard(&mut self) {
        let browser = &mut self.browser;
        browser.eval("document.activeElement.blur()");
        browser.press("Tab");
        assert_eq!(browser.eval("document.activeElement.className"), "skip");
        browser.press("Enter");
        browser.until("document.activeElement.id === 'content'");
        browser.eval("document.querySelector('#servers tbody tr').focus()");
        browser.press("ArrowDown");
        assert_eq!(browser.eval("document.activeElement.dataset.server"), "2");
        let outline = browser.eval("getComputedStyle(document.activeElement).outlineStyle");
        assert_eq!(outline, "solid");
        browser.eval("document.querySelector('#timeline summary').focus()");
        browser.press("Enter");
        browser.until("document.querySelector('#timeline details').open");
        let text = browser.text("#timeline details");
        assert!(text.contains("It was called because") && text.contains("took part"), "{text}");
    }

    fn browses_nodes(&mut self) {
        let browser = &mut self.browser;
        browser.eval("document.querySelector('#node-path').value = '/many'");
        browser.click("#node-form button");
        browser.until("document.querySelectorAll('#node-children li').length === 200");
        assert_eq!(browser.text("#node-data"), "a thousand children");
        for shown in [400, 600, 800, 1_000] {
            browser.click("#node-more");
            browser.until(&format!("document.querySelectorAll('#node-children li').length === {shown}"));
        }
        browser.until("document.querySelector('#node-more').hidden");
        assert_eq!(browser.text("#node-count"), "1000 of 1000 children");
        browser.eval("document.querySelector('#node-children button').focus()");
        browser.press("ArrowDown");
        browser.press("ArrowDown");
        assert_eq!(browser.eval("document.activeElement.dataset.name"), "child-0002");
        browser.press("Enter");
        browser.until("document.querySelector('#node-path').value === '/many/child-0002'");
        browser.until("document.querySelector('#node-stat').innerText.includes('world:anyone')");
        browser.eval("document.querySelector('#node-path').value = '/nowhere'");
        browser.click("#node-form button");
        browser.until("document.querySelector('#node-error').innerText.includes('there is no such node')");
        // The browser itself reports an answer of 404 as an error.
        let problems = browser.take_problems();
        assert!(problems.len() == 1 && problems[0].contains("404"), "{problems:?}");
        browser.click("#node-crumbs button");
        browser.until("document.querySelector('#node-error').innerText === ''");
    }

    fn survives_the_loss_of_the_leader(&mut self) {
        let leader = self.leader();
        let elections = self.browser.eval("document.querySelectorAll('#timeline > li').length").as_u64().unwrap();
        self.act(leader, "Kill");
        let browser = &mut self.browser;
        browser.until(&format!("document.querySelector('tr[data-server=\"{leader}\"]').innerText.includes('down')"));
        browser.until(&format!(
            "/^Server [^{leader}] .* leads epoch/.test(document.querySelector('#leader-text').innerText)"
        ));
        browser.until(&format!("document.querySelectorAll('#timeline > li').length > {elections}"));
        browser.until("document.querySelector('#timeline').innerText.includes('leader lost')");
        browser.until("document.querySelectorAll('#latency .mark').length >= 1");
        browser.until("document.querySelector('#connection').innerText === 'live'");
        browser.eval("document.querySelectorAll('#timeline details').forEach(element => element.open = true)");
        // The graph goes on with the servers that are left.
        browser.until("parseFloat(document.querySelector('#fact-writes').innerText) > 20");
        self.shoot("leader-lost");
        self.act(leader, "Start");
        self.browser
            .until(&format!("document.querySelector('tr[data-server=\"{leader}\"]').innerText.includes('follower')"));
    }

    fn pauses_and_resumes(&mut self) {
        let follower = if self.leader() == 2 { 3 } else { 2 };
        self.act(follower, "Pause");
        self.browser
            .until(&format!("document.querySelector('tr[data-server=\"{follower}\"]').innerText.includes('paused')"));
        self.act(follower, "Resume");
        self.browser
            .until(&format!("document.querySelector('tr[data-server=\"{follower}\"]').innerText.includes('follower')"));
        self.act(follower, "Restart");
        self.browser.until("document.querySelector('#action-result').innerText.includes('restart')");
        self.browser
            .until(&format!("document.querySelector('tr[data-server=\"{follower}\"]').innerText.includes('follower')"));
    }

    fn transfers_leadership(&mut self) {
        let target = if self.leader() == 4 { 5 } else { 4 };
        self.transfers_leadership_to(target);
        self.browser.until("document.querySelector('#action-result').innerText.includes('no write was answered for')");
        self.browser.until("document.querySelector('#timeline').innerText.includes('transfer')");
    }

    fn transfers_leadership_to(&mut self, target: u64) {
        self.act(target, "Lead");
        self.browser.until(&format!("document.querySelector('#leader-text').innerText.startsWith('Server {target} ')"));
    }

    fn switches_the_oracle(&mut self) {
        for oracle in ["latency", "consensus"] {
            self.switches_the_oracle_to(oracle);
        }
    }

    fn switches_the_oracle_to(&mut self, oracle: &str) {
        self.browser.eval(&format!("document.querySelector('#oracle').value = '{oracle}'"));
        self.browser.eval("document.querySelector('#oracle').form.requestSubmit()");
        self.browser.until(&format!("document.querySelector('#leader-text').innerText.includes('oracle is {oracle}')"));
    }

    fn changes_a_link(&mut self) {
        let browser = &mut self.browser;
        browser.eval("document.querySelector('#link-rtt').value = '30'");
        browser.eval("document.querySelector('#link-rtt').form.requestSubmit()");
        browser.until(
            "[...document.querySelectorAll('#map .link-text')].some(text => /^(29|3[0-9])[.]/.test(text.textContent))",
        );
    }

    /// Clients in D3 are served equally fast by leaders in D2 and D3, because their server learns of commits directly. A
    /// leader in D1 is worse by far. The oracle `consensus` keeps it there, since D1 and D2 reach a quorum equally fast.
    fn moves_the_load(&mut self) {
        if self.leader() < 4 {
            self.transfers_leadership_to(4);
        }
        let browser = &mut self.browser;
        browser.eval("document.querySelector('#load-site').value = 'D3'");
        browser.eval("document.querySelector('#load-rate').value = '40'");
        browser.eval("document.querySelector('#load-rate').form.requestSubmit()");
        browser.until("document.querySelector('#load-text').innerText.includes('in D3')");
        self.switches_the_oracle_to("latency");
        let browser = &mut self.browser;
        browser.until("/^Server [123] .* leads/.test(document.querySelector('#leader-text').innerText)");
        browser.until("document.querySelector('#timeline').innerText.includes('gave way')");
        self.shoot("leader-followed-the-load");
    }

    fn cuts_a_site_off(&mut self) {
        let browser = &mut self.browser;
        browser.click("button[name=cut][value=D3]");
        browser.until("document.querySelectorAll('#map .link.cut').length === 2");
        browser.until("/^Server [2-5] .* leads/.test(document.querySelector('#leader-text').innerText)");
        self.shoot("site-cut-off");
        let browser = &mut self.browser;
        browser.click("button[name=reconnect][value=D3]");
        browser.until("document.querySelectorAll('#map .link.cut').length === 0");
        browser.until("document.querySelectorAll('#servers .mode-follower').length === 4");
    }

    fn fits_a_phone(&mut self) {
        self.browser.resize(360, 800);
        self.browser.until("document.documentElement.scrollWidth <= 360");
        self.browser.until("document.querySelector('#map').getBoundingClientRect().width <= 360");
        self.shoot("phone");
    }

    /// The page of a server shows and does not act, and outlives the server.
    fn one_server_has_a_page_too(&mut self, base: u16) {
        let browser = &mut self.browser;
        assert_eq!(browser.take_problems(), Vec::<String>::new());
        browser.resize(1400, 1000);
        browser.open(&format!("http://127.0.0.1:{}/", base + 302));
        browser.until("document.querySelectorAll('#servers tbody tr').length === 5");
        browser.until("document.querySelector('#latency figcaption').innerText.includes('Clients of server 2')");
        browser.until("document.querySelectorAll('#node-children li').length >= 2");
        assert_eq!(browser.eval("document.querySelector('#actions').hidden"), true);
        assert_eq!(browser.eval("document.querySelectorAll('#servers button').length"), 0);
        self.shoot("one-server");
        let browser = &mut self.browser;
        // A browser has six connections for a port: a page that is left must not keep one.
        for _ in 0..8 {
            browser.open("about:blank");
            browser.open(&format!("http://127.0.0.1:{}/", base + 302));
            browser.until("document.querySelector('#connection')?.innerText === 'live'");
            let waited = browser.eval("performance.getEntriesByType('navigation')[0].responseStart");
            assert!(waited.as_f64().unwrap() < 20_000.0, "the page came after {waited} ms");
        }
        assert_eq!(post(base, "/v1/up/kill", r#"{"server":2}"#), "HTTP/1.1 204 No Content");
        let browser = &mut self.browser;
        browser.until("document.querySelector('#connection').innerText.startsWith('disconnected')");
        assert_eq!(post(base, "/v1/up/restart", r#"{"server":2}"#), "HTTP/1.1 204 No Content");
        browser.until("document.querySelector('#connection').innerText === 'live'");
        // The browser reports each attempt to reconnect.
        let problems = browser.take_problems();
        assert!(problems.iter().all(|problem| problem.contains("/v1/events")), "{problems:?}");
    }

    /// The server that leads now. Waits until there is one.
    fn leader(&mut self) -> u64 {
        self.browser.until("document.querySelector('#servers .mode-leader')");
        let id =
            self.browser.eval("Number(document.querySelector('#servers .mode-leader').parentElement.dataset.server)");
        id.as_u64().unwrap()
    }

    /// Presses a button of a server.
    fn act(&mut self, server: u64, button: &str) {
        let find = format!(
            "[...document.querySelectorAll('tr[data-server=\"{server}\"] button')].find(item => item.textContent === '{button}')"
        );
        self.browser.until(&find);
        self.browser.eval(&format!("{find}.click()"));
    }

    fn shoot(&mut self, name: &str) {
        self.browser.eval("scrollTo({ top: 0, behavior: 'instant' })");
        self.browser.screenshot(&self.pictures.join(format!("{name}.png")));
    }
}
