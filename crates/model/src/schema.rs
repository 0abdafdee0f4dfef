//! The JSON Schema of the configuration (draft 2020-12), from the types: for editors that complete and check YAML.

use serde_json::{Map, Value as Json, json};

use crate::config::Config;
use crate::setting::Setting;
use crate::shape::{Enum, Field, Shape, Struct};

/// The JSON Schema of a configuration file.
#[must_use]
pub fn json_schema() -> Json {
    let mut types = Map::new();
    let root = schema(&Config::shape(), &mut types);
    let mut out = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Headgate configuration",
        "$defs": types,
    });
    out["$ref"] = root["$ref"].clone();
    out
}

fn schema(shape: &Shape, types: &mut Map<String, Json>) -> Json {
    match shape {
        Shape::Scalar { form, schema, .. } => {
            let mut schema = schema.clone();
            schema["description"] = json!(form);
            // environment variables may stand wherever a value does
            match schema.get("type").and_then(Json::as_str) {
                Some("string") | None => schema,
                Some(_) => json!({"anyOf": [schema, {"type": "string", "pattern": r"\$\{"}]}),
            }
        }
        Shape::Optional { of, off } => {
            let mut forms = vec![schema(of, types), json!({"type": "null"})];
            if *off {
                forms.push(json!({"const": "off"}));
                // which is how parsers of YAML 1.1 read it
                forms.push(json!({"const": false}));
            }
            json!({"anyOf": forms})
        }
        Shape::List(of) => {
            let of = schema(of, types);
            json!({"anyOf": [{"type": "array", "items": of}, of]})
        }
        Shape::Map(of) => {
            json!({"type": ["object", "null"], "additionalProperties": schema(of, types)})
        }
        Shape::Struct(shape) => {
            let name = type_name(shape.name, shape.short.is_some(), types);
            if !types.contains_key(&name) {
                let schema = of_struct(shape, types);
                types.insert(name.clone(), schema);
            }
            json!({"$ref": format!("#/$defs/{name}")})
        }
        Shape::Enum(shape) => {
            if !types.contains_key(shape.name) {
                let schema = of_enum(shape, types);
                types.insert(shape.name.to_owned(), schema);
            }
            json!({"$ref": format!("#/$defs/{}", shape.name)})
        }
    }
}

/// A type whose map may be abbreviated in one place alone is two types to the schema.
fn type_name(name: &str, short: bool, types: &Map<String, Json>) -> String {
    let name = name.trim_end_matches("Fields");
    match types.get(name) {
        Some(known) if known.get("anyOf").is_some() != short => {
            format!("{name}{}", if short { "OrText" } else { "Map" })
        }
        _ => name.to_owned(),
    }
}

fn of_struct(shape: &Struct, types: &mut Map<String, Json>) -> Json {
    let mut properties = Map::new();
    for field in &shape.fields {
        properties.insert(field.name.to_owned(), of_field(field, types));
    }
    let required: Vec<_> = shape
        .fields
        .iter()
        .filter(|f| f.default.is_none())
        .map(|f| f.name)
        .collect();
    let map = json!({
        "type": "object",
        "description": shape.doc,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    match shape.short {
        None => map,
        Some(short) => {
            json!({"anyOf": [map, {"type": ["string", "number", "boolean", "array"], "description": short}]})
        }
    }
}

fn of_field(field: &Field, types: &mut Map<String, Json>) -> Json {
    let mut schema = schema(&field.shape, types);
    schema["description"] = json!(field.doc);
    if let Some(default) = field.default.as_ref().filter(|default| !default.is_null()) {
        schema["default"] = default.clone();
    }
    if let (Some(range), Some(forms)) = (&field.range, schema.get_mut("anyOf")) {
        // sizes and durations are texts, which have no order in JSON Schema
        if matches!(&field.shape, Shape::Scalar { name: "number", .. }) {
            forms[0]["minimum"] = json!(range.low);
            forms[0]["maximum"] = json!(range.high);
        }
    }
    schema
}

fn of_enum(shape: &Enum, types: &mut Map<String, Json>) -> Json {
    let mut forms = Vec::new();
    for variant in &shape.variants {
        forms.push(match &variant.of {
            None => json!({"const": variant.word, "description": variant.doc}),
            Some(of) => json!({
                "type": "object",
                "description": variant.doc,
                "properties": {variant.word: schema(of, types)},
                "required": [variant.word],
                "additionalProperties": false,
            }),
        });
        // a YAML parser for JSON Schema reads these words as other than text
        match variant.word {
            "off" => forms.push(json!({"const": false})),
            word => forms.extend(
                word.parse::<f64>()
                    .ok()
                    .map(|number| json!({"const": number})),
            ),
        }
    }
    if let Some(short) = shape.short {
        forms.push(json!({"type": ["string", "number", "object"], "description": short}));
    }
    json!({"description": shape.doc, "anyOf": forms})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_is_referred_to_is_defined() {
        fn refs<'a>(json: &'a Json, out: &mut Vec<&'a str>) {
            match json {
                Json::Object(map) => {
                    for (key, value) in map {
                        match (key.as_str(), value.as_str()) {
                            ("$ref", Some(name)) => out.push(name),
                            _ => refs(value, out),
                        }
                    }
                }
                Json::Array(items) => items.iter().for_each(|item| refs(item, out)),
                _ => {}
            }
        }
        let schema = json_schema();
        let mut found = Vec::new();
        refs(&schema, &mut found);
        assert!(found.len() > 30, "{found:?}");
        for name in found {
            let name = name.strip_prefix("#/$defs/").expect("within the schema");
            assert!(schema["$defs"].get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn unknown_fields_are_refused_and_required_ones_asked_for() {
        let schema = json_schema();
        let pool = &schema["$defs"]["Pool"];
        assert_eq!(pool["additionalProperties"], json!(false));
        assert_eq!(pool["required"], json!(["members"]));
        assert_eq!(pool["properties"]["slow_start"]["default"], json!("0s"));
        let weight = &schema["$defs"]["Member"]["anyOf"][0]["properties"]["weight"];
        assert_eq!(weight["anyOf"][0]["maximum"], json!(256.0));
    }
}
