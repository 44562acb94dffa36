//! A ready redactor of secrets that are known by their shape or by the name before them.

use std::collections::BTreeSet;

use regex::{Captures, Regex, RegexSet};
use turnkeep_core::error::{Error, ErrorKind, Result};

use super::{Redactor, whole_lines};

/// Kinds of secrets, each with a pattern. What the group `secret` matches is hidden, without one the whole match. No
/// pattern but that of key blocks reaches over a line end, so that whole lines of a stream are settled.
const KINDS: &[(&str, &str)] = &[
    // Blocks and headers first: what they hold may look like something smaller.
    (
        "private-key",
        r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
    (
        "authorization",
        r#"(?i)(?:proxy-)?authorization[\\"']{0,4}[ \t]*[:=][ \t]*[\\"']{0,4}(?:(?:bearer|basic|digest|token|apikey|negotiate|aws4-hmac-sha256)[ \t]+)?(?P<secret>[^\r\n"'\\]+)"#,
    ),
    ("cookie", r#"(?i)(?-u:\b)(?:set-)?cookie[\\"']{0,4}[ \t]*:[ \t]*[\\"']{0,4}(?P<secret>[^\r\n"'\\]+)"#),
    ("url-password", r#"(?i)[a-z][a-z0-9+.-]{1,30}://[^ \t\r\n/:@"'<>]*:(?P<secret>[^ \t\r\n/@"'<>]+)@"#),
    ("slack-webhook", r"https://hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9/_-]{20,})"),
    // Shapes that providers gave their keys so that they can be found.
    ("anthropic-key", r"(?-u:\b)sk-ant-[A-Za-z0-9_-]{20,}"),
    ("openai-key", r"(?-u:\b)sk-(?:proj-|svcacct-|admin-|or-v1-)?[A-Za-z0-9_-]{20,}"),
    ("google-key", r"(?-u:\b)AIza[0-9A-Za-z_-]{35}"),
    ("google-oauth", r"(?-u:\b)(?:ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,})"),
    (
        "model-key",
        r"(?-u:\b)(?:gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,})",
    ),
    ("huggingface-token", r"(?-u:\b)hf_[A-Za-z0-9]{20,}"),
    ("aws-key-id", r"(?-u:\b)(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA)[0-9A-Z]{16}(?-u:\b)"),
    ("github-token", r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})"),
    ("gitlab-token", r"(?-u:\b)gl(?:pat|dt|rt|ptt|cbt|soat)-[A-Za-z0-9_-]{20,}"),
    ("slack-token", r"(?-u:\b)(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})"),
    ("stripe-key", r"(?-u:\b)(?:(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,})"),
    ("package-token", r"(?-u:\b)(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{16,})"),
    ("sendgrid-key", r"(?-u:\b)SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("bot-token", r"(?-u:\b)[0-9]{8,10}:[A-Za-z0-9_-]{35}(?-u:\b)"),
    (
        "cloud-token",
        r"(?-u:\b)(?:do[opr]_v1_[a-f0-9]{64}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|AGE-SECRET-KEY-1[0-9A-Z]{58})",
    ),
    ("jwt", r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("bearer", r"(?i)(?-u:\b)bearer[ \t]+(?P<secret>[A-Za-z0-9._~+/=-]{16,})"),
    (
        "azure-key",
        r"(?i)(?:AccountKey|SharedAccessKey|SharedAccessSignature)=(?P<secret>[A-Za-z0-9+/=%&._-]{16,})",
    ),
    // Not `PWD=` alone: a shell calls its folder so.
    ("connection-string", r#"(?i);[ \t]*(?:pwd|password)[ \t]*=[ \t]*(?P<secret>[^;\r\n"']+)"#),
    // Whatever a name in front of it gives away.
    (
        "password",
        r#"(?i)(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|(?:access|refresh|auth|id|session|bearer|api|security)[_-]?token|connection[_-]?string)[\\"']{0,4}[ \t]*(?:=>|:=|[:=])[ \t]*[\\]?["'](?P<secret>[^"'\\\r\n]+)"#,
    ),
    (
        "password",
        r#"(?i)(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|(?:access|refresh|auth|id|session|bearer|api|security)[_-]?token|connection[_-]?string)[\\"']{0,4}[ \t]*(?:=>|:=|[:=])[ \t]*(?P<secret>[^ \t\r\n"'\\,;&<>(){}]+)"#,
    ),
];

/// Names of fields whose values are secret, without `_`, `-` and `.`, at their ends.
const FIELDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "idtoken",
    "sessiontoken",
    "bearertoken",
    "apitoken",
    "securitytoken",
    "authorization",
    "connectionstring",
    "cookie",
    "credential",
    "credentials",
];

/// What stands after such a name in code that holds no secret.
const INNOCENT: &[&str] = &[
    "string",
    "str",
    "&str",
    "text",
    "bool",
    "int",
    "any",
    "none",
    "null",
    "nil",
    "true",
    "false",
    "undefined",
    "option",
    "required",
];

/// Hides common secrets: provider API keys of several shapes, AWS, GitHub, GitLab and Slack tokens, JWTs, private key
/// blocks, `Authorization` headers, cookies, passwords in URLs and connection strings, and whatever a name like
/// `password`, `secret` or `api_key` gives away. A secret becomes `[redacted:KIND]`.
///
/// It knows shapes, and cannot know a secret that has none. It may hide what is none, such as a word of code after
/// `password =`.
#[derive(Debug)]
pub struct CommonSecrets {
    kinds: Vec<(String, Regex)>,
    all: RegexSet,
    fields: BTreeSet<String>,
}

impl CommonSecrets {
    /// The kinds that are known here.
    ///
    /// # Errors
    /// Never in practice: the patterns are tested.
    pub fn new() -> Result<Self> {
        let kinds = KINDS
            .iter()
            .map(|(name, pattern)| Ok(((*name).to_owned(), compiled(pattern)?)))
            .collect::<Result<Vec<_>>>()?;
        let all = set(&kinds)?;
        Ok(Self { kinds, all, fields: FIELDS.iter().map(|name| (*name).to_owned()).collect() })
    }

    /// One more kind, in the syntax of the `regex` crate; what a group named `secret` matches is hidden, without one the
    /// whole match. Keep it within a line: a stream is looked at line by line.
    ///
    /// # Errors
    /// `Invalid` for a pattern that is none, or for a name that is not made of lower-case letters, digits and `-`.
    pub fn also(mut self, name: &str, pattern: &str) -> Result<Self> {
        let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(known) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the name of a kind of secret has lower-case letters, digits and -",
            ));
        }
        // Of two kinds that match, the host's says more.
        self.kinds.insert(0, (name.to_owned(), compiled(pattern)?));
        self.all = set(&self.kinds)?;
        Ok(self)
    }

    /// One more name of fields whose values are secret; upper case, `_`, `-` and `.` make no difference.
    #[must_use]
    pub fn also_field(mut self, name: &str) -> Self {
        self.fields.insert(plain(name));
        self
    }

    /// The names of the kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(|(name, _)| name.as_str())
    }
}

