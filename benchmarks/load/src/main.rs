//! `frazil-load`: a closed-loop Kafka client for benchmarks. One thread, any Kafka broker, a JSON object on stdout.
//!
//! Every answer is checked: its order, its error code, and that no two requests got the same offsets.

mod fetching;
mod link;
mod producing;
mod setup;
mod wire;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match setup::parse(&arguments).and_then(|options| run(&options)) {
        Ok(report) => println!("{report}"),
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(1);
        }
    }
}

fn run(options: &setup::Options) -> Result<String, String> {
    if options.mode == "produce" {
        let mut made = producing::run(options)?;
        made.latencies_us.sort_unstable();
        let at = |share: f64| made.latencies_us.get((made.latencies_us.len() as f64 * share) as usize).map_or(0.0, |&us| f64::from(us) / 1000.0);
        return Ok(format!(
            "{{\"requests\": {}, \"records\": {}, \"bytes\": {}, \"seconds\": {:.4}, \"requests_per_second\": {:.0}, \"mb_per_second\": {:.1}, \"p50_ms\": {:.2}, \"p99_ms\": {:.2}}}",
            made.requests,
            made.requests * options.records as u64,
            made.bytes,
            made.seconds,
            made.requests as f64 / made.seconds,
            made.bytes as f64 / made.seconds / 1e6,
            at(0.5),
            at(0.99),
        ));
    }
    let found = fetching::run(options)?;
    Ok(format!(
        "{{\"requests\": {}, \"records\": {}, \"bytes\": {}, \"seconds\": {:.4}, \"mb_per_second\": {:.1}, \"records_per_second\": {:.0}, \"ends\": {:?}}}",
        found.requests,
        found.records,
        found.bytes,
        found.seconds,
        found.bytes as f64 / found.seconds / 1e6,
        found.records as f64 / found.seconds,
        found.ends,
    ))
}
