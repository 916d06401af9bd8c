//! Command line, and the requests that come before the load; these block.

use crate::wire::{Frame, Reader};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub struct Options {
    pub mode: String,
    pub address: String,
    pub topic: String,
    pub partitions: usize,
    pub connections: usize,
    pub in_flight: usize,
    pub bytes: usize,
    pub records: usize,
    pub seconds: f64,
    pub version: i16,
    pub fetch_bytes: i32,
    pub check_crc: bool,
}

pub const USAGE: &str = "frazil-load produce|fetch|count --address HOST:PORT --topic NAME [--partitions 8] [--connections 50] [--in-flight 5]
    [--bytes 1024] [--records 1] [--seconds 5] [--version 9] [--fetch-bytes 1048576] [--check-crc 0]
produce: idempotent requests of one batch each, so many in flight per connection; count: every record once; fetch: round and round";

pub fn parse(arguments: &[String]) -> Result<Options, String> {
    let mode = arguments.first().ok_or(USAGE)?.clone();
    if !["produce", "fetch", "count"].contains(&mode.as_str()) {
        return Err(USAGE.into());
    }
    let fetching = mode != "produce";
    let mut options = Options {
        mode,
        address: "127.0.0.1:9092".into(),
        topic: String::new(),
        partitions: 8,
        connections: if fetching { 4 } else { 50 },
        in_flight: if fetching { 2 } else { 5 },
        bytes: 1024,
        records: 1,
        seconds: 5.0,
        version: 9,
        fetch_bytes: 1024 * 1024,
        check_crc: false,
    };
    for pair in arguments[1..].chunks(2) {
        let [name, value] = pair else { return Err(USAGE.into()) };
        let number = || value.parse::<f64>().map_err(|_| format!("{name} {value}: not a number"));
        match name.as_str() {
            "--address" => options.address = value.clone(),
            "--topic" => options.topic = value.clone(),
            "--partitions" => options.partitions = number()? as usize,
            "--connections" => options.connections = number()? as usize,
            "--in-flight" => options.in_flight = number()? as usize,
            "--bytes" => options.bytes = number()? as usize,
            "--records" => options.records = number()? as usize,
            "--seconds" => options.seconds = number()?,
            "--version" => options.version = number()? as i16,
            "--fetch-bytes" => options.fetch_bytes = number()? as i32,
            "--check-crc" => options.check_crc = number()? != 0.0,
            _ => return Err(format!("{name} is unknown\n{USAGE}")),
        }
    }
    if options.mode == "count" {
        options.seconds = 0.0;
    }
    let counts = [options.partitions, options.connections, options.in_flight, options.records];
    if options.topic.is_empty() || counts.contains(&0) || !(7..=11).contains(&options.version) || options.version == 8 || options.topic.len() > 126 {
        return Err(USAGE.into());
    }
    Ok(options)
}

pub fn connect(address: &str) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Producer id and epoch (InitProducerId v4, no transactional id); asks again while the broker says "later".
pub fn init_producer_id(stream: &mut TcpStream) -> Result<(i64, i16), String> {
    let mut code = 0;
    for _ in 0..50 {
        let mut frame = Frame::new(22, 4, 1);
        frame.raw(&[0, 0]).i32(60_000).i64(-1).i16(-1).raw(&[0]); // tags of the header, no transactional id, no producer yet
        let answer = call(stream, frame.done())?;
        let mut reader = Reader::new(&answer);
        reader.take(4 + 1 + 4)?;
        code = reader.i16()?;
        if code == 0 {
            return Ok((reader.i64()?, reader.i16()?));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(format!("no producer id in 50 tries; the last answer had code {code}"))
}

fn call(stream: &mut TcpStream, frame: Vec<u8>) -> Result<Vec<u8>, String> {
    let fault = |error: std::io::Error| format!("InitProducerId: {error}");
    stream.write_all(&frame).map_err(fault)?;
    let mut size = [0; 4];
    stream.read_exact(&mut size).map_err(fault)?;
    let mut answer = vec![0; i32::from_be_bytes(size).clamp(0, 1 << 20) as usize];
    stream.read_exact(&mut answer).map_err(fault)?;
    Ok(answer)
}