fn compiled(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(no_pattern)
}

fn set(kinds: &[(String, Regex)]) -> Result<RegexSet> {
    RegexSet::new(kinds.iter().map(|(_, pattern)| pattern.as_str())).map_err(no_pattern)
}

/// The pattern itself is not shown: it may hold a secret.
fn no_pattern(_: regex::Error) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "this is no pattern that the redactor can use; see the syntax of the regex crate",
    )
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ')).flat_map(char::to_lowercase).collect()
}

fn marker(name: &str) -> String {
    format!("[redacted:{name}]")
}

/// Whether a text is the mark of a secret that was hidden before.
fn is_marker(text: &str) -> bool {
    text.strip_prefix("[redacted:")
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|name| !name.contains([' ', ']']))
}

fn is_innocent(text: &str) -> bool {
    INNOCENT.contains(&text.trim_end_matches(['?', '!', '.']).to_ascii_lowercase().as_str())
}

impl Redactor for CommonSecrets {
    fn text(&self, text: &str) -> Option<String> {
        let mut hidden: Option<String> = None;
        for at in self.all.matches(text) {
            let Some((name, pattern)) = self.kinds.get(at) else { continue };
            let so_far = hidden.as_deref().unwrap_or(text);
            let next = pattern.replace_all(so_far, |found: &Captures<'_>| {
                let (Some(whole), secret) = (found.get(0), found.name("secret")) else {
                    return String::new();
                };
                let secret = secret.unwrap_or(whole);
                if is_marker(secret.as_str()) || (name == "password" && is_innocent(secret.as_str())) {
                    return whole.as_str().to_owned();
                }
                let start = so_far.get(whole.start()..secret.start()).unwrap_or_default();
                let end = so_far.get(secret.end()..whole.end()).unwrap_or_default();
                format!("{start}{}{end}", marker(name))
            });
            hidden = Some(next.into_owned());
        }
        hidden
    }

    fn field(&self, name: &str, value: &str) -> Option<String> {
        if value.trim().is_empty() || is_marker(value) {
            return None;
        }
        let name = plain(name);
        if name == "token" && value.len() >= 16 && !value.contains(' ') {
            return Some(marker(&name));
        }
        self.fields.iter().find(|field| name.ends_with(field.as_str())).map(|field| marker(field))
    }

    /// Whole lines, but a key block only with its end.
    fn settled(&self, text: &str) -> usize {
        let lines = whole_lines(text);
        let settled = text.get(..lines).unwrap_or_default();
        match settled.rfind("-----BEGIN ") {
            Some(begin) if !settled.get(begin..).unwrap_or_default().contains("-----END ") => begin,
            _ => lines,
        }
    }
}
