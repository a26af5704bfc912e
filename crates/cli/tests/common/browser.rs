//! A headless browser, driven over the DevTools protocol.
//!
//! The protocol runs over two pipes, on which messages end with a zero byte. The browser expects them as descriptors 3
//! and 4; a shell gives it the standard input and output of this child process as these.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::LIMIT;

/// The program, if it is installed.
pub(crate) fn installed() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let paths = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&paths).flat_map(|dir| names.map(|name| dir.join(name)));
    found.into_iter().find(|path| path.is_file())
}

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    calls: u64,
    /// Errors of the console, exceptions and failed requests so far.
    problems: Vec<String>,
    profile: PathBuf,
}

impl Browser {
    pub(crate) fn start(program: &Path) -> Self {
        let profile = std::env::temp_dir().join(format!("pole-browser-{}", std::process::id()));
        let script = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
                      --no-first-run --disable-background-networking --user-data-dir=\"$1\" --remote-debugging-pipe \
                      about:blank 3<&0 4>&1 </dev/null >/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .args([program, profile.as_path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                if serde_json::from_slice(&message).is_ok_and(|message: Value| sender.send(message).is_err()) {
                    return;
                }
            }
        });
        let mut browser = Self { child, input, messages, session: None, calls: 0, problems: Vec::new(), profile };
        let targets = browser.call("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().unwrap();
        let page = targets.iter().find(|target| target["type"] == "page").unwrap()["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": page, "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    /// Keeps what a developer would see in red.
    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        let is_problem = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] == "error" || params["type"] == "warning",
            Some("Log.entryAdded") => params["entry"]["level"] == "error" || params["entry"]["level"] == "warning",
            _ => false,
        };
        if is_problem {
            self.problems.push(params.to_string());
        }
    }

    /// Problems since the last call.
    pub(crate) fn take_problems(&mut self) -> Vec<String> {
        // A round trip collects what has been reported by now.
        self.eval("1");
        std::mem::take(&mut self.problems)
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    /// The value of an expression of JavaScript.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + 2 * LIMIT;
        while self.eval(&format!("Boolean({expression})")) != true {
            assert!(Instant::now() < deadline, "not in time: {expression}; the page says:\n{}", self.text("body"));
            // The page redraws once a second; there is no event to wait for.
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The visible text of the first element that a selector finds.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        self.eval(&format!("document.querySelector({selector:?})?.innerText ?? ''")).as_str().unwrap().to_owned()
    }

    pub(crate) fn click(&mut self, selector: &str) {
        let clicked = self
            .eval(&format!("(element => (element?.click(), Boolean(element)))(document.querySelector({selector:?}))"));
        assert_eq!(clicked, true, "{selector} is not there");
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "ArrowUp" => 38,
            "ArrowDown" => 40,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => panic!("the code of {other} is not known here"),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        let event = json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
        self.call("Input.dispatchKeyEvent", event);
        self.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}),
        );
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let is_phone = width < 600;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Writes a picture of the whole page, for people to look at.
    pub(crate) fn screenshot(&mut self, file: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.call("Page.captureScreenshot", params);
        fs::write(file, STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its own processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}
