//! Fetch requests as fast as they are answered: bytes and records counted by batch headers, offsets checked for jumps.

use crate::link::Link;
use crate::setup::{self, Options};
use crate::wire;
use mio::{Events, Interest, Poll, Token};
use std::time::{Duration, Instant};

/// One position in one partition; one request of it is open at a time.
struct Cursor {
    partition: i32,
    next: i64,
}

struct Fetcher {
    link: Link,
    cursors: Vec<Cursor>,
}

pub struct FetchedAll {
    pub seconds: f64,
    pub requests: u64,
    pub records: u64,
    pub bytes: u64,
    pub ends: Vec<i64>,
}

impl Fetcher {
    fn ask(&mut self, options: &Options, cursor: usize) {
        let at = &self.cursors[cursor];
        let frame = wire::fetch(cursor as i32, &options.topic, at.partition, at.next, options.fetch_bytes);
        self.link.out().extend_from_slice(&frame);
    }
}

/// With `seconds` = 0: every record of every partition once, to the high watermark. Else round and round for that long.
pub fn run(options: &Options) -> Result<FetchedAll, String> {
    let once = options.seconds == 0.0;
    let mut fetchers = Vec::new();
    for _ in 0..options.connections {
        let stream = setup::connect(&options.address)?;
        let link = Link::new(stream, options.fetch_bytes as usize + 64 * 1024).map_err(|e| e.to_string())?;
        fetchers.push(Fetcher { link, cursors: Vec::new() });
    }
    let cursors = if once { options.partitions } else { options.connections * options.in_flight };
    for number in 0..cursors {
        let partition = (number % options.partitions) as i32;
        fetchers[number % options.connections].cursors.push(Cursor { partition, next: 0 });
    }
    let mut poll = Poll::new().map_err(|e| e.to_string())?;
    for (number, fetcher) in fetchers.iter_mut().enumerate() {
        let wanted = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut fetcher.link.stream, Token(number), wanted).map_err(|e| e.to_string())?;
    }
    let mut result = FetchedAll { seconds: 0.0, requests: 0, records: 0, bytes: 0, ends: vec![0; options.partitions] };
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(if once { 3600.0 } else { options.seconds });
    let mut open = 0;
    for fetcher in &mut fetchers {
        for cursor in 0..fetcher.cursors.len() {
            fetcher.ask(options, cursor);
            open += 1;
        }
        fetcher.link.flush()?;
    }
    let mut events = Events::with_capacity(256);
    let mut last_answer = began;
    while open > 0 {
        poll.poll(&mut events, Some(Duration::from_secs(1))).map_err(|e| e.to_string())?;
        if last_answer.elapsed() > Duration::from_secs(30) {
            return Err(format!("no answer for 30 s; {open} requests are open"));
        }
        for event in &events {
            let fetcher = &mut fetchers[event.token().0];
            if event.is_readable() {
                let answered = answers(fetcher, options, once, end, &mut result)?;
                if answered.0 > 0 {
                    last_answer = Instant::now();
                }
                open = open + answered.1 - answered.0;
            }
            fetcher.link.flush()?;
        }
    }
    result.seconds = began.elapsed().as_secs_f64();
    Ok(result)
}

/// Takes what has come and asks on; (answered, asked).
fn answers(fetcher: &mut Fetcher, options: &Options, once: bool, end: Instant, into: &mut FetchedAll) -> Result<(usize, usize), String> {
    let (mut answered, mut asked) = (0, 0);
    loop {
        let more = fetcher.link.receive()?;
        while let Some(place) = fetcher.link.frame() {
            let bytes = fetcher.link.bytes(place);
            let number = i32::from_be_bytes(bytes[..4].try_into().map_err(|_| "an answer of less than 4 bytes")?) as usize;
            let cursor = fetcher.cursors.get_mut(number).ok_or("an answer with a foreign correlation id")?;
            let found = wire::fetched(bytes, cursor.next, options.check_crc)?;
            if found.error != 0 {
                return Err(format!("fetch of partition {} at {} failed with code {}", cursor.partition, cursor.next, found.error));
            }
            answered += 1;
            into.requests += 1;
            into.records += found.records;
            into.bytes += found.bytes as u64;
            cursor.next = found.next;
            let finished = cursor.next >= found.high_watermark;
            if finished {
                into.ends[cursor.partition as usize] = cursor.next;
                cursor.next = 0;
            } else if found.batches == 0 {
                return Err(format!("nothing at offset {} of partition {}, below {}", cursor.next, cursor.partition, found.high_watermark));
            }
            if !(once && finished) && Instant::now() < end {
                fetcher.ask(options, number);
                asked += 1;
            }
        }
        if !more {
            return Ok((answered, asked));
        }
        fetcher.link.flush()?;
    }
}
