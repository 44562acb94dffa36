//! Strings within JSON, redacted in place: all bytes around them stay.

use serde::de::IgnoredAny;

use super::Redactor;
use crate::message::json::push_string;

/// How deep JSON in strings of JSON is taken apart; beyond, it is plain text.
const LEVELS: u8 = 8;

/// The JSON to store instead; `None` if there is nothing to hide. `json` is valid.
pub(super) fn json(redactor: &dyn Redactor, json: &str) -> Option<String> {
    Walk { redactor, levels: LEVELS }.json(json)
}

/// The text to store instead; `None` if there is nothing to hide.
pub(super) fn text(redactor: &dyn Redactor, text: &str) -> Option<String> {
    Walk { redactor, levels: LEVELS }.text(text)
}

#[derive(Clone, Copy)]
struct Walk<'r> {
    redactor: &'r dyn Redactor,
    levels: u8,
}

impl Walk<'_> {
    fn text(self, text: &str) -> Option<String> {
        if self.levels > 0 && is_document(text) {
            return Walk { levels: self.levels - 1, ..self }.json(text);
        }
        changed(self.redactor.text(text), text)
    }

    /// The value of a field; `name` is that of the field, also for the items of its array.
    fn value(self, name: Option<&str>, text: &str) -> Option<String> {
        name.and_then(|name| changed(self.redactor.field(name, text), text)).or_else(|| self.text(text))
    }

    fn json(self, json: &str) -> Option<String> {
        let bytes = json.as_bytes();
        let mut out = String::new();
        let mut copied = 0;
        // The name that the values at hand belong to, for each array and object that is open.
        let mut open: Vec<Option<String>> = Vec::new();
        let mut name: Option<String> = None;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let start = at;
            at += 1;
            let replaced = match byte {
                b'{' => {
                    open.push(name.take());
                    None
                }
                b'[' => {
                    open.push(name.clone());
                    None
                }
                b'}' | b']' => {
                    name = open.pop().flatten();
                    None
                }
                b'"' => {
                    at = end_of_string(bytes, at);
                    let text: String = serde_json::from_str(json.get(start..at)?).ok()?;
                    if is_name(bytes, at) {
                        let hidden = changed(self.redactor.text(&text), &text);
                        name = Some(text);
                        hidden
                    } else {
                        self.value(name.as_deref(), &text)
                    }
                }
                b'-' | b'0'..=b'9' => {
                    at = end_of_number(bytes, at);
                    let number = json.get(start..at)?;
                    name.as_deref().and_then(|name| changed(self.redactor.field(name, number), number))
                }
                _ => None,
            };
            if let Some(text) = replaced {
                out.push_str(json.get(copied..start)?);
                push_string(&mut out, &text);
                copied = at;
            }
        }
        if copied == 0 {
            return None;
        }
        out.push_str(json.get(copied..)?);
        Some(out)
    }
}

fn changed(answer: Option<String>, text: &str) -> Option<String> {
    answer.filter(|answer| answer != text)
}

/// Whether a text is a JSON object or array. Other JSON is handled well enough as text.
fn is_document(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The place after the closing quote of the string that begins before `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    bytes.len()
}

fn end_of_number(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let more = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    at + rest.iter().take_while(|byte| more(byte)).count()
}

/// Whether the string that ends before `at` names a field.
fn is_name(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hides;

    impl Redactor for Hides {
        fn text(&self, text: &str) -> Option<String> {
            text.contains("key-7").then(|| text.replace("key-7", "***"))
        }

        fn field(&self, name: &str, _: &str) -> Option<String> {
            (name == "pin").then(|| "***".to_owned())
        }
    }

    #[track_caller]
    fn hides(before: &str, after: &str) {
        assert_eq!(json(&Hides, before).as_deref(), Some(after));
        serde_json::from_str::<IgnoredAny>(after).unwrap();
        assert_eq!(json(&Hides, after), None);
    }

    #[test]
    fn all_around_a_hidden_string_keeps_its_bytes() {
        hides(
            " {\"z\" :1.50, \"a\":\"say key-7\\n\\u00e9\" , \"a\":[ \"key-7\",null,-1e5],\"b\":\"\\ud83d\\ude00\"} ",
            " {\"z\" :1.50, \"a\":\"say ***\\né\" , \"a\":[ \"***\",null,-1e5],\"b\":\"\\ud83d\\ude00\"} ",
        );
    }

    #[test]
    fn escapes_hide_nothing_from_a_redactor() {
        hides(r#""k\u0065y-\u0037""#, r#""***""#);
    }

    #[test]
    fn names_of_fields_are_texts_as_well() {
        hides(r#"{"key-7":1}"#, r#"{"***":1}"#);
    }

    #[test]
    fn a_telling_name_counts_for_its_value_and_the_items_of_its_list_and_for_no_other() {
        hides(
            r#"{"pin":"1","x":"1","pin":[1,["2"],{"y":"3","pin":4}],"x":5,"pin":null}"#,
            r#"{"pin":"***","x":"1","pin":["***",["***"],{"y":"3","pin":"***"}],"x":5,"pin":null}"#,
        );
    }

    #[test]
    fn json_in_a_string_stays_json_at_every_level() {
        let inner = r#"{"pin":"a\"b","t":"key-7"}"#;
        let twice = serde_json::to_string(&serde_json::json!({ "arguments": inner })).unwrap();
        let thrice = serde_json::to_string(&serde_json::json!([twice])).unwrap();
        let hidden: Vec<String> = serde_json::from_str(&json(&Hides, &thrice).unwrap()).unwrap();
        let hidden: serde_json::Value = serde_json::from_str(&hidden[0]).unwrap();
        assert_eq!(hidden["arguments"], r#"{"pin":"***","t":"***"}"#);
    }

    #[test]
    fn what_holds_no_secret_is_left_alone() {
        for text in ["{}", "\"\"", " [1, -2.5e+3, \"a\\\\\", \"{\", \"{}\"]", "\"\\\"key\""] {
            assert_eq!(json(&Hides, text), None, "{text}");
        }
    }
}
