//! JSON crates over the same events (one document a line): MB/s of CPU time, best of ten rounds, and what each does with hard values.
//!
//!     python -m benchmarks.json_crates            makes the events, builds and runs this
//!
//! Every crate only parses, into the form it offers for reading all of a document; the kernel's reader also fills the columns.

use std::hint::black_box;

use cpu_time::ProcessTime;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use jiter::{Jiter, JsonValue, Peek};

mod json;

/// The same allocator for all, one that is kind to those who make trees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 10;

fn main() {
    let mut paths = std::env::args().skip(1);
    for kind in ["s", "b"] {
        let path = paths.next().expect("two files of events");
        let data = std::fs::read(path).expect("events");
        let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        speeds(kind, &lines);
    }
    for (name, document) in HARD {
        hard(name, document);
    }
}

fn speeds(kind: &str, lines: &[&[u8]]) {
    report(kind, "serde_json Value", lines, |line| serde_json::from_slice::<serde_json::Value>(line).is_ok());
    report(kind, "serde_json check only", lines, |line| serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok());
    report(kind, "sonic-rs Value", lines, |line| sonic_rs::from_slice::<sonic_rs::Value>(line).is_ok());
    report(kind, "jiter JsonValue", lines, |line| JsonValue::parse(line, false).is_ok());
    report(kind, "jiter pull, every token", lines, |line| walk(&mut Jiter::new(line)).is_some());
    let (mut buffers, mut copy) = (simd_json::Buffers::default(), Vec::new());
    report(kind, "simd-json tape", lines, |line| {
        copy.clear();
        copy.extend_from_slice(line); // it writes into its input
        simd_json::to_tape_with_buffers(&mut copy, &mut buffers).is_ok()
    });
    kernel(kind, lines);
}

/// Reads every token, numbers as they are written.
fn walk(reader: &mut Jiter) -> Option<u64> {
    let mut sum = 0;
    match reader.peek().ok()? {
        Peek::Object => {
            let mut key = reader.known_object().ok()?.map(str::len);
            while let Some(length) = key {
                sum += length as u64 + walk(reader)?;
                key = reader.next_key().ok()?.map(str::len);
            }
        }
        Peek::Array => {
            let mut next = reader.known_array().ok()?;
            while next.is_some() {
                sum += walk(reader)?;
                next = reader.array_step().ok()?;
            }
        }
        Peek::String => sum += reader.known_str().ok()?.len() as u64,
        Peek::Null => reader.known_null().ok()?,
        peek @ (Peek::True | Peek::False) => sum += u64::from(reader.known_bool(peek).ok()?),
        _ => sum += reader.next_number_bytes().ok()?.len() as u64,
    }
    Some(sum)
}

fn report(kind: &str, way: &str, lines: &[&[u8]], mut read: impl FnMut(&[u8]) -> bool) {
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let started = ProcessTime::now();
        for line in lines {
            assert!(black_box(read(line)), "{way} cannot read an event");
        }
        best = best.min(started.elapsed().as_secs_f64());
    }
    println!("{kind}\t{way}\t{:.0}", bytes as f64 / best / 1e6);
}

fn kernel(kind: &str, lines: &[&[u8]]) {
    let fields = if kind == "s" { s_fields() } else { b_fields() };
    let plan = json::plan::Plan::of_fields(&fields, &mut names_of(&fields).into_iter()).expect("a plan");
    let to = DataType::Struct(fields);
    let data = lines.concat();
    let mut ends = vec![0i32];
    for line in lines {
        ends.push(ends[ends.len() - 1] + line.len() as i32);
    }
    let rules =
        json::parse::Rules { depth_max: 64, value_bytes_max: 1 << 24, nulls_fit: true, watch: false, strict: false };
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let started = ProcessTime::now();
        let records = json::slice::Records { data: &data, ends: json::slice::Ends::Small(&ends), is_null: &|_| false };
        let laid = json::slice::lay(&plan, &to, rules, &records, &[]);
        assert_eq!((laid.rows.len(), laid.unsure.len()), (lines.len(), 0));
        best = best.min(started.elapsed().as_secs_f64());
    }
    println!("{kind}\tkernel, into columns\t{:.0}", data.len() as f64 / best / 1e6);
}

