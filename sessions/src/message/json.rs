//! JSON read as raw pieces and written piece by piece, so that what nobody understands keeps its bytes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of an object, in order, each with its raw value. Repeated names are all kept.
#[derive(Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The fields of a JSON text; `None` when it is no object.
    pub(crate) fn parse(json: &'a str) -> Option<Self> {
        if !json.trim_start().starts_with('{') {
            return None;
        }
        serde_json::from_str(json).ok()
    }

    /// The raw value of a field; of a repeated one the last, as most JSON readers take it.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(field, _)| field == name).map(|(_, raw)| raw.get())
    }

    /// A field that is a string.
    pub(crate) fn string(&self, name: &str) -> Option<String> {
        string(self.raw(name)?)
    }

    /// A field that is `true` or `false`.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.raw(name)? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// Every field in order, repeated ones too.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, raw)| (name.as_ref(), raw.get()))
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    fields.push((name, map.next_value::<&'de RawValue>()?));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// The name of a field, borrowed unless it has escapes. A `Cow` of serde's own is always a copy.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// The raw items of an array; `None` when it is no array.
pub(crate) fn array(json: &str) -> Option<Vec<&str>> {
    if !json.trim_start().starts_with('[') {
        return None;
    }
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// The text of a JSON string; `None` when it is none.
pub(crate) fn string(json: &str) -> Option<String> {
    if !json.trim_start().starts_with('"') {
        return None;
    }
    serde_json::from_str(json).ok()
}

/// Writes a text as a JSON string.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        if escape.is_empty() {
            out.push_str(&format!("\\u{byte:04x}"));
        } else {
            out.push_str(escape);
        }
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// Writes an object field by field.
pub(crate) struct ObjectWriter(String);

impl ObjectWriter {
    pub(crate) fn new() -> Self {
        Self(String::from("{"))
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        push_string(&mut self.0, name);
        self.0.push(':');
    }

    /// Adds a string.
    pub(crate) fn string(&mut self, name: &str, text: &str) -> &mut Self {
        self.name(name);
        push_string(&mut self.0, text);
        self
    }

    /// Adds a value that is JSON already.
    pub(crate) fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        self.name(name);
        self.0.push_str(json);
        self
    }

    /// Adds an array of values that are JSON already.
    pub(crate) fn list<'a>(&mut self, name: &str, items: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.name(name);
        self.0.push('[');
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            self.0.push_str(item);
        }
        self.0.push(']');
        self
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_written_as_a_json_reader_expects_them() {
        for text in ["", "plain", "a\"b\\c\n\r\t\u{0}\u{1f}\u{7f}é😀", "\u{2028}"] {
            let mut json = String::new();
            push_string(&mut json, text);
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }

    #[test]
    fn repeated_fields_are_kept_and_the_last_one_counts() {
        let object = Object::parse(r#" {"a":1, "\u0062":"x","a": [2, 3] }"#).unwrap();
        assert_eq!(object.raw("a"), Some("[2, 3]"));
        assert_eq!(object.string("b").as_deref(), Some("x"));
        assert_eq!(object.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b", "a"]);
        assert!(Object::parse("[1]").is_none());
    }

    #[test]
    fn an_object_is_written_in_the_order_given() {
        let mut out = ObjectWriter::new();
        out.string("z", "1").raw("a", "1.0").list("l", ["1", "{}"]);
        assert_eq!(out.finish(), r#"{"z":"1","a":1.0,"l":[1,{}]}"#);
    }
}
