//! A browser without a window, driven over loopback as the WebDriver standard says.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use base64::Engine;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest that anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The key under which the standard hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Where Debian puts it; others may have it elsewhere on the path.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page. Ended, and everything of it removed, when dropped.
pub(super) struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
    /// The browser, until it ended in order.
    pid: Option<u64>,
    /// What the browser keeps: gone with it.
    _profile: TempDir,
}

impl Browser {
    pub(super) fn start(home: &Path) -> Self {
        let browser = BROWSERS.iter().find_map(|name| on_path(name)).unwrap_or_else(|| {
            panic!("no browser is installed: install the packages chromium and chromium-driver")
        });
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("chromedriver does not start ({error}): install the package chromium-driver")
            });
        let port = port_of(&mut driver);
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(PATIENCE))
            .build();
        let mut started = Self {
            driver,
            agent: config.into(),
            session: format!("http://127.0.0.1:{port}/session"),
            pid: None,
            _profile: profile,
        };
        let profile = format!("--user-data-dir={}", started._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1200,900",
            &profile,
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": browser, "args": arguments },
        } } });
        let answer = started.post("", &wanted);
        let id = answer["sessionId"].as_str().unwrap();
        started.pid = answer["capabilities"]["goog:processID"].as_u64();
        started.session = format!("{}/{id}", started.session);
        started
    }

    fn judge(what: &str, response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Value {
        let mut response =
            response.unwrap_or_else(|error| panic!("{what}: the driver does not answer: {error}"));
        let answer: Value = response.body_mut().with_config().limit(64 << 20).read_json().unwrap();
        assert!(response.status().is_success(), "{what}: {}", answer["value"]["message"]);
        answer["value"].clone()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        Self::judge(path, self.agent.post(format!("{}{path}", self.session)).send_json(body))
    }

    fn get(&self, path: &str) -> Value {
        Self::judge(path, self.agent.get(format!("{}{path}", self.session)).call())
    }

    pub(super) fn open(&self, page: &Path) {
        self.post("/url", &json!({ "url": format!("file://{}", page.display()) }));
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    fn elements(&self, selector: &str) -> Vec<String> {
        let found = self.post("/elements", &json!({ "using": "css selector", "value": selector }));
        found.as_array().unwrap().iter().map(|one| one[ELEMENT].as_str().unwrap().to_owned()).collect()
    }

    fn text_of(&self, element: &str) -> String {
        let text = self.get(&format!("/element/{element}/text"));
        text.as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The text of an element as a person sees it.
    pub(super) fn text(&self, selector: &str) -> String {
        self.text_of(&self.element(selector))
    }

    pub(super) fn texts(&self, selector: &str) -> Vec<String> {
        self.elements(selector).iter().map(|element| self.text_of(element)).collect()
    }

    /// Waits until an element says one of these.
    pub(super) fn wait_for_text(&self, selector: &str, words: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text(selector);
            if words.contains(&text.as_str()) {
                return text;
            }
            assert!(begun.elapsed() < PATIENCE, "{selector} says {text:?}, not {words:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn attribute(&self, selector: &str, name: &str) -> String {
        let value = self.get(&format!("/element/{}/attribute/{name}", self.element(selector)));
        value.as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn click(&self, selector: &str) {
        self.post(&format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    pub(super) fn keys(&self, selector: &str, keys: &str) {
        self.post(&format!("/element/{}/value", self.element(selector)), &json!({ "text": keys }));
    }

    /// Whether a person sees it.
    pub(super) fn is_shown(&self, selector: &str) -> bool {
        self.get(&format!("/element/{}/displayed", self.element(selector))) == Value::Bool(true)
    }

    /// The ids of those that a person sees.
    pub(super) fn visible(&self, selector: &str) -> Vec<String> {
        let script = format!(
            "return Array.from(document.querySelectorAll({})).filter((one) => one.checkVisibility()).map((one) => one.id)",
            json!(selector)
        );
        let ids = self.script(&script);
        ids.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    pub(super) fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    fn tell(&self, command: &str, parameters: &Value) {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    /// In light or dark colours, on a screen of this width.
    pub(super) fn show(&self, dark: bool, width: u32) {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.tell("Emulation.setEmulatedMedia", &json!({ "features": features }));
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.tell("Emulation.setDeviceMetricsOverride", &size);
        self.script("window.scrollTo(0, 0)");
    }

    /// The whole page as a picture.
    pub(super) fn screenshot(&self, path: &Path) {
        let answer = self.post(
            "/goog/cdp/execute",
            &json!({ "cmd": "Page.captureScreenshot", "params": { "captureBeyondViewport": false } }),
        );
        let text = answer["data"].as_str().unwrap();
        fs::write(path, base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap();
    }

    /// Ends it in order, so that a browser that does not end is seen.
    pub(super) fn end(mut self) {
        Self::judge("end", self.agent.delete(&self.session).call());
        self.pid = None;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(pid) = self.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            let _ = self.agent.delete(&self.session).call();
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn on_path(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .map(|program| program.display().to_string())
}

/// The port that the system chose, as the driver says it.
fn port_of(driver: &mut Child) -> u16 {
    let stdout = driver.stdout.take().unwrap();
    let (send, port) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let said = line.split_once("started successfully on port ");
            if let Some(number) = said.and_then(|(_, rest)| rest.trim_end_matches('.').parse::<u16>().ok()) {
                let _ = send.send(number);
            }
        }
    });
    port.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        panic!("chromedriver ended at once; does `ulimit -v` keep it from its address space?")
    })
}