fn names_of(fields: &Fields) -> Vec<json::names::Names> {
    let own = || fields.iter().enumerate().map(|(slot, field)| (field.name().clone(), slot as u32));
    let mut found =
        vec![json::names::Names { sources: own().collect(), folded: own().collect(), reserved: Default::default() }];
    for field in fields {
        match field.data_type() {
            DataType::Struct(inner) => found.extend(names_of(inner)),
            DataType::List(item) => {
                if let DataType::Struct(inner) = item.data_type() {
                    found.extend(names_of(inner));
                }
            }
            _ => {}
        }
    }
    found
}

fn fields(given: &[(&str, DataType)]) -> Fields {
    given.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect()
}

fn list(item: DataType) -> DataType {
    DataType::List(Field::new("element", item, true).into())
}

use DataType::{Boolean as Bool, Float64 as Double, Int32 as Int, Int64 as Long, Utf8 as Text};

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn s_fields() -> Fields {
    let geo = fields(&[("country", Text), ("lat", Double), ("lon", Double)]);
    fields(&[
        ("event_id", Long),
        ("user_id", Text),
        ("kind", Text),
        ("ts", instant()),
        ("price", Double),
        ("quantity", Int),
        ("is_new", Bool),
        ("page", Text),
        ("geo", DataType::Struct(geo)),
        ("session", Text),
        ("referrer", Text),
        ("coupon", Text),
    ])
}

fn b_fields() -> Fields {
    let address =
        fields(&[("street", Text), ("city", Text), ("zip", Text), ("country", Text), ("lat", Double), ("lon", Double)]);
    let customer = fields(&[("id", Long), ("name", Text), ("email", Text), ("address", DataType::Struct(address))]);
    let item = fields(&[
        ("sku", Text),
        ("title", Text),
        ("quantity", Int),
        ("price", Double),
        ("tags", list(Text)),
        ("gift", Bool),
    ]);
    fields(&[
        ("order_id", Long),
        ("trace", Text),
        ("created", instant()),
        ("customer", DataType::Struct(customer)),
        ("items", list(DataType::Struct(item))),
        ("note", Text),
        ("total", Double),
        ("device", Text),
        ("agent", Text),
        ("discount", Double),
        ("paid", Bool),
    ])
}

const HARD: [(&str, &[u8]); 9] = [
    ("integer 2^64", b"{\"a\":18446744073709551616}"),
    ("20 digits after the point", b"{\"a\":0.12345678901234567891}"),
    ("1e400", b"{\"a\":1e400}"),
    ("key twice", b"{\"a\":1,\"a\":2}"),
    ("lone surrogate", b"{\"a\":\"\\ud800\"}"),
    ("bytes that are not UTF-8", b"{\"a\":\"\xff\"}"),
    ("NaN", b"{\"a\":NaN}"),
    ("control character in text", b"{\"a\":\"\t\"}"),
    ("two documents", b"{\"a\":1}{\"a\":2}"),
];

fn hard(name: &str, document: &[u8]) {
    let serde = serde_json::from_slice::<serde_json::Value>(document).map(|value| value.to_string());
    println!("hard\t{name}\tserde_json (arbitrary_precision)\t{}", shown(serde));
    let sonic = sonic_rs::from_slice::<sonic_rs::Value>(document).map(|value| sonic_rs::to_string(&value).unwrap_or_default());
    println!("hard\t{name}\tsonic-rs\t{}", shown(sonic));
    println!("hard\t{name}\tjiter\t{}", shown(JsonValue::parse(document, false).map(|value| format!("{value:?}"))));
    let mut copy = document.to_vec();
    println!("hard\t{name}\tsimd-json\t{}", shown(simd_json::to_tape(&mut copy).map(|tape| format!("{:?}", tape.0))));
}

fn shown<E>(answer: Result<String, E>) -> String {
    answer.unwrap_or_else(|_| "refused".into())
}
